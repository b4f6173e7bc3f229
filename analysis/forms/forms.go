// Package forms derives the forms in which the schema of a version can be shown: the structural
// schema, its skeleton, what is published as OpenAPI, and JSON Schema.
package forms

import (
	"espalier.dev/analysis/jsonschema"
	"espalier.dev/analysis/object"
	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// JSONSchema is the name of the form for editors and other tools.
const JSONSchema = "json-schema"

// Form is a form of a schema.
type Form struct {
	Name, Summary string
	// Structural is set if the form needs a structural schema.
	Structural bool
	// props derives the form. It is nil for JSONSchema.
	props func(*crd.Version, schema.Semantics) *api.JSONSchemaProps
}

// All returns the forms.
func All() []Form {
	return []Form{
		{"core", "types, fields and items only, without value validations", true,
			func(v *crd.Version, _ schema.Semantics) *api.JSONSchemaProps {
				return v.Structural().WithoutValueValidations().ToJSONSchemaProps()
			}},
		{"skeleton", "all specified fields, including those under allOf, anyOf, oneOf and not", false,
			func(v *crd.Version, _ schema.Semantics) *api.JSONSchemaProps {
				return schema.Skeleton(object.OriginalSchema(v.Definition().CRD(), v.Name()))
			}},
		{"structural", "the structural schema that validation, pruning and defaulting use", true,
			func(v *crd.Version, _ schema.Semantics) *api.JSONSchemaProps {
				return v.Structural().ToJSONSchemaProps()
			}},
		{"openapi-v2", "the schema as published in OpenAPI v2", true,
			func(v *crd.Version, sem schema.Semantics) *api.JSONSchemaProps {
				return published(v, sem).WeakenForOpenAPIV2(sem).ToJSONSchemaProps()
			}},
		{"openapi-v3", "the schema as published in OpenAPI v3", true,
			func(v *crd.Version, sem schema.Semantics) *api.JSONSchemaProps {
				return published(v, sem).ToJSONSchemaProps()
			}},
		{JSONSchema, "a JSON Schema document for editors and other tools", true, nil},
	}
}

// published returns the schema of a version as a server publishes it: without what the semantics does not have, which
// the server has dropped from the CRD.
func published(v *crd.Version, sem schema.Semantics) *schema.Structural {
	out := v.Structural().Unfold(sem)
	for _, s := range out.All() {
		if !sem.KnowsReadOnly() {
			s.ReadOnly = false
		}
		if !sem.KnowsUnions() {
			s.XUnions = nil
		}
	}
	return out
}

// Lookup returns the form with a name.
func Lookup(name string) (Form, bool) {
	for _, f := range All() {
		if f.Name == name {
			return f, true
		}
	}
	return Form{}, false
}

// Derive returns the form of the schema of a version, which encodes as JSON. The options are those of
// JSON Schema. A version without a schema has the empty one.
func (f Form) Derive(v *crd.Version, o jsonschema.Options) (any, error) {
	if f.props == nil {
		return jsonschema.New(v, o)
	}
	if derived := f.props(v, v.Definition().Semantics()); derived != nil {
		return derived, nil
	}
	return &api.JSONSchemaProps{}, nil
}
