package impact

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"espalier.dev/schema"
)

// comparer compares the schemas of two versions.
type comparer struct {
	Options
	ctx context.Context
	// oldAll and newAll report whether preserveUnknownFields is on.
	oldAll, newAll         bool
	oldVersion, newVersion string
	// oldBase and newBase are the pointers of the schemas.
	oldBase, newBase string

	anything    side
	unspecified *schema.Structural
	meta        map[string]*schema.Structural
	rules       *ruleParser
	prover      prover
	changes     []*Change
	// switched is the change that turned on pruning for the values below it.
	switched *Change
	// scaled are the values that the new scale subresource reads. selector is the one of
	// them that is not a number of replicas, if any.
	scaled   []schema.SchemaPath
	selector schema.SchemaPath
	siblings siblings
}

func newComparer(ctx context.Context, o Options) *comparer {
	rules := newRuleParser(o.Rules)
	return &comparer{
		Options:     o,
		ctx:         ctx,
		anything:    newAnything(o.Semantics),
		unspecified: &schema.Structural{Generic: schema.Generic{Nullable: true}},
		meta:        metaSchemas(),
		rules:       rules,
		prover:      prover{proverSteps, rules},
	}
}

// via is the way to a value.
type via uint8

const (
	viaField via = iota
	viaMap
	viaItems
	viaRoot
	// viaMeta is apiVersion, kind or metadata of a resource.
	viaMeta
)

// place is the location of a value.
type place struct {
	// path leads to the value in objects, old and new lead to its schemas.
	path, old, new schema.SchemaPath
	via            via
	// trail has the new schemas on the way, from the root to the value's own.
	trail []*schema.Structural
}

func (p place) down(step schema.SchemaStep, oldStep, newStep schema.SchemaStep, how via, n *schema.Structural) place {
	return place{extend(p.path, step), extend(p.old, oldStep), extend(p.new, newStep), how, extend(p.trail, n)}
}

// schema returns the new schema of the value.
func (p place) schema() *schema.Structural { return p.trail[len(p.trail)-1] }

func extend[S ~[]E, E any](s S, e E) S { return append(slices.Clip(s), e) }

func property(name string) schema.SchemaStep {
	return schema.SchemaStep{Keyword: "properties", Form: schema.StepNamed, Name: name}
}

var (
	itemsStep = schema.SchemaStep{Keyword: "items"}
	mapStep   = schema.SchemaStep{Keyword: "additionalProperties"}
)

// alteration describes how other conditions see a value change, apart from its effects.
type alteration uint8

const (
	unaltered alteration = iota
	// gone: a value that was present may disappear.
	gone
	// appears: a value that was absent may be present, or the value may differ.
	appears
	// differs: a value that was present may have a different value.
	differs
	// retyped: a rule sees the same value with a different type.
	retyped
)

// emit adds a change at a place, with its effects on the schemas around it.
func (c *comparer) emit(at place, kind, keyword, message string, effects ...Effect) *Change {
	return c.emitAltering(at, unaltered, kind, keyword, message, effects...)
}

// emitAltering is like emit, for a change that alters what other conditions see at at.path
// even without an effect.
func (c *comparer) emitAltering(at place, alters alteration, kind, keyword, message string, effects ...Effect) *Change {
	suffix := ""
	if keyword != "" {
		// keyword may end in an index. It has no characters to escape.
		suffix = "/" + keyword
	}
	ch := &Change{
		Kind: kind, OldVersion: c.oldVersion, NewVersion: c.newVersion, Path: at.path, Message: message, inSchema: true,
		OldPointer: c.oldBase + at.old.Pointer() + suffix, NewPointer: c.newBase + at.new.Pointer() + suffix,
	}
	c.changes = append(c.changes, ch)
	c.affect(ch, at, effects...)
	if alters != unaltered {
		c.dependents(ch, at.trail, at.path, alters, nil)
	}
	ch.Leniency = leniency(ch, at.trail)
	return ch
}

