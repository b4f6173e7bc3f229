package object

import (
	"slices"
	"strconv"

	"espalier.dev/analysis"
	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/api/v1beta1"
	"espalier.dev/crd"
	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

// document describes the layout of a CRD's text, to point into it.
type document struct {
	// beta reports whether it is written as v1beta1.
	beta bool
	// common reports whether it has one schema for all versions.
	common bool
}

// document returns the text of the CRD, or nothing.
func (o Options) document() []byte {
	if o.Document == nil {
		return nil
	}
	return o.Document()
}

func readDocument(o Options) (d document) {
	source := o.document()
	id, _ := api.Identify(source)
	if d.beta = id.APIVersion == v1beta1.APIVersion; d.beta {
		if tree, err := jsonx.Parse(source); err == nil {
			_, d.common = schema.Path{{Key: "spec"}, {Key: "validation"}, {Key: "openAPIV3Schema"}}.Find(tree)
		}
	}
	return d
}

// schemaPointer returns a pointer to the schema of a version in the document of the CRD.
func (c *Checker) schemaPointer(v *crd.Version) string {
	if d := c.document(); d.beta {
		if legacy, _ := api.LegacySchema(v.Definition().CRD()); legacy != nil {
			return "/spec/validation/jsonSchema"
		} else if d.common {
			return "/spec/validation/openAPIV3Schema"
		}
	}
	index := slices.IndexFunc(v.Definition().Versions(), func(o *crd.Version) bool { return o == v })
	return "/spec/versions/" + strconv.Itoa(index) + "/schema/openAPIV3Schema"
}

// SchemaLocation returns the location of a schema in the document. Its Path is relative to
// the schema of the version.
func (c *Checker) SchemaLocation(v *crd.Version, path schema.SchemaPath) *analysis.Location {
	at := analysis.Location{Pointer: c.schemaPointer(v) + path.Pointer()}
	if c.options.Locate != nil {
		at = c.options.Locate(at.Pointer)
	}
	at.Path = path.String()
	return &at
}

// pruningSchema returns the schema that causes a field to be pruned, which is nil for metadata,
// and what it has instead of the field, if that is special.
func (c *Checker) pruningSchema(v *crd.Version, change *schema.Change) (at *analysis.Location, special string) {
	switch {
	case change.Schema == (schema.NodeRef{}):
		return nil, "ObjectMeta has no such field"
	case len(change.Schema.Path()) == 0 && len(change.Path) > 1:
		return c.SchemaLocation(v, deepest(v.Structural(), change.Path)), "the schema specifies no fields"
	}
	return c.SchemaLocation(v, change.Schema.Path()), ""
}

// deepest follows a path of an object into a schema as far as possible.
func deepest(s *schema.Structural, path schema.Path) (at schema.SchemaPath) {
	for _, step := range path {
		switch {
		case s == nil:
			return at
		case s.Properties[step.Key] != nil:
			s = s.Properties[step.Key]
			at = append(at, schema.SchemaStep{Keyword: "properties", Form: schema.StepNamed, Name: step.Key})
		case s.Items != nil:
			s = s.Items
			at = append(at, schema.SchemaStep{Keyword: "items"})
		case s.AdditionalProperties != nil:
			s = s.AdditionalProperties.Structural
			at = append(at, schema.SchemaStep{Keyword: "additionalProperties"})
		}
	}
	return at
}

// OriginalSchema returns the schema of a version as the author of the CRD wrote it: the
// draft-4 schema if there is one, nil if there is no schema.
func OriginalSchema(definition *api.CustomResourceDefinition, version string) *api.JSONSchemaProps {
	if legacy, _ := api.LegacySchema(definition); legacy != nil {
		return legacy
	}
	for _, v := range definition.Spec.Versions {
		if v.Name == version && v.Schema != nil {
			return v.Schema.OpenAPIV3Schema
		}
	}
	return nil
}

// original returns the schema of a version as its author wrote it. It parses the document
// each time, because definitions need not keep their schemas.
func (c *Checker) original(v *crd.Version) *api.JSONSchemaProps {
	definition := c.definition.CRD()
	if source := c.options.document(); source != nil {
		read, err := codec.DecodeLenient(source)
		if err != nil {
			// Fields that only Espalier supports must not prevent decoding the rest.
			read, err = codec.DecodeLenient(api.DropMalformedForeign(source))
		}
		if err != nil {
			return nil
		}
		definition = read
	}
	return OriginalSchema(definition, v.Name())
}
