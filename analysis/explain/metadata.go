package explain

import (
	"maps"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/schema"
)

// resource returns the schema of a whole resource as its users see it: apiVersion,
// kind and metadata are there whether s specifies them or not, with the
// documentation that Kubernetes gives them where s has none.
func resource(s *schema.Structural) *schema.Structural {
	out := *s
	out.Properties = maps.Clone(s.Properties)
	if out.Properties == nil {
		out.Properties = map[string]*schema.Structural{}
	}
	typeDocs := metav1.TypeMeta{}.SwaggerDoc()
	for _, name := range []string{"apiVersion", "kind"} {
		out.Properties[name] = implied(out.Properties[name], &schema.Structural{Generic: schema.Generic{Type: "string", Description: typeDocs[name]}})
	}
	meta := ofGoType(reflect.TypeFor[metav1.ObjectMeta]())
	meta.Description = "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
	given := out.Properties["metadata"]
	if given != nil {
		for name, prop := range given.Properties {
			meta.Properties[name] = implied(prop, meta.Properties[name])
		}
		// Nothing in metadata is for the schema to keep or to prune.
		meta.ValueValidation, meta.ValidationExtensions = given.ValueValidation, given.ValidationExtensions
		if given.Description != "" {
			meta.Description = given.Description
		}
	}
	out.Properties["metadata"] = meta
	return &out
}

// implied is what a schema says about a field of metadata, on top of what goes
// without saying.
func implied(given, always *schema.Structural) *schema.Structural {
	if given == nil {
		return always
	}
	if always == nil {
		return given
	}
	out := *given
	if out.Type == "" {
		out.Type = always.Type
	}
	if out.Description == "" {
		out.Description = always.Description
	}
	return &out
}

// ofGoType is the schema of one of apimachinery's types, with its documentation.
func ofGoType(t reflect.Type) *schema.Structural {
	s := &schema.Structural{}
	switch {
	case t == reflect.TypeFor[metav1.Time]():
		s.Type = "string"
		s.ValueValidation = &schema.ValueValidation{Format: "date-time"}
		return s
	case t == reflect.TypeFor[metav1.FieldsV1]():
		s.Type, s.XPreserveUnknownFields = "object", true
		return s
	}
	switch t.Kind() {
	case reflect.Pointer:
		return ofGoType(t.Elem())
	case reflect.String:
		s.Type = "string"
	case reflect.Bool:
		s.Type = "boolean"
	case reflect.Int64:
		s.Type = "integer"
		s.ValueValidation = &schema.ValueValidation{Format: "int64"}
	case reflect.Slice:
		s.Type, s.Items = "array", ofGoType(t.Elem())
	case reflect.Map:
		s.Type, s.AdditionalProperties = "object", &schema.StructuralOrBool{Structural: ofGoType(t.Elem()), Bool: true}
	case reflect.Struct:
		s.Type, s.Properties = "object", map[string]*schema.Structural{}
		docs := map[string]string{}
		if d, ok := reflect.Zero(t).Interface().(interface{ SwaggerDoc() map[string]string }); ok {
			docs = d.SwaggerDoc()
		}
		s.Description = docs[""]
		for i := range t.NumField() {
			name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			if name == "" || name == "-" {
				continue
			}
			prop := ofGoType(t.Field(i).Type)
			prop.Description = docs[name]
			s.Properties[name] = prop
			if !strings.Contains(options, "omitempty") {
				if s.ValueValidation == nil {
					s.ValueValidation = &schema.ValueValidation{}
				}
				s.ValueValidation.Required = append(s.ValueValidation.Required, name)
			}
		}
	}
	return s
}
