package schema

import (
	"maps"
	"reflect"
	"slices"

	"espalier.dev/api"
)

// WithoutValueValidations returns the value-validation-less form: a copy of s
// without any condition on values, only types, fields and items. Whatever
// satisfies s satisfies it. Nil gives nil.
//
// x-kubernetes-validations is dropped with the rest. additionalProperties: false
// stays: it is no ValueValidation, whatever it means. What an embedded resource
// implies about its apiVersion, kind and metadata is structure and is written
// out, as the documents' example of a RawExtension has it.
func (s *Structural) WithoutValueValidations() *Structural {
	out := s.DeepCopy()
	out.visit(func(s *Structural) {
		s.ValueValidation = nil
		s.XValidations = nil
		if !s.XEmbeddedResource {
			return
		}
		if s.Properties == nil {
			s.Properties = map[string]*Structural{}
		}
		for name, implied := range embeddedResourceFields() {
			if s.Properties[name] == nil {
				s.Properties[name] = implied
			} else {
				addShape(s.Properties[name], implied)
			}
		}
	})
	return out
}

// addShape adds to s the types, fields and items of implied that s has nothing
// about. Where s has another type, or is a map, it is left as it is.
func addShape(s, implied *Structural) {
	if s.Type == "" && !s.XIntOrString {
		s.Type = implied.Type
	}
	if s.Type != implied.Type {
		return
	}
	if implied.Properties != nil && s.AdditionalProperties == nil {
		if s.Properties == nil {
			s.Properties = make(map[string]*Structural, len(implied.Properties))
		}
		for name, field := range implied.Properties {
			if s.Properties[name] == nil {
				s.Properties[name] = field
			} else {
				addShape(s.Properties[name], field)
			}
		}
	}
	if implied.AdditionalProperties != nil && s.AdditionalProperties == nil && s.Properties == nil {
		s.AdditionalProperties = implied.AdditionalProperties
	}
	if s.Items == nil {
		s.Items = implied.Items
	}
}

// Unfold returns a copy of s in which the x-kubernetes-* extensions are also
// spelled out in plain OpenAPI, for readers that do not know them. The extensions
// stay. The result is what is published as OpenAPI v3; it need not be structural.
// Unfolding twice is unfolding once. Nil gives nil.
//
//   - x-kubernetes-int-or-string becomes an anyOf of the two types.
//   - x-kubernetes-embedded-resource specifies apiVersion, kind and metadata, and
//     requires the first two.
//   - x-kubernetes-unions becomes a oneOf over the members and an enum of the
//     discriminator's values. The documents' sketch stops there and would take a
//     discriminator that names another member; since that is refused, an anyOf
//     pairs each member with its value.
//
// Where the schema has a keyword already, both are and'ed through allOf.
func (s *Structural) Unfold(sem Semantics) *Structural {
	out := s.DeepCopy()
	out.visit(func(s *Structural) {
		if s.XIntOrString {
			unfoldIntOrString(s, sem)
		}
		if sem.KnowsUnions() {
			for _, u := range s.XUnions {
				unfoldUnion(s, u)
			}
		}
		if s.XEmbeddedResource && sem.UnfoldsAsDocumented() {
			unfoldEmbeddedResource(s)
		}
	})
	return out
}

// intOrStringBranches are the branches of the anyOf that int-or-string means.
func intOrStringBranches() []NestedValueValidation {
	return []NestedValueValidation{
		{ForbiddenGenerics: Generic{Type: "integer"}},
		{ForbiddenGenerics: Generic{Type: "string"}},
	}
}

func unfoldIntOrString(s *Structural, sem Semantics) {
	either := intOrStringBranches()
	v := s.ValueValidation
	switch {
	case v == nil:
		s.ValueValidation = &ValueValidation{AnyOf: either}
	case isIntOrString(v.AnyOf),
		len(v.AllOf) > 0 && isIntOrString(v.AllOf[0].AnyOf),
		sem.AcceptsIntOrStringOneOf() && isIntOrString(v.OneOf):
		// The author wrote it out.
	case len(v.AnyOf) == 0:
		v.AnyOf = either
	case sem.UnfoldsAsDocumented():
		s.ValueValidation = &ValueValidation{AllOf: []NestedValueValidation{
			{ValueValidation: ValueValidation{AnyOf: either}},
			{ValueValidation: *v},
		}}
	default:
		v.AllOf = slices.Insert(v.AllOf, 0, NestedValueValidation{ValueValidation: ValueValidation{AnyOf: either}})
	}
}

