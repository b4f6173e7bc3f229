package schema

import (
	"reflect"
	"regexp/syntax"
	"slices"
)

// Check looks for what makes s non-structural, in the reading that sem gives.
// With Kubernetes, the findings are the errors that kube-apiserver lists in the
// condition NonStructuralSchema. With KEP, there are also findings that are not
// Rejected: where the documents ask for more than kube-apiserver does, without
// showing that such a schema is to be rejected.
//
// Findings are in the order of their field errors' text. The time is linear in
// the size of s. For a schema in which findings pile up at great depth, the list
// is cut short; if anything is rejected, something Rejected is in it.
func Check(s *Structural, sem Semantics) []Finding {
	if s == nil {
		return nil
	}
	c := checker{sem: sem}
	c.structural(s, rootLevel)
	sortFindings(c.findings)
	return c.findings
}

// level is where a schema stands. It decides how a missing type is named.
type level uint8

const (
	rootLevel level = iota
	itemLevel
	fieldLevel
	// impliedLevel is that of a field which needs no type of its own.
	impliedLevel
)

type checker struct {
	sem      Semantics
	findings []Finding
	// path is that of the schema at hand.
	path SchemaPath
	// coreLen is how much of path leads to the schema whose logical operators are walked,
	// and coreRest how the core goes on from there: the place that a value
	// validation at path is about is path[:coreLen] + coreRest.
	coreLen  int
	coreRest SchemaPath
	// names is a stack of the property names still to be visited.
	names []string
	// steps and rejected are for the bound on the findings' size.
	steps   int
	refused bool
}

// maxFindingSteps bounds the paths of all findings together. 10,000 nested
// schemas without a type would otherwise have 50 million steps.
const maxFindingSteps = 1 << 20

func (c *checker) push(s SchemaStep) { c.path = append(c.path, s) }
func (c *checker) pop()              { c.path = c.path[:len(c.path)-1] }

// add records a finding; its path goes on from the schema at hand.
func (c *checker) add(f Finding, further ...SchemaStep) {
	if c.full(f.Refused) {
		return
	}
	f.Path = slices.Concat(c.path, further)
	c.record(f)
}

// full reports whether there is no room for one more finding.
func (c *checker) full(refused bool) bool {
	return c.steps > maxFindingSteps && (c.refused || !refused)
}

func (c *checker) record(f Finding) {
	c.steps += len(f.Path) + len(f.Mention) + 1
	c.refused = c.refused || f.Refused
	c.findings = append(c.findings, f)
}

func (c *checker) refuse(k FindingKind, detail string, at ...SchemaStep) {
	c.add(Finding{Kind: k, Detail: detail, Refused: true}, at...)
}

func (c *checker) refuseValue(k FindingKind, value any, detail string, at ...SchemaStep) {
	c.add(Finding{Kind: k, Value: value, Detail: detail, Refused: true}, at...)
}

// structural checks a schema of the core and all below it.
func (c *checker) structural(s *Structural, lvl level) {
	if s.Items != nil {
		c.push(keyword("items"))
		c.structural(s.Items, itemLevel)
		c.pop()
	} else if s.Type == "array" {
		c.refuse(ItemsMissing, "must be specified", keyword("items"))
	}
	implied := s.XEmbeddedResource && c.sem.ImpliesEmbeddedTypeMeta()
	mark := pushNames(c, s.Properties)
	for i := mark; i < mark+len(s.Properties); i++ {
		name := c.names[i]
		sub := fieldLevel
		if implied && IsMetaField(name) {
			sub = impliedLevel
		}
		c.push(named("properties", name))
		c.structural(orEmpty(s.Properties[name]), sub)
		c.pop()
	}
	c.names = c.names[:mark]
	if ap := s.AdditionalProperties; ap != nil {
		if lvl == rootLevel {
			c.refuse(MapForbidden, "must not be used at the root", keyword("additionalProperties"))
		}
		if ap.Structural != nil {
			c.push(keyword("additionalProperties"))
			c.structural(ap.Structural, fieldLevel)
			c.pop()
		}
	}
	c.shapes(s)
	c.extensions(s)
	c.typ(s, lvl)
	c.resource(s, lvl)
	if v := s.ValueValidation; v != nil {
		core := s
		if lvl != rootLevel && !c.sem.RefusesDeepIncompleteness() {
			core = nil
		}
		c.coreLen = len(c.path)
		c.coreRest = c.coreRest[:0]
		c.valueValidation(v, core, c.intOrString(s))
	}
}

