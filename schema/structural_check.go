package schema

import (
	"reflect"
	"regexp/syntax"
	"slices"
)

// Check returns the reasons why s is not structural in the given semantics. With
// Kubernetes, the findings are the errors that kube-apiserver lists in the condition
// NonStructuralSchema. With KEP, there are also warnings: where the documents require more
// than kube-apiserver does, without an example that such a schema is rejected.
//
// The findings are sorted by the text of their field errors. The time is linear in the
// size of s. If a deeply nested schema has too many findings, the list is truncated, but a
// schema that is not structural always has at least one finding that is not a warning.
func Check(s *Structural, sem Semantics) []Finding {
	if s == nil {
		return nil
	}
	c := checker{sem: sem}
	c.structural(s, rootLevel)
	sortFindings(c.findings)
	return c.findings
}

// level is the position of a schema. It determines the message about a missing type.
type level uint8

const (
	rootLevel level = iota
	itemLevel
	fieldLevel
	// impliedLevel is the level of a field that needs no explicit type.
	impliedLevel
)

type checker struct {
	sem      Semantics
	findings []Finding
	// path leads to the current schema.
	path SchemaPath
	// coreLen is the length of the part of path that leads to the schema whose logical
	// operators are being walked, and coreRest continues it in the core: a value
	// validation at path is about the schema at path[:coreLen] + coreRest.
	coreLen  int
	coreRest SchemaPath
	// names is a stack of the property names that remain to be visited.
	names []string
	// steps and rejected are used to bound the size of the findings.
	steps    int
	rejected bool
}

// maxFindingSteps bounds the total length of the paths of all findings. Without it,
// 10,000 nested schemas without a type would need 50 million steps.
const maxFindingSteps = 1 << 20

func (c *checker) push(s SchemaStep) { c.path = append(c.path, s) }
func (c *checker) pop()              { c.path = c.path[:len(c.path)-1] }

// add records a finding. Its path continues that of the current schema.
func (c *checker) add(f Finding, further ...SchemaStep) {
	if c.full(f.Refused) {
		return
	}
	f.Path = slices.Concat(c.path, further)
	c.record(f)
}

// full reports whether there is no room for one more finding.
func (c *checker) full(rejected bool) bool {
	return c.steps > maxFindingSteps && (c.rejected || !rejected)
}

func (c *checker) record(f Finding) {
	c.steps += len(f.Path) + len(f.Mention)
	c.rejected = c.rejected || f.Refused
	c.findings = append(c.findings, f)
}

func (c *checker) reject(k FindingKind, detail string, at ...SchemaStep) {
	c.add(Finding{Kind: k, Detail: detail, Refused: true}, at...)
}

func (c *checker) rejectValue(k FindingKind, value any, detail string, at ...SchemaStep) {
	c.add(Finding{Kind: k, Value: value, Detail: detail, Refused: true}, at...)
}

// structural checks a schema in the core and everything below it.
func (c *checker) structural(s *Structural, lvl level) {
	if s.Items != nil {
		c.push(keyword("items"))
		c.structural(s.Items, itemLevel)
		c.pop()
	} else if s.Type == "array" {
		c.reject(ItemsMissing, "must be specified", keyword("items"))
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
			c.reject(MapForbidden, "must not be used at the root", keyword("additionalProperties"))
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

// pushNames pushes the sorted keys of m to the stack of names, and returns the position
// of the first.
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

// shapes reports more than one of properties, additionalProperties and items.
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
			c.rejectValue(ExtensionConflict, true, detail, keyword("x-kubernetes-preserve-unknown-fields"))
		}
		if s.XEmbeddedResource {
			c.rejectValue(ExtensionConflict, true, detail, keyword("x-kubernetes-embedded-resource"))
		}
		if s.Type != "" && c.sem.ReportsLooseIntOrString() {
			c.add(Finding{
				Kind:   TypeWrong,
				Value:  s.Type,
				Detail: "must be empty if x-kubernetes-int-or-string is true",
			}, keyword("type"))
		}
	}
	if c.sem.KnowsUnions() {
		c.unions(s)
	}
}

// typ checks that s has a type, and that the type is allowed in its place.
func (c *checker) typ(s *Structural, lvl level) {
	at := keyword("type")
	if s.XEmbeddedResource && s.Type != "object" {
		const detail = "must be object if x-kubernetes-embedded-resource is true"
		if s.Type == "" {
			c.reject(TypeMissing, detail, at)
		} else {
			c.rejectValue(TypeWrong, s.Type, detail, at)
		}
	} else if s.Type == "" && !s.XIntOrString && !s.XPreserveUnknownFields && lvl != impliedLevel {
		c.reject(TypeMissing, c.typeMissing(lvl), at)
	}
	if lvl == rootLevel && s.Type != "" && s.Type != "object" {
		c.rejectValue(TypeWrong, s.Type, "must be object at the root", at)
	}
}