func unfoldUnion(s *Structural, u api.Union) {
	if len(u.Fields) == 0 {
		return
	}
	members := slices.Sorted(maps.Keys(u.Fields))
	exactlyOne := make([]NestedValueValidation, 0, len(members))
	agreeing := make([]NestedValueValidation, 0, len(members))
	values := make([]JSON, 0, len(members))
	for _, m := range members {
		value := JSON{Value: u.Fields[m]}
		exactlyOne = append(exactlyOne, NestedValueValidation{ValueValidation: ValueValidation{Required: []string{m}}})
		agreeing = append(agreeing, NestedValueValidation{
			ValueValidation: ValueValidation{Required: []string{m}},
			Properties: map[string]*NestedValueValidation{
				u.Discriminator: {ValueValidation: ValueValidation{Enum: []JSON{value}}},
			},
		})
		if !slices.Contains(values, value) {
			values = append(values, value)
		}
	}

	v := s.valueValidation()
	if !v.says(func(v *ValueValidation) bool { return reflect.DeepEqual(v.OneOf, exactlyOne) }) {
		if len(v.OneOf) == 0 {
			v.OneOf = exactlyOne
		} else {
			v.AllOf = append(v.AllOf, NestedValueValidation{ValueValidation: ValueValidation{OneOf: exactlyOne}})
		}
	}
	if u.Discriminator == "" {
		return
	}
	if !v.says(func(v *ValueValidation) bool { return reflect.DeepEqual(v.AnyOf, agreeing) }) {
		if len(v.AnyOf) == 0 {
			v.AnyOf = agreeing
		} else {
			v.AllOf = append(v.AllOf, NestedValueValidation{ValueValidation: ValueValidation{AnyOf: agreeing}})
		}
	}
	if s.Properties == nil {
		s.Properties = map[string]*Structural{}
	}
	d := s.Properties[u.Discriminator]
	if d == nil {
		d = &Structural{Generic: Generic{Type: "string"}}
		s.Properties[u.Discriminator] = d
	}
	andEnum(d.valueValidation(), values)
}

// andEnum narrows an enum to values.
func andEnum(v *ValueValidation, values []JSON) {
	if len(v.Enum) == 0 {
		v.Enum = values
		return
	}
	var both []JSON
	for _, e := range v.Enum {
		if slices.ContainsFunc(values, func(x JSON) bool { return reflect.DeepEqual(e, x) }) {
			both = append(both, e)
		}
	}
	if len(both) > 0 {
		v.Enum = both
		return
	}
	// An empty enum cannot be written.
	enum := NestedValueValidation{ValueValidation: ValueValidation{Enum: values}}
	if !v.says(func(v *ValueValidation) bool { return reflect.DeepEqual(v.Enum, values) }) {
		v.AllOf = append(v.AllOf, enum)
	}
}

// says reports whether v, or one of the schemas that it and's, satisfies f.
func (v *ValueValidation) says(f func(*ValueValidation) bool) bool {
	if f(v) {
		return true
	}
	return slices.ContainsFunc(v.AllOf, func(n NestedValueValidation) bool { return f(&n.ValueValidation) })
}

// valueValidation returns the ValueValidation of s to be changed.
func (s *Structural) valueValidation() *ValueValidation {
	if s.ValueValidation == nil {
		s.ValueValidation = &ValueValidation{}
	}
	return s.ValueValidation
}

func unfoldEmbeddedResource(s *Structural) {
	if s.Properties == nil {
		s.Properties = map[string]*Structural{}
	}
	for name, implied := range embeddedResourceFields() {
		if s.Properties[name] == nil {
			s.Properties[name] = implied
		} else {
			andSchema(s.Properties[name], implied)
		}
	}
	v := s.valueValidation()
	for _, name := range []string{"kind", "apiVersion"} {
		if !slices.Contains(v.Required, name) {
			v.Required = append(v.Required, name)
		}
	}
}