// pushNames pushes the keys of m to the stack of names, in order, and returns where
// they start.
func pushNames[V any](c *checker, m map[string]V) int {
	mark := len(c.names)
	for name := range m {
		c.names = append(c.names, name)
	}
	slices.Sort(c.names[mark:])
	return mark
}

func orEmpty(s *Structural) *Structural {
	if s == nil {
		return &Structural{}
	}
	return s
}

// shapes looks for more than one of properties, additionalProperties and items.
func (c *checker) shapes(s *Structural) {
	if !c.sem.ReportsSeveralShapes() {
		return
	}
	fields, ap := len(s.Properties) > 0, s.AdditionalProperties
	if fields && ap != nil {
		c.add(Finding{
			Kind:    SeveralShapes,
			Detail:  "must not be used beside properties",
			Refused: ap.Structural != nil || !ap.Bool,
		}, keyword("additionalProperties"))
	}
	if s.Items != nil && (fields || ap != nil) {
		beside := "properties"
		if !fields {
			beside = "additionalProperties"
		}
		c.add(Finding{Kind: SeveralShapes, Detail: "must not be used beside " + beside}, keyword("items"))
	}
}

func (c *checker) extensions(s *Structural) {
	if s.XIntOrString {
		const detail = "must be false if x-kubernetes-int-or-string is true"
		if s.XPreserveUnknownFields {
			c.refuseValue(ExtensionConflict, true, detail, keyword("x-kubernetes-preserve-unknown-fields"))
		}
		if s.XEmbeddedResource {
			c.refuseValue(ExtensionConflict, true, detail, keyword("x-kubernetes-embedded-resource"))
		}
		if s.Type != "" && c.sem.ReportsLooseIntOrString() {
			c.add(Finding{
				Kind:   TypeWrong,
				Value:  s.Type,
				Detail: "must be empty if x-kubernetes-int-or-string is true",
			}, keyword("type"))
		}
	}
	if len(s.XUnions) > 0 && c.sem.KnowsUnions() {
		c.unions(s)
	}
}

// typ checks that there is a type, and the right one for what s stands for.
func (c *checker) typ(s *Structural, lvl level) {
	at := keyword("type")
	if s.XEmbeddedResource && s.Type != "object" {
		const detail = "must be object if x-kubernetes-embedded-resource is true"
		if s.Type == "" {
			c.refuse(TypeMissing, detail, at)
		} else {
			c.refuseValue(TypeWrong, s.Type, detail, at)
		}
	} else if s.Type == "" && !s.XIntOrString && !s.XPreserveUnknownFields && lvl != impliedLevel {
		c.refuse(TypeMissing, c.typeMissing(lvl), at)
	}
	if lvl == rootLevel && s.Type != "" && s.Type != "object" {
		c.refuseValue(TypeWrong, s.Type, "must be object at the root", at)
	}
}

func (c *checker) typeMissing(lvl level) string {
	switch {
	case c.sem.SaysTypeMustBeNonEmpty():
		return "must be non-empty"
	case lvl == rootLevel:
		return "must not be empty at the root"
	case lvl == itemLevel:
		return "must not be empty for specified array items"
	default:
		return "must not be empty for specified object fields"
	}
}

// resource checks what only matters in a resource: the root's, or an embedded one.
func (c *checker) resource(s *Structural, lvl level) {
	if s.XEmbeddedResource {
		if s.AdditionalProperties != nil {
			c.refuse(MapForbidden, "must not be used if x-kubernetes-embedded-resource is set", keyword("additionalProperties"))
		}
		if !s.XPreserveUnknownFields && len(s.Properties) == 0 {
			c.refuse(PropertiesMissing,
				"must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
				keyword("properties"))
		}
	}
	if lvl == rootLevel || s.XEmbeddedResource {
		c.typeMeta(s, "kind", "string")
		c.typeMeta(s, "apiVersion", "string")
		c.typeMeta(s, "metadata", "object")
	}
	if metadata, ok := s.Properties["metadata"]; ok && lvl == rootLevel {
		c.rootMetadata(orEmpty(metadata))
	}
}

