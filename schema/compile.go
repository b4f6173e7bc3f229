package schema

import (
	"slices"

	"espalier.dev/internal/jsonx"
)

// Option configures Compile.
type Option func(*options)

type options struct {
	semantics   Semantics
	preserveAll bool
	identity    *Identity
	rules       RuleCompiler
	namesBelow  int
	patterns    *Patterns
}

// WithSemantics sets the semantics. The default is KEP.
func WithSemantics(s Semantics) Option {
	return func(o *options) { o.semantics = s }
}

// WithPreserveUnknownFields corresponds to preserveUnknownFields: true of a CRD: only
// metadata is pruned, and nulls are kept.
func WithPreserveUnknownFields() Option {
	return func(o *options) { o.preserveAll = true }
}

// WithIdentity makes Validate also check apiVersion, kind and metadata of the object
// itself.
func WithIdentity(id Identity) Option {
	return func(o *options) { o.identity = &id }
}

// WithNamesBelow makes messages omit the first n fields of a path. When kube-apiserver
// validates a status by itself, its messages do not contain "status".
func WithNamesBelow(n int) Option {
	return func(o *options) { o.namesBelow = n }
}

// WithPatterns makes the Program share its compiled patterns with all others that are
// compiled with the same Patterns.
func WithPatterns(p *Patterns) Option {
	return func(o *options) { o.patterns = p }
}

// Compile returns the Program of a schema. A nil schema specifies nothing: apiVersion,
// kind and metadata are kept, everything else is pruned, and every object is valid.
//
// The schema need not be structural. The parts that make it non-structural are validated
// too; only what is outside of logical operators affects pruning and defaulting.
//
// Compile copies what it needs: later changes to s do not affect the Program.
func Compile(s *Structural, opts ...Option) (*Program, error) {
	if s == nil {
		s = &Structural{}
	}
	c := newCompiler(opts, coreNodes(s))
	pruning := PruningOn
	if c.p.preserveAll {
		pruning = PruningOff
	}
	c.core(NewCursor(s, c.p.semantics, pruning), none, SchemaStep{})
	if err := c.compileRules(s, c.options.rules); err != nil {
		return nil, err
	}
	return c.finish()
}

// compiler builds the nodes of a Program.
type compiler struct {
	options
	p *Program
	// patterns, types and checks are those of the nodes so far, for other nodes to share.
	patterns map[string]*pattern
	types    []*typeCheck
	checks   map[bounds]*checks
	// hasRules is true if the schema has x-kubernetes-validations anywhere.
	hasRules bool
}

// newCompiler returns a compiler for about as many nodes as given: a slice that grows node by node
// costs four times the memory of its nodes.
func newCompiler(opts []Option, nodes int) *compiler {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	c := &compiler{
		options:  o,
		p:        &Program{semantics: o.semantics, preserveAll: o.preserveAll, identity: o.identity, namesBelow: o.namesBelow},
		patterns: map[string]*pattern{}, checks: map[bounds]*checks{},
	}
	c.p.nodes = append(make([]node, 0, nodes+1), node{
		flags: prunes, accepts: acceptsAll, shape: acceptsAll, items: nowhere, additional: none, parent: none,
	})
	return c
}

// coreNodes returns the number of nodes that a schema needs, at most.
func coreNodes(s *Structural) int {
	if s == nil {
		return 0
	}
	n := 1 + coreNodes(s.Items) + operatorNodes(s.ValueValidation)
	for _, prop := range s.Properties {
		n += coreNodes(prop)
	}
	if s.AdditionalProperties != nil {
		n += coreNodes(s.AdditionalProperties.Structural)
	}
	return n
}

// nestedNodes is coreNodes for a schema under a logical operator.
func nestedNodes(v *NestedValueValidation) int {
	if v == nil {
		return 0
	}
	n := 1 + nestedNodes(v.Items) + operatorNodes(&v.ValueValidation)
	for _, prop := range v.Properties {
		n += nestedNodes(prop)
	}
	if v.AdditionalProperties != nil {
		n += nestedNodes(v.AdditionalProperties.Nested)
	}
	return n
}