func (c *checker) typeMissing(lvl level) string {
	switch {
	case c.sem.SaysTypeMustBeNonEmpty():
		return mustBeNonEmpty
	case lvl == rootLevel:
		return "must not be empty at the root"
	case lvl == itemLevel:
		return "must not be empty for specified array items"
	default:
		return "must not be empty for specified object fields"
	}
}

// resource checks what applies only to resources: the root and embedded resources.
func (c *checker) resource(s *Structural, lvl level) {
	if s.XEmbeddedResource {
		if s.AdditionalProperties != nil {
			c.reject(MapForbidden, "must not be used if x-kubernetes-embedded-resource is set", keyword("additionalProperties"))
		}
		if !s.XPreserveUnknownFields && len(s.Properties) == 0 {
			c.reject(PropertiesMissing,
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

// typeMeta checks that a field of every resource has its fixed type.
func (c *checker) typeMeta(s *Structural, name, typ string) {
	f, ok := s.Properties[name]
	if !ok {
		return
	}
	f = orEmpty(f)
	if f.Type == typ || f.Type == "" && s.XEmbeddedResource && c.sem.ImpliesEmbeddedTypeMeta() {
		return
	}
	c.rejectValue(TypeWrong, f.Type, "must be "+typ, named("properties", name), keyword("type"))
}

// rootMetadata checks that a schema does not specify metadata other than name and
// generateName.
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
	rest.Default = nil // the validation of the CRD rejects it
	if rest.Example != nil && rest.Example.Value == nil {
		rest.Example = nil
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

// isZero reports whether no field of the struct is set, not even to an empty value.
func isZero[T any](v *T) bool { return reflect.ValueOf(v).Elem().IsZero() }

// typeVerdict is how to treat a type under a logical operator.
type typeVerdict uint8

const (
	refuseType typeVerdict = iota
	reportType
	allowType
)

// branchTypes are the verdicts for the branches of int-or-string.
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

// isIntOrString reports whether branches are exactly an integer and a string. Keywords
// that kube-apiserver does not have are ignored.
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

// valueValidation checks the logical operators and the pattern of the current schema.
// core is the schema in the core that v is about, or nil.
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
			c.rejectValue(PatternInvalid, v.Pattern,
				"must be a valid regular expression, but isn't: "+err.Error(), keyword("pattern"))
		}
	}
}

func (c *checker) branch(step SchemaStep, v *NestedValueValidation, core *Structural, t typeVerdict, b branchTypes) {
	c.push(step)
	c.nested(v, core, t, b)
	c.pop()
}

// nested checks a schema under a logical operator and everything below it.
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
		c.reject(MetadataInJunctor, "must not be specified in a nested context", named("properties", "metadata"))
	}
}

// descend checks the schema of a field or item that a value validation mentions. If
// core, the schema around it, is not nil, sub must not be nil.
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

// forbidden reports the keywords that must not be used under logical operators.
func (c *checker) forbidden(v *NestedValueValidation, t typeVerdict) {
	const (
		undefined = "must be undefined to be structural"
		empty     = "must be empty to be structural"
		unset     = "must be false to be structural"
	)
	check := func(found bool, k, detail string) {
		if found {
			c.reject(ForbiddenInJunctor, detail, keyword(k))
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

// unions checks that the unions of s refer to fields of s.
func (c *checker) unions(s *Structural) {
	seen := make(map[string]bool)
	for i, u := range s.XUnions {
		c.push(indexed("x-kubernetes-unions", i))
		if len(u.Fields) == 0 {
			c.reject(UnionIncomplete, "must have at least one field", keyword("fields"))
		} else if u.Discriminator == "" {
			c.reject(UnionIncomplete, "must be set, because fields is", keyword("discriminator"))
		}
		var enum map[string]bool
		if u.Discriminator != "" {
			enum = c.discriminator(s, u.Discriminator)
		}
		mark := pushNames(c, u.Fields)
		for _, name := range c.names[mark:] {
			at := named("fields", name)
			if _, ok := s.Properties[name]; !ok {
				c.rejectValue(UnionMember, name, "must be a field in properties", at)
			}
			if seen[name] {
				c.rejectValue(UnionMember, name, "must be in one union only", at)
			}
			seen[name] = true
			if enum != nil && !enum[u.Fields[name]] {
				c.rejectValue(UnionDiscriminator, u.Fields[name], "must be in the enum of the discriminator", at)
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
		c.rejectValue(UnionDiscriminator, name, "must be a field in properties", keyword("discriminator"))
		return nil
	}
	if f.Type != "string" {
		c.rejectValue(UnionDiscriminator, name, "must be a field of type string", keyword("discriminator"))
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