// typeMeta checks that a field of every resource has the type it has anyway.
func (c *checker) typeMeta(s *Structural, name, typ string) {
	f, ok := s.Properties[name]
	if !ok {
		return
	}
	f = orEmpty(f)
	if f.Type == typ || f.Type == "" && s.XEmbeddedResource && c.sem.ImpliesEmbeddedTypeMeta() {
		return
	}
	c.refuseValue(TypeWrong, f.Type, "must be "+typ, named("properties", name), keyword("type"))
}

// rootMetadata checks that a schema leaves the metadata of its objects alone, but
// for their names.
func (c *checker) rootMetadata(metadata *Structural) {
	rest := *metadata
	names := 0
	for _, name := range []string{"name", "generateName"} {
		if _, ok := rest.Properties[name]; ok {
			names++
		}
	}
	if names == len(rest.Properties) {
		rest.Properties = nil
	}
	rest.Type = ""
	rest.Default = nil // the validation of the CustomResourceDefinition rejects it
	if rest.Example != nil && rest.Example.Value == nil {
		rest.Example = nil
	}
	if v := rest.ValueValidation; v != nil && isZero(v) {
		rest.ValueValidation = nil
	}
	known := rest.ReadOnly && c.sem.KnowsReadOnly() || len(rest.XUnions) > 0 && c.sem.KnowsUnions()
	rest.ReadOnly, rest.XUnions = false, nil
	if refused := !isZero(&rest); refused || known {
		c.add(Finding{
			Kind:    MetadataRestricted,
			Detail:  "must not specify anything other than name and generateName, but metadata is implicitly specified",
			Refused: refused,
		}, named("properties", "metadata"))
	}
}

// isZero reports whether nothing is set in the struct, not even to something empty.
func isZero[T any](v *T) bool { return reflect.ValueOf(v).Elem().IsZero() }

// typeVerdict says what is to be done about a type under a logical operator.
type typeVerdict uint8

const (
	refuseType typeVerdict = iota
	reportType
	allowType
)

// branchTypes are the verdicts for the branches that spell out int-or-string.
type branchTypes struct {
	anyOf, oneOf, firstAllOfAnyOf typeVerdict
}

// intOrString returns the verdicts for types in the logical operators of s.
func (c *checker) intOrString(s *Structural) (b branchTypes) {
	v := s.ValueValidation
	verdict := allowType
	if !s.XIntOrString && c.sem.ReportsLooseIntOrString() {
		verdict = reportType
	}
	if isIntOrString(v.AnyOf) {
		b.anyOf = verdict
	}
	if len(v.AllOf) > 0 && isIntOrString(v.AllOf[0].AnyOf) {
		b.firstAllOfAnyOf = verdict
	}
	if s.XIntOrString && c.sem.AcceptsIntOrStringOneOf() && isIntOrString(v.OneOf) {
		b.oneOf = allowType
	}
	return b
}

// isIntOrString reports whether branches are an integer and a string and nothing else.
// What kube-apiserver does not know of does not count.
func isIntOrString(branches []NestedValueValidation) bool {
	return len(branches) == 2 && isBare(&branches[0], "integer") && isBare(&branches[1], "string")
}

func isBare(v *NestedValueValidation, typ string) bool {
	if v.ForbiddenGenerics.Type != typ {
		return false
	}
	rest := *v
	g, x := &rest.ForbiddenGenerics, &rest.ForbiddenExtensions
	g.Type, g.ReadOnly, x.XUnions = "", false, nil
	if g.Default != nil && g.Default.Value == nil {
		g.Default = nil
	}
	if g.Example != nil && g.Example.Value == nil {
		g.Example = nil
	}
	if ap := rest.AdditionalProperties; ap != nil && ap.Nested == nil && !ap.Bool {
		rest.AdditionalProperties = nil
	}
	return isZero(&rest)
}

