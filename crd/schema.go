package crd

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// schema validates the schema of a version, or of all versions.
func (d *demands) schema(ctx context.Context, v *api.CustomResourceValidation, status, unchanged bool, path *field.Path) field.ErrorList {
	props := openAPI(v)
	if props == nil {
		return nil
	}
	at := path.Child("openAPIV3Schema")
	var errs field.ErrorList
	if status {
		errs = append(errs, d.rootShape(props, path, "openAPIV3Schema")...)
	}
	if props.Nullable {
		errs = append(errs, field.Forbidden(path.Child("openAPIV3Schema.nullable"), "nullable cannot be true at the root"))
	}
	w := schemaWalk{d: d, skipped: map[string]bool{}}
	place := place{path: at, root: true, defaults: d.defaults, noDefaults: d.noDefaults}
	var structural *schema.Structural
	if d.structural {
		s, err := schema.NewStructural(props)
		if err == nil {
			structural = s
			found := d.structuralErrors(ctx, s, at)
			errs = append(errs, found...)
			place.rules = len(found) == 0
		}
	}
	w.walk(props, place)
	errs = append(errs, w.errs...)
	if d.structural && structural == nil && len(errs) == 0 {
		// Only shown if the errors above do not already describe the problem better.
		errs = append(errs, field.Invalid(at, "", unsupportedKeyword(props)))
	}
	if structural != nil && len(errs) == 0 {
		errs = append(errs, d.compiles(structural, at)...)
	}
	if schema.AnySubschema(props, hasRules) {
		errs = append(errs, d.compiledRules(ctx, structural, &w, place.rules, unchanged, at)...)
	}
	return errs
}

// compiles returns why a schema without other errors cannot be compiled: without a
// Program the resource could not be served. kube-apiserver accepts such schemas, whose
// defaults exhaust all memory when they are applied. Rules are compiled by their
// checker.
func (d *demands) compiles(s *schema.Structural, at *field.Path) field.ErrorList {
	_, err := schema.Compile(s, schema.WithSemantics(d.semantics), schema.WithoutRules())
	if err == nil {
		return nil
	}
	if bad, ok := errors.AsType[*schema.DefaultError](err); ok {
		at, err = bad.Path.Field(at).Child("default"), bad.Err
	}
	return field.ErrorList{field.Invalid(at, "", err.Error())}
}

// structuralErrors returns the reasons why a schema is not structural or, if it is, the
// errors in its defaults.
func (d *demands) structuralErrors(ctx context.Context, s *schema.Structural, at *field.Path) (errs field.ErrorList) {
	for _, f := range violations(s, d.semantics) {
		errs = append(errs, f.FieldError(at))
	}
	if len(errs) > 0 {
		return errs
	}
	return d.checkDefaults(ctx, s, at)
}

// rootShape validates the root of a schema with a status subresource: only
// properties.status may validate the status.
func (d *demands) rootShape(s *api.JSONSchemaProps, path *field.Path, name string) field.ErrorList {
	at := path.Child(name)
	// In the order of kube-apiserver, which stops at the first.
	before := []struct {
		name string
		set  bool
	}{{"id", s.ID != ""}, {"$schema", s.Schema != ""}, {"$ref", s.Ref != nil}}
	for _, k := range before {
		if k.set {
			return d.notAtRoot(at, k.name)
		}
	}
	if t := typeOf(s); t != "" && t != "object" {
		return field.ErrorList{field.Invalid(path.Child(name+".type"), t,
			`only "object" is allowed as the type at the root of the schema if the status subresource is enabled`)}
	}
	after := []struct {
		name string
		set  bool
	}{
		{"nullable", s.Nullable}, {"default", s.Default != nil}, {"enum", s.Enum != nil},
		{"maxProperties", s.MaxProperties != nil}, {"minProperties", s.MinProperties != nil},
		{"allOf", s.AllOf != nil}, {"oneOf", s.OneOf != nil}, {"anyOf", s.AnyOf != nil}, {"not", s.Not != nil},
		{"additionalProperties", s.AdditionalProperties != nil}, {"patternProperties", s.PatternProperties != nil},
		{"dependencies", s.Dependencies != nil}, {"additionalItems", s.AdditionalItems != nil}, {"definitions", s.Definitions != nil},
		{"x-kubernetes-embedded-resource", s.XEmbeddedResource}, {"x-kubernetes-int-or-string", s.XIntOrString},
		{"x-kubernetes-list-map-keys", s.XListMapKeys != nil}, {"x-kubernetes-list-type", s.XListType != nil},
		{"x-kubernetes-map-type", s.XMapType != nil},
	}
	for _, k := range after {
		if k.set {
			return d.notAtRoot(at, k.name)
		}
	}
	return nil
}

func (d *demands) notAtRoot(at *field.Path, keyword string) field.ErrorList {
	allowed := []string{"Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum",
		"Minimum", "ExclusiveMinimum", "MaxLength", "MinLength",
		"Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required", "Items",
		"Properties", "ExternalDocs", "Example", "XPreserveUnknownFields"}
	if !d.beta {
		allowed = append(allowed, "XValidations")
	}
	return field.ErrorList{field.Invalid(at, keyword,
		fmt.Sprintf("only %v fields are allowed at the root of the schema if the status subresource is enabled", allowed))}
}

// typeOf returns the type of a schema, or "" if it has a list of types.
func typeOf(s *api.JSONSchemaProps) string {
	if len(s.Type) > 1 {
		return fmt.Sprint([]string(s.Type))
	}
	return s.Type.Single()
}

func openAPITypes() []string {
	return []string{"array", "boolean", "integer", "number", "object", "string"}
}

func isOpenAPIType(t string) bool {
	switch t {
	case "array", "boolean", "integer", "number", "object", "string":
		return true
	}
	return false
}

// unsupportedKeyword returns kube-apiserver's message about the keyword of a schema
// that a structural schema cannot have.
func unsupportedKeyword(s *api.JSONSchemaProps) string {
	const text = "OpenAPIV3Schema '%s' is not supported"
	word := ""
	schema.AnySubschema(s, func(s *api.JSONSchemaProps) bool {
		switch {
		case s.ID != "":
			word = "id"
		case s.Schema != "":
			word = "schema"
		case s.Ref != nil && *s.Ref != "":
			word = "$ref"
		case len(s.PatternProperties) > 0:
			word = "patternProperties"
		case len(s.Dependencies) > 0:
			word = "dependencies"
		case s.AdditionalItems != nil:
			word = "additionalItems"
		case len(s.Definitions) > 0:
			word = "definitions"
		}
		return word != ""
	})
	if word == "" {
		return "must be a structural schema"
	}
	return fmt.Sprintf(text, word)
}
