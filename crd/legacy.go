package crd

import (
	"errors"
	"regexp/syntax"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// legacyPath is where the draft-4 schema of 2017 stands.
func (f *form) legacyPath() *field.Path {
	if f.beta {
		return field.NewPath("spec", "validation", "jsonSchema")
	}
	return field.NewPath("metadata", "annotations").Key(api.JSONSchemaAnnotation)
}

// hasLegacy says whether a draft-4 schema counts: it does not beside another one.
func (f *form) hasLegacy(sem schema.Semantics) bool {
	return knowsLegacy(sem) && f.legacy != nil && len(f.spec.schemas()) == 0
}

// legacy checks the draft-4 schema of 2017.
func (d *demands) legacy(f *form, path *field.Path) (errs field.ErrorList) {
	if !knowsLegacy(d.semantics) {
		return nil
	}
	at := f.legacyPath()
	if f.legacyErr != nil {
		return field.ErrorList{field.Invalid(at, f.meta.Annotations[api.JSONSchemaAnnotation], f.legacyErr.Error())}
	}
	if !d.hasLegacy {
		return nil
	}
	if f.spec.prunes() {
		errs = append(errs, field.Invalid(path.Child("preserveUnknownFields"), false, "must be true with a jsonSchema, which is not structural: pruning needs an openAPIV3Schema"))
	}
	if d.anyStatus(&f.spec) {
		// What draft 4 needs beside the shape does no harm.
		root := *f.legacy
		root.Schema, root.Definitions = "", nil
		errs = append(errs, d.rootShape(&root, path.Child("validation"), "jsonSchema")...)
	}
	found := false
	anyBelow(f.legacy, func(s *api.JSONSchemaProps) bool {
		found = s.UniqueItems
		return found
	})
	if found {
		errs = append(errs, uniqueItems(f.legacy, at, new(int))...)
	}
	if bad, reason := badPattern(f.legacy); bad != nil {
		errs = append(errs, field.Invalid(at, *bad, "has an invalid pattern: "+reason))
		return errs
	}
	if _, err := schema.CompileJSONSchema(f.legacy, schema.WithSemantics(d.semantics), schema.WithoutRules()); err != nil {
		var bad *schema.ConversionError
		if !errors.As(err, &bad) {
			return append(errs, field.Invalid(at, "", err.Error()))
		}
		errs = append(errs, field.Invalid(bad.Path.Field(at).Child(bad.Keyword), "", bad.Keyword+" "+bad.Reason))
	}
	return errs
}

// uniqueItems finds the schemas that ask for unique items. steps bounds the paths
// of all errors together.
func uniqueItems(s *api.JSONSchemaProps, at *field.Path, steps *int) (errs field.ErrorList) {
	if s == nil || *steps > maxErrorSteps {
		return nil
	}
	if s.UniqueItems {
		e := field.Forbidden(at.Child("uniqueItems"), "uniqueItems cannot be set to true since the runtime complexity becomes quadratic")
		*steps += len(e.Field) / 4
		errs = append(errs, e)
	}
	below := func(s *api.JSONSchemaProps, at *field.Path) { errs = append(errs, uniqueItems(s, at, steps)...) }
	list := func(keyword string, schemas []api.JSONSchemaProps) {
		for i := range schemas {
			below(&schemas[i], at.Child(keyword).Index(i))
		}
	}
	named := func(keyword string, schemas map[string]api.JSONSchemaProps) {
		for _, name := range sortedKeys(schemas) {
			s := schemas[name]
			below(&s, at.Child(keyword).Key(name))
		}
	}
	if s.Items != nil {
		below(s.Items.Schema, at.Child("items"))
		list("items", s.Items.JSONSchemas)
	}
	list("allOf", s.AllOf)
	list("anyOf", s.AnyOf)
	list("oneOf", s.OneOf)
	below(s.Not, at.Child("not"))
	named("properties", s.Properties)
	named("patternProperties", s.PatternProperties)
	named("definitions", s.Definitions)
	if s.AdditionalProperties != nil {
		below(s.AdditionalProperties.Schema, at.Child("additionalProperties"))
	}
	if s.AdditionalItems != nil {
		below(s.AdditionalItems.Schema, at.Child("additionalItems"))
	}
	for _, name := range sortedKeys(s.Dependencies) {
		below(s.Dependencies[name].Schema, at.Child("dependencies").Key(name))
	}
	return errs
}

// badPattern returns the first pattern of a schema that is not a regular expression.
func badPattern(s *api.JSONSchemaProps) (pattern *string, reason string) {
	check := func(text string) bool {
		if text == "" {
			return false
		}
		_, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			pattern, reason = &text, err.Error()
		}
		return err != nil
	}
	anyBelow(s, func(s *api.JSONSchemaProps) bool {
		if check(s.Pattern) {
			return true
		}
		for text := range s.PatternProperties {
			if check(text) {
				return true
			}
		}
		return false
	})
	return pattern, reason
}