func operatorNodes(v *ValueValidation) (n int) {
	if v == nil {
		return 0
	}
	for _, list := range [][]NestedValueValidation{v.AllOf, v.AnyOf, v.OneOf} {
		for i := range list {
			n += nestedNodes(&list[i])
		}
	}
	return n + nestedNodes(v.Not)
}

// finish completes what depends on all nodes.
func (c *compiler) finish() (*Program, error) {
	p := c.p
	c.compact()
	c.finishRoot()
	if p.hasDefaults {
		if !p.preserveAll {
			c.completeDefaults()
		}
		c.markDefaults()
		if err := c.boundDefaults(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// compact releases what was needed to add nodes. All nodes without properties share an
// empty table.
func (c *compiler) compact() {
	if spare := cap(c.p.nodes) - len(c.p.nodes); spare > len(c.p.nodes)/8 {
		c.p.nodes = slices.Clone(c.p.nodes)
	}
	empty := &properties{}
	for i := range c.p.nodes {
		if n := &c.p.nodes[i]; n.props == nil {
			n.props = empty
		}
	}
}

// finishRoot marks the root as a resource.
func (c *compiler) finishRoot() {
	n := &c.p.nodes[root]
	n.flags |= isRoot
	if n.flags&closed != 0 && c.p.semantics.ExcusesMetaFields() {
		n.flags |= excusesMeta
	}
}

func (c *compiler) add(parent int32, step SchemaStep) int32 {
	c.p.nodes = append(c.p.nodes, node{items: none, additional: none, parent: parent, step: step, accepts: acceptsAll, shape: acceptsAll})
	return int32(len(c.p.nodes) - 1)
}

// core adds the node of the schema at the cursor, which is outside of logical
// operators. It resolves everything that depends on the path to the value, so that
// walks over objects need not.
func (c *compiler) core(at Cursor, parent int32, step SchemaStep) int32 {
	s := at.Schema()
	id := c.add(parent, step)
	n := node{items: none, additional: none, parent: parent, step: step}
	c.generic(&n, &s.Generic, &s.Extensions, s.ValueValidation)
	c.hasRules = c.hasRules || len(s.XValidations) > 0
	if at.InMetadata() {
		n.flags |= inMetadata
	}
	if at.Prunes() {
		n.flags |= prunes
	}
	if s.XEmbeddedResource {
		n.flags |= embedded
	}
	n.shape = acceptsAll
	if t := typeSet(s.Type); t != 0 && !s.XIntOrString && at.Entered() == PruningOn {
		n.shape = t
		if s.Nullable {
			n.shape |= kNull.bit()
		}
	}
	if s.Default != nil && s.Default.Value != nil {
		n.flags |= hasDefault
		n.dflt = jsonx.Copy(s.Default.Value)
		c.p.hasDefaults = true
	}
	n.list = newListCheck(s)
	if n.list != nil && n.list.isMap && s.Type == "array" && len(n.list.keys) > 0 {
		n.flags |= correlates
	}
	if c.p.semantics.KnowsUnions() {
		n.unions = newUnionChecks(s.XUnions)
	}
	if item := at.Items(); item.Schema() != nil {
		n.items = c.core(item, id, keyword("items"))
	} else if item.Prunes() {
		n.items = nowhere
	}
	if len(s.Properties) > 0 {
		list := make([]property, 0, len(s.Properties))
		for name, prop := range s.Properties {
			list = append(list, property{name, c.core(at.property(name, prop), id, named("properties", name))})
		}
		n.props = newProperties(list)
	}
	if ap := s.AdditionalProperties; ap != nil {
		value, _ := at.MapValue()
		switch {
		case value.Schema() != nil:
			n.additional = c.core(value, id, keyword("additionalProperties"))
		case value.Prunes():
			n.additional = nowhere
		}
		if !ap.Bool {
			n.flags |= closed
		}
	}
	if s.ValueValidation != nil {
		n.operators = c.newOperators(s.ValueValidation, id)
	}
	c.p.nodes[id] = n
	return id
}

// nested adds the node of a schema under a logical operator, or below such a schema.
func (c *compiler) nested(v *NestedValueValidation, parent int32, step SchemaStep) int32 {
	id := c.add(parent, step)
	n := node{items: none, additional: none, parent: parent, step: step, shape: acceptsAll}
	c.generic(&n, &v.ForbiddenGenerics, &v.ForbiddenExtensions, &v.ValueValidation)
	c.hasRules = c.hasRules || len(v.XValidations) > 0
	if v.Items != nil {
		n.items = c.nested(v.Items, id, keyword("items"))
	}
	if len(v.Properties) > 0 {
		list := make([]property, 0, len(v.Properties))
		for name, prop := range v.Properties {
			list = append(list, property{name, c.nested(prop, id, named("properties", name))})
		}
		n.props = newProperties(list)
	}
	if ap := v.AdditionalProperties; ap != nil {
		switch {
		case ap.Nested != nil:
			n.additional = c.nested(ap.Nested, id, keyword("additionalProperties"))
		case !ap.Bool:
			n.flags |= closed
		}
	}
	n.operators = c.newOperators(&v.ValueValidation, id)
	c.p.nodes[id] = n
	return id
}

// generic sets what core schemas and schemas under logical operators have in common.
func (c *compiler) generic(n *node, g *Generic, x *Extensions, v *ValueValidation) {
	var types []string
	switch {
	case x.XIntOrString:
		types = intOrStringTypes
	case g.Type != "":
		types = []string{g.Type}
	}
	if g.Nullable {
		n.flags |= nullable
	}
	format := ""
	if v != nil {
		format = checkedFormat(types, v.Format)
		n.required = slices.Clone(v.Required)
	}
	n.accepts = acceptedTypes(types, format, g.Nullable)
	if n.accepts != acceptsAll {
		n.types = c.typeCheck(types, format)
	}
	n.checks = c.newChecks(types, format, v)
}

var intOrStringTypes = []string{"integer", "string"}

// checkedFormat returns the format if Kubernetes checks it on the types, or "".
func checkedFormat(types []string, format string) string {
	if format == "" {
		return ""
	}
	typ := ""
	if len(types) == 1 {
		typ = types[0]
	}
	switch typ {
	case "", "string":
		if stringFormat(format) != nil {
			return format
		}
	case "integer":
		if format == "int32" || format == "int64" {
			return format
		}
	case "number":
		if format == "float" || format == "double" {
			return format
		}
	}
	return ""
}

// acceptedTypes returns the set of values that have an allowed type. As in Kubernetes,
// a format without a number type accepts strings and arrays.
func acceptedTypes(types []string, format string, isNullable bool) accepts {
	if len(types) == 0 && format == "" {
		return acceptsAll
	}
	var a accepts
	for _, t := range types {
		a |= typeSet(t)
	}
	if format != "" && a&acceptsNumbers == 0 {
		a |= kString.bit() | kArray.bit()
	}
	if isNullable || len(types) == 0 {
		a |= kNull.bit()
	}
	return a
}

// typeCheck returns the type keyword of a node. Equal ones are shared.
func (c *compiler) typeCheck(names []string, format string) *typeCheck {
	for _, t := range c.types {
		if t.format == format && slices.Equal(t.names, names) {
			return t
		}
	}
	t := &typeCheck{names: slices.Clone(names), format: format}
	c.types = append(c.types, t)
	return t
}

// newChecks returns the checks of a node, or nil if there are none. Equal ones are shared,
// except enums.
func (c *compiler) newChecks(types []string, format string, v *ValueValidation) *checks {
	var k checks
	if len(types) == 1 && (types[0] == "integer" || types[0] == "number") {
		k.numberType, k.numberFormat = types[0], format
		if types[0] == "integer" || format == "float" {
			k.has |= cNumberRange
		}
	}
	if v == nil {
		if k.has == 0 {
			return nil
		}
		return c.shared(k)
	}
	bound := func(value *float64, exclusive bool, flag, exclusiveFlag, outOfRange checkSet) float64 {
		if value == nil {
			return 0
		}
		k.has |= flag
		if exclusive {
			k.has |= exclusiveFlag
		}
		if !fitsNumber(*value, k.numberType, k.numberFormat) {
			k.has |= outOfRange
		}
		return *value
	}
	k.maximum = bound(v.Maximum, v.ExclusiveMaximum, cMaximum, cExclusiveMaximum, cMaximumOutOfRange)
	k.minimum = bound(v.Minimum, v.ExclusiveMinimum, cMinimum, cExclusiveMinimum, cMinimumOutOfRange)
	k.multipleOf = bound(v.MultipleOf, false, cMultipleOf, 0, cMultipleOfOutOfRange)
	limit := func(value *int64, flag checkSet) int64 {
		if value == nil {
			return 0
		}
		k.has |= flag
		return *value
	}
	k.maxLength = limit(v.MaxLength, cMaxLength)
	k.minLength = limit(v.MinLength, cMinLength)
	k.maxItems = limit(v.MaxItems, cMaxItems)
	k.minItems = limit(v.MinItems, cMinItems)
	k.maxProperties = limit(v.MaxProperties, cMaxProperties)
	k.minProperties = limit(v.MinProperties, cMinProperties)
	if v.UniqueItems {
		k.has |= cUniqueItems
	}
	if v.Pattern != "" {
		k.pattern = c.pattern(v.Pattern)
	}
	if k.numberType == "" {
		k.format, k.formatName = stringFormat(format), format
	}
	if len(v.Enum) > 0 {
		k.enum = make([]any, len(v.Enum))
		for i := range v.Enum {
			k.enum[i] = jsonx.Copy(v.Enum[i].Value)
		}
	}
	if k.has == 0 && k.pattern == nil && k.format == nil && k.enum == nil {
		return nil
	}
	return c.shared(k)
}

// shared returns the checks that are equal to k and were made first.
func (c *compiler) shared(k checks) *checks {
	if k.enum != nil {
		own := k // most are shared, and do not get memory of their own
		return &own
	}
	first := c.checks[k.bounds]
	if first == nil {
		first = &checks{bounds: k.bounds, format: k.format}
		c.checks[k.bounds] = first
	}
	return first
}

// pattern returns the pattern for a source. Equal sources share one pattern.
func (c *compiler) pattern(source string) *pattern {
	if p := c.patterns[source]; p != nil {
		return p
	}
	p := c.options.patterns.get(source)
	c.patterns[source] = p
	return p
}

// operators are the schemas under allOf, anyOf, oneOf and not.
type operators struct {
	allOf, anyOf, oneOf []int32
	not                 int32
}

func (c *compiler) newOperators(v *ValueValidation, parent int32) *operators {
	if len(v.AllOf) == 0 && len(v.AnyOf) == 0 && len(v.OneOf) == 0 && v.Not == nil {
		return nil
	}
	j := &operators{not: none}
	branches := func(name string, list []NestedValueValidation) []int32 {
		if len(list) == 0 {
			return nil
		}
		ids := make([]int32, len(list))
		for i := range list {
			ids[i] = c.nested(&list[i], parent, indexed(name, i))
		}
		return ids
	}
	j.allOf = branches("allOf", v.AllOf)
	j.anyOf = branches("anyOf", v.AnyOf)
	j.oneOf = branches("oneOf", v.OneOf)
	if v.Not != nil {
		j.not = c.nested(v.Not, parent, keyword("not"))
	}
	return j
}

// markDefaults records which nodes have defaults below them, so that the walks that
// apply defaults skip all other subtrees.
func (c *compiler) markDefaults() {
	nodes := c.p.nodes
	for i := len(nodes) - 1; i > 0; i-- {
		n := &nodes[i]
		for j, prop := range n.props.list {
			if nodes[prop.node].flags&hasDefault != 0 {
				n.props.defaulted = append(n.props.defaulted, int32(j))
				nodes[prop.node].ordinal = int32(len(n.props.defaulted))
			}
		}
		if n.flags&(hasDefault|defaultsBelow) != 0 && n.parent > nowhere {
			nodes[n.parent].flags |= defaultsBelow
		}
	}
}

// completeDefaults prunes each default and normalizes its metadata, as if it were in an
// object.
func (c *compiler) completeDefaults() {
	p := c.p
	for i := range p.nodes {
		n := &p.nodes[i]
		if n.flags&hasDefault == 0 || int32(i) == root {
			continue
		}
		if n.flags&inMetadata == 0 && !isContainer(n.dflt) {
			continue
		}
		if n.dflt = p.pruneDefault(int32(i)); n.dflt == nil {
			n.flags &^= hasDefault
		}
	}
}
