package rules

import (
	"fmt"
	"maps"
	"slices"

	"espalier.dev/schema"
)

// Rules under allOf, anyOf, oneOf or not are not allowed in a CRD and have no meaning.
// Compiling a schema that has them is an error.

func errNested(path schema.SchemaPath) error {
	return fmt.Errorf("%s.x-kubernetes-validations: rules must not be used under allOf, anyOf, oneOf or not", path)
}

// nestedRules returns the path of a schema with rules under a logical operator, or nil.
func nestedRules(s *schema.Structural) schema.SchemaPath {
	var f nestedFinder
	f.core(s)
	return f.found
}

type nestedFinder struct{ path, found schema.SchemaPath }

func (f *nestedFinder) in(step schema.SchemaStep, visit func()) {
	if f.found != nil {
		return
	}
	f.path = append(f.path, step)
	visit()
	f.path = f.path[:len(f.path)-1]
}

func (f *nestedFinder) core(s *schema.Structural) {
	if s == nil {
		return
	}
	if s.Items != nil {
		f.in(schema.SchemaStep{Keyword: "items"}, func() { f.core(s.Items) })
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		f.in(schema.SchemaStep{Keyword: "properties", Form: schema.StepNamed, Name: name}, func() { f.core(s.Properties[name]) })
	}
	if s.AdditionalProperties != nil {
		f.in(schema.SchemaStep{Keyword: "additionalProperties"}, func() { f.core(s.AdditionalProperties.Structural) })
	}
	if s.ValueValidation != nil {
		f.operators(s.ValueValidation)
	}
}

func (f *nestedFinder) operators(v *schema.ValueValidation) {
	branches := func(keyword string, list []schema.NestedValueValidation) {
		for i := range list {
			f.in(schema.SchemaStep{Keyword: keyword, Form: schema.StepIndexed, Index: i}, func() { f.nested(&list[i]) })
		}
	}
	branches("allOf", v.AllOf)
	branches("anyOf", v.AnyOf)
	branches("oneOf", v.OneOf)
	if v.Not != nil {
		f.in(schema.SchemaStep{Keyword: "not"}, func() { f.nested(v.Not) })
	}
}

func (f *nestedFinder) nested(v *schema.NestedValueValidation) {
	if v == nil {
		return
	}
	if len(v.XValidations) > 0 {
		f.found = slices.Clone(f.path)
		return
	}
	if v.Items != nil {
		f.in(schema.SchemaStep{Keyword: "items"}, func() { f.nested(v.Items) })
	}
	for _, name := range slices.Sorted(maps.Keys(v.Properties)) {
		f.in(schema.SchemaStep{Keyword: "properties", Form: schema.StepNamed, Name: name}, func() { f.nested(v.Properties[name]) })
	}
	if v.AdditionalProperties != nil {
		f.in(schema.SchemaStep{Keyword: "additionalProperties"}, func() { f.nested(v.AdditionalProperties.Nested) })
	}
	f.operators(&v.ValueValidation)
}