// andSchema adds to s what implied says. A condition goes next to a condition of the
// author's through allOf, and takes its type along, as the documents show; the
// author's own type, fields and descriptions stay where they were written. A
// map stays a map: fields are not put beside additionalProperties.
func andSchema(s, implied *Structural) {
	contradicts := s.Type != "" && s.Type != implied.Type || s.XIntOrString
	switch {
	case implied.ValueValidation == nil && !contradicts:
		s.Type = implied.Type
	case s.ValueValidation == nil && !contradicts:
		s.Type = implied.Type
		s.ValueValidation = implied.ValueValidation
	case reflect.DeepEqual(s.ValueValidation, implied.ValueValidation) && !contradicts:
		s.Type = implied.Type
	default:
		said := NestedValueValidation{ForbiddenGenerics: Generic{Type: implied.Type}}
		if implied.ValueValidation != nil {
			said.ValueValidation = *implied.ValueValidation
		}
		v := s.valueValidation()
		if slices.ContainsFunc(v.AllOf, func(n NestedValueValidation) bool { return reflect.DeepEqual(n, said) }) {
			break
		}
		all := []NestedValueValidation{said}
		if !reflect.DeepEqual(*v, ValueValidation{}) {
			all = append(all, NestedValueValidation{ValueValidation: *v})
		}
		s.ValueValidation = &ValueValidation{AllOf: all}
	}
	if contradicts {
		return
	}
	if implied.Properties != nil && s.AdditionalProperties == nil {
		if s.Properties == nil {
			s.Properties = make(map[string]*Structural, len(implied.Properties))
		}
		for name, field := range implied.Properties {
			if s.Properties[name] == nil {
				s.Properties[name] = field
			} else {
				andSchema(s.Properties[name], field)
			}
		}
	}
	if ap := implied.AdditionalProperties; ap != nil && s.Properties == nil {
		switch {
		case s.AdditionalProperties == nil:
			s.AdditionalProperties = ap
		case s.AdditionalProperties.Structural != nil:
			andSchema(s.AdditionalProperties.Structural, ap.Structural)
		}
	}
	if implied.Items != nil {
		if s.Items == nil {
			s.Items = implied.Items
		} else {
			andSchema(s.Items, implied.Items)
		}
	}
}

// apiVersionPattern is what kube-apiserver takes for the apiVersion of an embedded
// resource: not empty, and at most one slash.
const apiVersionPattern = `^([^/]+/?|/)[^/]*$`

// embeddedResourceFields are the fields that every resource has. The result is
// the caller's.
func embeddedResourceFields() map[string]*Structural {
	apiVersion := typedSchema("string")
	apiVersion.ValueValidation = &ValueValidation{Pattern: apiVersionPattern}
	return map[string]*Structural{
		"apiVersion": apiVersion,
		"kind":       typedSchema("string"),
		"metadata":   objectMetaSchema(),
	}
}