// affect adds effects to a change, with their consequences.
func (c *comparer) affect(ch *Change, p place, effects ...Effect) {
	ch.Effects = append(ch.Effects, effects...)
	for _, e := range effects {
		switch e.Class {
		case Loses:
			c.dependents(ch, p.trail, e.Path, gone, nil)
		case Defaulted:
			var known *knownValue
			if value, ok := c.defaultOf(p.schema()); !ok {
				ch.Effects = append(ch.Effects, at(Invalid, e.Path, "the default itself is invalid"))
			} else if e.own {
				known = &knownValue{value: value}
			}
			how := appears
			if e.differs {
				how = differs
			}
			c.dependents(ch, p.trail, e.Path, how, known)
			for _, scaled := range c.scaled {
				if related(e.Path, scaled) && !c.defaultsReplicas(p, scaled) {
					ch.Effects = append(ch.Effects, at(Invalid, scaled, "the scale subresource reads it"))
				}
			}
		}
	}
}

// defaultsReplicas reports whether the default of the value at p is a number of replicas that the
// scale subresource can read at scaled.
func (c *comparer) defaultsReplicas(p place, scaled schema.SchemaPath) bool {
	s := p.schema()
	if !slices.Equal(p.path, scaled) || slices.Equal(scaled, c.selector) || !hasDefault(s) {
		return false
	}
	n, ok := s.Default.Value.(int64)
	return ok && n >= 0 && n <= math.MaxInt32
}

// defaultOf returns the value that the default of a schema becomes in an object, or nil if the
// schema has no default. It returns false if that value violates the schema. The API server
// rejects most such schemas, but not all.
func (c *comparer) defaultOf(s *schema.Structural) (any, bool) {
	if !hasDefault(s) {
		return nil, true
	}
	opts := []schema.Option{schema.WithSemantics(c.Semantics), schema.WithoutRules()}
	if c.Rules != nil {
		opts[1] = schema.WithRules(c.Rules.Compile)
	}
	p, err := schema.Compile(&schema.Structural{
		Generic:    schema.Generic{Type: "object"},
		Properties: map[string]*schema.Structural{"value": s},
	}, opts...)
	if err != nil {
		return nil, false
	}
	obj := schema.Object{}
	_, _ = p.Normalize(obj, schema.DecodeOptions{FromStorage: true}) // it has no metadata
	return obj["value"], len(p.Validate(c.ctx, obj, nil)) == 0
}

// related reports whether one path leads to the other.
func related(a, b schema.SchemaPath) bool {
	n := min(len(a), len(b))
	return slices.Equal(a[:n], b[:n])
}

func at(class Class, p schema.SchemaPath, reason string) Effect {
	return Effect{Class: class, Path: p, Reason: reason}
}

// value compares the schemas of a value.
func (c *comparer) value(p place, o, n side) {
	if o == n {
		return
	}
	if o == c.anything {
		c.specified(p, n)
		return
	}
	if n == c.anything || c.opens(o.node, n.node) {
		c.unspecify(p, o, "value-unspecified", "previously had a schema, now unvalidated")
		return
	}
	c.documentation(p, o.node, n.node)
	c.types(p, o, n)
	c.nulls(p, o, n)
	c.defaults(p, o.node, n.node)
	both := o.kinds() & n.kinds()
	if both == 0 {
		return
	}
	c.conditions(p, o, n)
	if both&arrays != 0 {
		c.lists(p, o, n)
	}
	if both&objects != 0 {
		c.objects(p, o, n)
	}
}

// specified handles a previously unvalidated value that now has a schema.
func (c *comparer) specified(p place, n side) {
	var effects []Effect
	if n.node.Any(c.refusesAnything) {
		effects = append(effects, at(Invalid, p.path, "stored values were not validated so far"), at(Clients, p.path, ""))
	}
	effects = append(effects, c.dropped(p, n)...)
	if n.node.Any(hasDefault) {
		effects = append(effects, at(Defaulted, p.path, ""))
	}
	c.emit(p, "value-specified", "", "previously unvalidated, now has a schema", effects...)
}

// known handles a field that was unknown to the old CRD, but kept, because the whole CRD
// preserves unknown fields. Few objects have such fields.
func (c *comparer) known(p place, n side) {
	var effects []Effect
	message := "added"
	if n.node.Any(c.refusesAnything) {
		effects = append(effects, at(Unknown, p.path, "objects may already have the field: it was unknown and is now validated"))
	}
	effects = append(effects, c.dropped(p, n)...)
	switch {
	case hasDefault(n.node):
		effects = append(effects, at(Defaulted, p.path, ""))
		message += " with default " + show(n.node.Default.Value)
	case n.node.Any(hasDefault):
		var around Change
		c.dependents(&around, p.trail, p.path, appears, nil)
		effects = append(effects, at(Unknown, p.path, "defaults in it are applied to objects that already have the field"))
		for _, e := range around.Effects {
			effects = append(effects, at(Unknown, e.Path, e.Reason))
		}
	}
	c.emit(p, "property-added", "", message, effects...).of(defaultValue(n.node))
}