// valueValidation checks the logical operators and the pattern of the schema at hand. If
// core is not nil, it is the place in the core that v is about.
func (c *checker) valueValidation(v *ValueValidation, core *Structural, b branchTypes) {
	for i := range v.AnyOf {
		c.branch(indexed("anyOf", i), &v.AnyOf[i], core, b.anyOf, branchTypes{})
	}
	for i := range v.AllOf {
		sub := branchTypes{}
		if i == 0 {
			sub.anyOf = b.firstAllOfAnyOf
		}
		c.branch(indexed("allOf", i), &v.AllOf[i], core, refuseType, sub)
	}
	for i := range v.OneOf {
		c.branch(indexed("oneOf", i), &v.OneOf[i], core, b.oneOf, branchTypes{})
	}
	if v.Not != nil {
		c.branch(keyword("not"), v.Not, core, refuseType, branchTypes{})
	}
	if v.Pattern != "" {
		if _, err := syntax.Parse(v.Pattern, syntax.Perl); err != nil {
			c.refuseValue(PatternInvalid, v.Pattern,
				"must be a valid regular expression, but isn't: "+err.Error(), keyword("pattern"))
		}
	}
}

func (c *checker) branch(step SchemaStep, v *NestedValueValidation, core *Structural, t typeVerdict, b branchTypes) {
	c.push(step)
	c.nested(v, core, t, b)
	c.pop()
}

// nested checks a schema under a logical operator and all below it.
func (c *checker) nested(v *NestedValueValidation, core *Structural, t typeVerdict, b branchTypes) {
	c.valueValidation(&v.ValueValidation, core, b)
	if v.Items != nil {
		var sub *Structural
		if core != nil {
			sub = core.Items
		}
		c.descend(keyword("items"), v.Items, core, sub)
	}
	mark := pushNames(c, v.Properties)
	for i := mark; i < mark+len(v.Properties); i++ {
		name := c.names[i]
		sub, tracked := (*Structural)(nil), core
		if core != nil {
			if f, ok := core.Properties[name]; ok {
				sub = orEmpty(f)
			}
			if core.XEmbeddedResource && IsMetaField(name) && c.sem.ImpliesEmbeddedTypeMeta() {
				sub, tracked = nil, nil
			}
		}
		c.descend(named("properties", name), v.Properties[name], tracked, sub)
	}
	c.names = c.names[:mark]
	c.forbidden(v, t)
	_, ok := v.Properties["metadata"]
	if ok && (c.sem.RefusesEmbeddedMetadataInJunctors() || c.coreLen+len(c.coreRest) == 0) {
		c.refuse(MetadataInJunctor, "must not be specified in a nested context", named("properties", "metadata"))
	}
}

// descend checks the schema of a field or item that a value validation mentions.
// If core, the place above, is not nil, then sub must be there.
func (c *checker) descend(step SchemaStep, v *NestedValueValidation, core, sub *Structural) {
	if core != nil && sub == nil {
		c.notInCore(step)
	}
	if v == nil {
		return
	}
	c.push(step)
	c.coreRest = append(c.coreRest, step)
	c.nested(v, sub, refuseType, branchTypes{})
	c.coreRest = c.coreRest[:len(c.coreRest)-1]
	c.pop()
}

func (c *checker) notInCore(step SchemaStep) {
	if c.full(true) {
		return
	}
	mention := slices.Concat(c.path, SchemaPath{step})
	c.record(Finding{
		Kind:    NotInCore,
		Path:    slices.Concat(c.path[:c.coreLen], c.coreRest, SchemaPath{step}),
		Detail:  becauseDefinedIn + mention.String(),
		Mention: mention,
		Refused: true,
	})
}