// objectMetaSchema is the schema of metadata: the fields of Kubernetes'
// ObjectMeta. Timestamps are nullable because clients write creationTimestamp:
// null for objects that were not created yet.
func objectMetaSchema() *Structural {
	time := func() *Structural {
		t := formatSchema("string", "date-time")
		t.Nullable = true
		return t
	}
	list := func(items *Structural) *Structural {
		return &Structural{Generic: Generic{Type: "array"}, Items: items}
	}
	stringMap := func() *Structural {
		return &Structural{
			Generic:              Generic{Type: "object"},
			AdditionalProperties: &StructuralOrBool{Structural: typedSchema("string"), Bool: true},
		}
	}
	fieldsV1 := typedSchema("object")
	fieldsV1.XPreserveUnknownFields = true
	owner := objectSchema(map[string]*Structural{
		"apiVersion":         typedSchema("string"),
		"kind":               typedSchema("string"),
		"name":               typedSchema("string"),
		"uid":                typedSchema("string"),
		"controller":         typedSchema("boolean"),
		"blockOwnerDeletion": typedSchema("boolean"),
	})
	owner.ValueValidation = &ValueValidation{Required: []string{"apiVersion", "kind", "name", "uid"}}
	return objectSchema(map[string]*Structural{
		"name":                       typedSchema("string"),
		"generateName":               typedSchema("string"),
		"namespace":                  typedSchema("string"),
		"selfLink":                   typedSchema("string"),
		"uid":                        typedSchema("string"),
		"resourceVersion":            typedSchema("string"),
		"generation":                 formatSchema("integer", "int64"),
		"creationTimestamp":          time(),
		"deletionTimestamp":          time(),
		"deletionGracePeriodSeconds": formatSchema("integer", "int64"),
		"labels":                     stringMap(),
		"annotations":                stringMap(),
		"ownerReferences":            list(owner),
		"finalizers":                 list(typedSchema("string")),
		"managedFields": list(objectSchema(map[string]*Structural{
			"manager":     typedSchema("string"),
			"operation":   typedSchema("string"),
			"apiVersion":  typedSchema("string"),
			"time":        time(),
			"fieldsType":  typedSchema("string"),
			"fieldsV1":    fieldsV1,
			"subresource": typedSchema("string"),
		})),
	})
}

func typedSchema(t string) *Structural { return &Structural{Generic: Generic{Type: t}} }

func formatSchema(t, format string) *Structural {
	return &Structural{Generic: Generic{Type: t}, ValueValidation: &ValueValidation{Format: format}}
}

func objectSchema(fields map[string]*Structural) *Structural {
	return &Structural{Generic: Generic{Type: "object"}, Properties: fields}
}

// WeakenForOpenAPIV2 returns a copy of s without what OpenAPI v2 cannot say, or
// what kubectl cannot read in it. Publish s.Unfold(sem).WeakenForOpenAPIV2(sem) as
// v2. The result is weaker: it takes whatever s takes. Nil gives nil.
//
//   - Junctors are dropped. As the documents have it, so is pattern, and a type
//     that only an allOf states is kept.
//   - v2 has no nullable. A type would refuse null, so a nullable value has none, and
//     it is no longer required, because kubectl takes a null for an absent field.
//   - kubectl takes a value with properties for an object without other fields, and
//     a value without a type, or of type object, for one with nothing known about
//     it. So there are no properties or items where null or unknown fields are
//     allowed.
//   - kubectl wants an array to have items; without them it has no type.
func (s *Structural) WeakenForOpenAPIV2(sem Semantics) *Structural {
	out := s.DeepCopy()
	out.visit(func(s *Structural) {
		if v := s.ValueValidation; v != nil {
			if s.Type == "" && sem.UnfoldsAsDocumented() {
				s.Type = typeInAllOf(v)
			}
			v.AllOf, v.OneOf, v.AnyOf, v.Not = nil, nil, nil, nil
			if !sem.PublishesPatternInV2() {
				v.Pattern = ""
			}
		}
		if s.Nullable {
			s.Type, s.Nullable = "", false
			s.Items, s.Properties = nil, nil
		}
		if s.XPreserveUnknownFields {
			s.Items, s.Properties = nil, nil
		}
		if s.Type == "array" && s.Items == nil || s.Type == "object" && s.XPreserveUnknownFields {
			s.Type = ""
		}
		v := s.ValueValidation
		if v == nil {
			return
		}
		if ap := s.AdditionalProperties; ap != nil && ap.Structural != nil && ap.Structural.Nullable {
			v.Required = nil
		}
		v.Required = slices.DeleteFunc(v.Required, func(name string) bool {
			return s.Properties[name] != nil && s.Properties[name].Nullable
		})
		if len(v.Required) == 0 {
			v.Required = nil
		}
		if reflect.DeepEqual(*v, ValueValidation{}) {
			s.ValueValidation = nil
		}
	})
	return out
}

// typeInAllOf is the type that some schema under allOf states.
func typeInAllOf(v *ValueValidation) string {
	for i := range v.AllOf {
		if g := &v.AllOf[i].ForbiddenGenerics; g.Type != "" && !g.Nullable {
			return g.Type
		}
	}
	return ""
}