// dropped returns the effects of pruning on an unspecified value that now has a schema. If
// there is a change above that turned on pruning, it gets them instead.
func (c *comparer) dropped(p place, n side) []Effect {
	fields, nulls := c.drops(n, p.via)
	switch {
	case c.switched != nil && (fields || nulls):
		c.turnOn(p, p.path)
	case fields && nulls:
		return []Effect{at(Loses, p.path,
			"fields that the schema does not specify are pruned, and nulls are dropped where they are not allowed")}
	case fields:
		return []Effect{at(Loses, p.path, "fields that the schema does not specify are pruned")}
	case nulls:
		return []Effect{at(Loses, p.path, "nulls are dropped where they are not allowed")}
	}
	return nil
}

// drops reports whether reading a value of any type removes fields or nulls from it.
func (c *comparer) drops(s side, how via) (fields, nulls bool) {
	fields = s.Prunes()
	nulls = !c.newAll && how != viaItems && !s.node.Nullable && !hasDefault(s.node)
	visit := func(part side, how via) {
		f, n := c.drops(part, how)
		fields, nulls = fields || f, nulls || n
	}
	for name := range s.node.Properties {
		if part, ok := s.Field(name); ok {
			visit(c.side(part), viaField)
		}
	}
	if part, ok := s.MapValue(); ok && part.Schema() != nil {
		visit(c.side(part), viaMap)
	}
	if s.node.Items != nil {
		visit(c.side(s.Items()), viaItems)
	}
	return fields, nulls
}

// opens reports whether n accepts and keeps every value, and replaces a schema that does not.
func (c *comparer) opens(o, n *schema.Structural) bool {
	return o.Type != "" && (n.Nullable || !o.Nullable) && n.XPreserveUnknownFields && !c.refusesAnything(n) && !hasDefault(n) &&
		len(n.Properties) == 0 && n.Items == nil && n.AdditionalProperties == nil
}

// unspecify handles a value that had a schema and now is kept unvalidated.
func (c *comparer) unspecify(p place, o side, kind, message string) {
	alters := unaltered
	if o.node.Any(hasDefault) {
		alters = gone
	}
	effects := []Effect{at(Clients, p.path, "clients can no longer rely on its structure, validation and defaults")}
	if n := len(p.path); n > 0 {
		effects = append(effects, at(Clients, p.path[:n-1], "nulls in it are no longer dropped"))
	}
	c.emitAltering(p, alters, kind, "", message, effects...)
}

// documentation compares the keywords that only document a value.
func (c *comparer) documentation(p place, o, n *schema.Structural) {
	for _, d := range []struct {
		keyword  string
		old, new any
	}{
		{"description", o.Description, n.Description},
		{"title", o.Title, n.Title},
		{"example", o.Example, n.Example},
		{"externalDocs", o.ExternalDocs, n.ExternalDocs},
		{"readOnly", o.ReadOnly, n.ReadOnly},
	} {
		if !reflect.DeepEqual(d.old, d.new) {
			c.emit(p, "documentation", d.keyword, d.keyword+" changed")
		}
	}
}

func typeName(s *schema.Structural) string {
	switch {
	case s.XIntOrString:
		return "int-or-string"
	case s.Type == "":
		return "any"
	}
	return s.Type
}

// checkedType returns the type that decides which formats and bounds apply.
func checkedType(s *schema.Structural) string {
	if s.XIntOrString {
		return ""
	}
	return s.Type
}

func (c *comparer) types(p place, o, n side) {
	if typeName(o.node) == typeName(n.node) {
		if o.node.Type != n.node.Type {
			c.emitAltering(p, retyped, "type", "type", "type beside int-or-string changed")
		}
		return
	}
	var effects []Effect
	possible := o.possible()
	lost := possible &^ n.kinds()
	if possible != n.kinds() {
		effects = append(effects, at(Clients, p.path, "typed clients expect the old type"))
	}
	if lost != 0 {
		effects = append(effects, at(Invalid, p.path, "values of the old type are rejected"))
	}
	if lost&(arrays|objects) != 0 {
		if n.Prunes() {
			effects = append(effects, at(Loses, p.path, "fields in values of the old type are pruned"))
		}
		if n.node.Any(hasDefault) {
			effects = append(effects, at(Defaulted, p.path, ""))
		}
	}
	keyword := "type"
	if o.node.XIntOrString != n.node.XIntOrString {
		keyword = "x-kubernetes-int-or-string"
	}
	c.emitAltering(p, retyped, "type", keyword, fmt.Sprintf("type %s → %s", typeName(o.node), typeName(n.node)), effects...)
}

