package crd

import (
	"errors"
	"regexp/syntax"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// legacyPath returns the path of the draft-4 schema of 2017.
func (f *form) legacyPath() *field.Path {
	if f.beta {
		return field.NewPath("spec", "validation", "jsonSchema")
	}
	return field.NewPath("metadata", "annotations").Key(api.JSONSchemaAnnotation)
}

// hasLegacy reports whether a draft-4 schema is used. It is ignored beside another
// schema.
func (f *form) hasLegacy(sem schema.Semantics) bool {
	return sem.KnowsJSONSchema() && f.legacy != nil && len(f.spec.schemas()) == 0
}

// legacy validates the draft-4 schema of 2017.
func (d *demands) legacy(f *form, path *field.Path) (errs field.ErrorList) {
	if !d.semantics.KnowsJSONSchema() {
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
		errs = append(errs, field.Invalid(path.Child("preserveUnknownFields"), false,
			"must be true with a jsonSchema, which is not structural: pruning needs an openAPIV3Schema"))
	}
	if f.spec.anyStatus() {
		// Draft 4 allows $schema and definitions at the root.
		root := *f.legacy
		root.Schema, root.Definitions = "", nil
		errs = append(errs, d.rootShape(&root, path.Child("validation"), "jsonSchema")...)
	}
	errs = append(errs, uniqueItems(f.legacy, at)...)
	if bad, reason := badPattern(f.legacy); bad != nil {
		errs = append(errs, field.Invalid(at, *bad, "has an invalid pattern: "+reason))
		return errs
	}
	if _, err := schema.CompileJSONSchema(f.legacy, schema.WithSemantics(d.semantics), schema.WithoutRules()); err != nil {
		reason := err.Error()
		if bad, ok := errors.AsType[*schema.ConversionError](err); ok {
			at, reason = bad.Path.Field(at).Child(bad.Keyword), bad.Keyword+" "+bad.Reason
		}
		errs = append(errs, field.Invalid(at, "", reason))
	}
	return errs
}

// uniqueItems returns errors for the schemas that have uniqueItems. It bounds the total
// length of the paths.
func uniqueItems(s *api.JSONSchemaProps, at *field.Path) (errs field.ErrorList) {
	var steps pathSteps
	schema.WalkSubschemas(s, func(path schema.SchemaPath, s *api.JSONSchemaProps) bool {
		if s.UniqueItems && !steps.tooMany() {
			e := field.Forbidden(path.Field(at).Child("uniqueItems"),
				"uniqueItems cannot be set to true since the runtime complexity becomes quadratic")
			steps.add(e)
			errs = append(errs, e)
		}
		return true
	})
	return errs
}

// badPattern returns the first pattern of a schema that is not a valid regular
// expression.
func badPattern(s *api.JSONSchemaProps) (pattern *string, reason string) {
	check := func(text string) bool {
		_, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			pattern, reason = &text, err.Error()
		}
		return err != nil
	}
	schema.AnySubschema(s, func(s *api.JSONSchemaProps) bool {
		if check(s.Pattern) {
			return true
		}
		for _, text := range sortedKeys(s.PatternProperties) {
			if check(text) {
				return true
			}
		}
		return false
	})
	return pattern, reason
}