// forbidden looks for the keywords that must stand outside of logical operators.
func (c *checker) forbidden(v *NestedValueValidation, t typeVerdict) {
	const (
		undefined = "must be undefined to be structural"
		empty     = "must be empty to be structural"
		unset     = "must be false to be structural"
	)
	check := func(found bool, k, detail string) {
		if found {
			c.refuse(ForbiddenInJunctor, detail, keyword(k))
		}
	}
	g, x := &v.ForbiddenGenerics, &v.ForbiddenExtensions
	switch {
	case g.Type == "" || t == allowType:
	case t == reportType:
		c.add(Finding{
			Kind:   ForbiddenInJunctor,
			Detail: empty + ", unless x-kubernetes-int-or-string is true",
		}, keyword("type"))
	default:
		check(true, "type", empty)
	}
	if ap := v.AdditionalProperties; ap != nil {
		if ap.Nested != nil || ap.Bool {
			check(true, "additionalProperties", undefined)
		} else if c.sem.ReportsNestedAdditionalPropertiesFalse() {
			c.add(Finding{
				Kind:    ForbiddenInJunctor,
				Detail:  undefined,
				Refused: len(v.Properties) > 0,
			}, keyword("additionalProperties"))
		}
	}
	check(g.Default != nil && g.Default.Value != nil, "default", undefined)
	check(g.Title != "", "title", empty)
	check(g.Description != "", "description", empty)
	check(g.Nullable, "nullable", unset)
	check(g.ReadOnly && c.sem.KnowsReadOnly(), "readOnly", unset)
	check(x.XPreserveUnknownFields, "x-kubernetes-preserve-unknown-fields", unset)
	check(x.XEmbeddedResource, "x-kubernetes-embedded-resource", unset)
	check(x.XIntOrString, "x-kubernetes-int-or-string", unset)
	check(len(x.XListMapKeys) > 0, "x-kubernetes-list-map-keys", empty)
	check(x.XListType != nil, "x-kubernetes-list-type", undefined)
	check(x.XMapType != nil, "x-kubernetes-map-type", undefined)
	check(len(x.XUnions) > 0 && c.sem.KnowsUnions(), "x-kubernetes-unions", empty)
	check(len(v.XValidations) > 0, "x-kubernetes-validations", empty)
}

// unions checks that the unions of s are about fields that s has.
func (c *checker) unions(s *Structural) {
	seen := make(map[string]bool)
	for i, u := range s.XUnions {
		c.push(indexed("x-kubernetes-unions", i))
		if len(u.Fields) == 0 {
			c.refuse(UnionIncomplete, "must have at least one field", keyword("fields"))
		} else if u.Discriminator == "" {
			c.refuse(UnionIncomplete, "must be set, because fields is", keyword("discriminator"))
		}
		var enum map[string]bool
		if u.Discriminator != "" {
			enum = c.discriminator(s, u.Discriminator)
		}
		mark := pushNames(c, u.Fields)
		for _, name := range c.names[mark:] {
			at := named("fields", name)
			if _, ok := s.Properties[name]; !ok {
				c.refuseValue(UnionMember, name, "must be a field in properties", at)
			}
			if seen[name] {
				c.refuseValue(UnionMember, name, "must be in one union only", at)
			}
			seen[name] = true
			if enum != nil && !enum[u.Fields[name]] {
				c.refuseValue(UnionDiscriminator, u.Fields[name], "must be in the enum of the discriminator", at)
			}
		}
		c.names = c.names[:mark]
		c.pop()
	}
}

// discriminator checks the discriminator of a union and returns the strings in its
// enum, or nil if it has none.
func (c *checker) discriminator(s *Structural, name string) map[string]bool {
	f, ok := s.Properties[name]
	if !ok || f == nil {
		c.refuseValue(UnionDiscriminator, name, "must be a field in properties", keyword("discriminator"))
		return nil
	}
	if f.Type != "string" {
		c.refuseValue(UnionDiscriminator, name, "must be a field of type string", keyword("discriminator"))
	}
	if f.ValueValidation == nil || len(f.ValueValidation.Enum) == 0 {
		return nil
	}
	enum := make(map[string]bool, len(f.ValueValidation.Enum))
	for _, j := range f.ValueValidation.Enum {
		if v, ok := j.Value.(string); ok {
			enum[v] = true
		}
	}
	return enum
}