// nulls compares the treatment of null.
func (c *comparer) nulls(p place, o, n side) {
	if p.via == viaRoot || p.via == viaMeta {
		return
	}
	untyped := o.node.Type == "" && !o.node.XIntOrString
	mayBeNull := len(vv(o.node).Enum) == 0 && (o.node.Nullable || untyped && (p.via == viaItems || c.oldAll))
	var effects []Effect
	switch {
	case n.node.Nullable && !o.node.Nullable && slices.ContainsFunc(p.trail, defaultsNull):
		effects = append(c.nullsStay(p, o, n, mayBeNull),
			at(Defaulted, p.path, "a default around it contains nulls, which are no longer dropped"))
	case n.node.Nullable && !o.node.Nullable:
		effects = c.nullsStay(p, o, n, mayBeNull)
	case !mayBeNull || n.node.Nullable:
	case hasDefault(n.node):
		effects = []Effect{defaulted(p.path, "null becomes the default")}
	case p.via != viaItems && !c.newAll:
		effects = []Effect{at(Loses, p.path, "null is dropped"), at(Clients, p.path, "")}
	case n.kinds() != allKinds || len(vv(n.node).Enum) > 0:
		effects = []Effect{at(Invalid, p.path, "null is rejected"), at(Clients, p.path, "")}
	}
	if o.node.Nullable != n.node.Nullable || len(effects) > 0 {
		message := "null is now allowed"
		if !n.node.Nullable {
			message = "null is no longer allowed"
		}
		c.emit(p, "nullable", "nullable", message, effects...)
	}
}

// nullsStay returns the effects on clients of nulls that are allowed now: readers may not
// expect them, and writers relied on their being dropped or replaced by a default. Stored
// objects are not affected.
func (c *comparer) nullsStay(p place, o, n side, wasNull bool) (effects []Effect) {
	if !wasNull {
		effects = []Effect{at(Clients, p.path, "readers may not expect null")}
	}
	was := "dropped"
	switch v := vv(n.node); {
	case hasDefault(o.node):
		was = "replaced by the default"
		effects = append(effects, at(Clients, p.path, "null is kept instead of replaced by the default"))
	case p.via == viaItems || c.oldAll:
		// Null was already rejected or kept there.
		return effects
	case len(v.Enum) > 0 || len(v.AllOf)+len(v.AnyOf)+len(v.OneOf) > 0 || v.Not != nil:
		effects = append(effects, at(Clients, p.path, "null is no longer dropped: the conditions here may reject it"))
	}
	var around Change
	c.dependents(&around, p.trail, p.path, appears, nil)
	for _, e := range around.Effects {
		effects = append(effects, at(Clients, e.Path, "null is no longer "+was+": "+e.Reason))
	}
	return effects
}

// defaultsNull reports whether the default of a schema contains a null.
func defaultsNull(s *schema.Structural) bool { return s.Default != nil && holdsNull(s.Default.Value) }

// holdsNull reports whether a value contains a null.
func holdsNull(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case []any:
		return slices.ContainsFunc(v, holdsNull)
	case map[string]any:
		for _, x := range v {
			if holdsNull(x) {
				return true
			}
		}
	}
	return false
}

func (c *comparer) defaults(p place, o, n *schema.Structural) {
	if p.via == viaRoot {
		return
	}
	switch was, is := hasDefault(o), hasDefault(n); {
	case !was && is:
		c.emit(p, "default-added", "default", "default "+show(n.Default.Value)+" added", defaulted(p.path, "")).of(n.Default.Value)
	case was && !is:
		ch := c.emit(p, "default-removed", "default", "default "+show(o.Default.Value)+" removed",
			at(Clients, p.path, "objects stored without the field are read without it, and new objects no longer get it"))
		ch.of(o.Default.Value)
		c.dependents(ch, p.trail, p.path, gone, &knownValue{absent: true})
		ch.Leniency = leniency(ch, p.trail)
	case was && !reflect.DeepEqual(o.Default.Value, n.Default.Value):
		e := defaulted(p.path, "objects stored without the field are read with the new default")
		e.differs = true
		c.emit(p, "default-changed", "default", fmt.Sprintf("default %s → %s", show(o.Default.Value),
			show(n.Default.Value)), e, at(Clients, p.path, "")).of(o.Default.Value, n.Default.Value)
	}
}

// defaulted returns the effect of the default of a schema on the values of the schema.
func defaulted(p schema.SchemaPath, reason string) Effect {
	return Effect{Class: Defaulted, Path: p, Reason: reason, own: true}
}

// tightened returns the effects of a condition that some old values violate.
func tightened(p schema.SchemaPath, reason string) []Effect {
	return []Effect{at(Invalid, p, reason), at(Clients, p, "writes of such values are rejected")}
}

// conditions compares the conditions on a value.
func (c *comparer) conditions(p place, o, n side) {
	ov, nv := vv(o.node), vv(n.node)
	branches := facts(&schema.NestedValueValidation{ValueValidation: *ov})
	for _, k := range keywords() {
		was, is := k.of(ov), k.of(nv)
		if reflect.DeepEqual(was, is) {
			continue
		}
		var effects []Effect
		alters := unaltered
		if is != nil && k.on&o.kinds() != 0 && !slices.ContainsFunc(branches, func(f *schema.NestedValueValidation) bool {
			return k.implied(&f.ValueValidation, nv, checkedType(n.node)) || k.meets(&f.ValueValidation, nv)
		}) {
			effects = tightened(p.path, "")
		}
		switch k.name {
		case "enum":
			effects = append(effects, widened(p.path, ov, nv)...)
		case "format":
			alters = retyped
			if effects == nil && restricts(checkedType(o.node), ov.Format) {
				effects = []Effect{at(Clients, p.path, "typed clients expect the old format")}
			}
		}
		c.emitAltering(p, alters, k.name, k.name, fmt.Sprintf("%s %s → %s", k.name, show(was), show(is)), effects...).of(was, is)
	}
	c.junctors(p, o, n)
	c.validations(p, o, n)
}

// widened returns the effect of values that an enum did not have.
func widened(p schema.SchemaPath, o, n *schema.ValueValidation) []Effect {
	var added []string
	for _, v := range n.Enum {
		if !slices.ContainsFunc(o.Enum, func(w schema.JSON) bool { return reflect.DeepEqual(v.Value, w.Value) }) {
			added = append(added, show(v.Value))
		}
	}
	switch {
	case len(o.Enum) == 0 || len(n.Enum) > 0 && len(added) == 0:
		return nil
	case len(n.Enum) == 0:
		return []Effect{at(Clients, p, "readers may get values that the enum did not have")}
	case len(added) == 1:
		return []Effect{at(Clients, p, "readers may not know the value "+added[0])}
	}
	return []Effect{at(Clients, p, "readers may not know the values "+strings.Join(added, ", "))}
}

func (c *comparer) junctors(p place, o, n side) {
	ov, nv := vv(o.node), vv(n.node)
	var known []*schema.NestedValueValidation
	for _, j := range []struct {
		name     string
		old, new any
		only     schema.ValueValidation
	}{
		{"allOf", ov.AllOf, nv.AllOf, schema.ValueValidation{AllOf: nv.AllOf}},
		{"anyOf", ov.AnyOf, nv.AnyOf, schema.ValueValidation{AnyOf: nv.AnyOf}},
		{"oneOf", ov.OneOf, nv.OneOf, schema.ValueValidation{OneOf: nv.OneOf}},
		{"not", ov.Not, nv.Not, schema.ValueValidation{Not: nv.Not}},
	} {
		if reflect.DeepEqual(j.old, j.new) {
			continue
		}
		if known == nil {
			known = nested(o.node)
		}
		var effects []Effect
		verdict := "all values that were accepted still are"
		if !c.prover.holds(known, &schema.NestedValueValidation{ValueValidation: j.only}) {
			effects = tightened(p.path, "")
			verdict = "values that were accepted may be rejected"
		}
		c.emit(p, j.name, j.name, j.name+" changed: "+verdict, effects...).of(j.old, j.new)
	}
}
