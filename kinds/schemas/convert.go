package schemas

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"espalier.dev/api"
	"espalier.dev/openapi"
)

// maxNesting is how often a type is described inside itself. Only the schemas in CRDs refer to
// themselves. Their title is the name of the type.
const maxNesting = 2

// converter converts definitions of OpenAPI to schemas without references, as CRDs have them.
type converter struct {
	definitions map[string]common.OpenAPIDefinition
	// done are the definitions that were converted. They share their parts with all schemas
	// that refer to them.
	done map[string]api.JSONSchemaProps
	// nesting counts how often each definition is open.
	nesting map[string]int
	// recursive has the types that refer to themselves.
	recursive map[string]bool
	err       error
}

// convert returns the schema of a definition.
func convert(name string, definitions map[string]common.OpenAPIDefinition) (*api.JSONSchemaProps, error) {
	c := &converter{definitions: definitions, done: map[string]api.JSONSchemaProps{}, nesting: map[string]int{}, recursive: map[string]bool{}}
	out := c.definition(name)
	return &out, c.err
}

// definition returns the schema of a definition.
func (c *converter) definition(name string) api.JSONSchemaProps {
	if s, ok := c.done[name]; ok {
		return s
	}
	d, ok := c.definitions[name]
	if !ok {
		c.err = fmt.Errorf("there is no definition of %s", name)
		return api.JSONSchemaProps{}
	}
	special := func(out api.JSONSchemaProps) api.JSONSchemaProps {
		out.Description = d.Schema.Description
		return out
	}
	preserve := true
	switch name {
	case nameOf[intstr.IntOrString]():
		return special(api.JSONSchemaProps{XIntOrString: true})
	case nameOf[apiresource.Quantity]():
		out := special(api.JSONSchemaProps{XIntOrString: true, Format: "quantity"})
		// The published description is a grammar.
		out.Description = "A number with an optional suffix, such as 0.5, 100m or 1Gi."
		return out
	case nameOf[runtime.RawExtension](), nameOf[metav1.FieldsV1]():
		return special(api.JSONSchemaProps{Type: []string{"object"}, XPreserveUnknownFields: &preserve})
	}
	if c.nesting[name] == maxNesting {
		c.recursive[name] = true
		return special(api.JSONSchemaProps{Title: shortName(name), Type: []string{"object"}, XPreserveUnknownFields: &preserve})
	}
	c.nesting[name]++
	out := c.schema(&d.Schema)
	c.nesting[name]--
	if c.recursive[name] {
		out.Title = shortName(name)
	}
	// What is inside a type that refers to itself depends on the nesting.
	if len(c.recursive) == 0 {
		c.done[name] = out
	}
	return out
}

// shortName returns the name of a type without its package.
func shortName(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// nameOf returns the name of the definition of a type.
func nameOf[T any]() string {
	return util.GetCanonicalTypeName(reflect.Zero(reflect.TypeFor[T]()).Interface())
}

// schema converts a schema.
func (c *converter) schema(s *spec.Schema) (out api.JSONSchemaProps) {
	if ref := s.Ref.String(); ref != "" {
		out = c.definition(strings.TrimPrefix(ref, openapi.SchemaPrefix))
		if s.Description != "" {
			out.Description = s.Description
		}
	} else {
		out.Description, out.Type, out.Format = s.Description, api.StringOrArray(s.Type), s.Format
	}
	out.Required = append(out.Required, s.Required...)
	for _, value := range s.Enum {
		out.Enum = append(out.Enum, c.json(value))
	}
	if s.Default != nil && !isZero(s.Default) {
		value := c.json(s.Default)
		out.Default = &value
	}
	if s.Items != nil && s.Items.Schema != nil {
		items := c.schema(s.Items.Schema)
		out.Items = &api.JSONSchemaPropsOrArray{Schema: &items}
	}
	if ap := s.AdditionalProperties; ap != nil && ap.Schema != nil {
		values := c.schema(ap.Schema)
		out.AdditionalProperties = &api.JSONSchemaPropsOrBool{Allows: true, Schema: &values}
	}
	if len(s.Properties) > 0 {
		out.Properties = make(map[string]api.JSONSchemaProps, len(s.Properties))
		for name, prop := range s.Properties {
			out.Properties[name] = c.schema(&prop)
		}
	}
	c.extensions(&out, s.Extensions)
	if s.Ref.String() == "" && len(out.Type) == 0 {
		// Any JSON value.
		preserve := true
		out.XPreserveUnknownFields = &preserve
	}
	return out
}

// extensions converts the extensions that schemas in CRDs have too.
func (c *converter) extensions(out *api.JSONSchemaProps, all spec.Extensions) {
	if text, ok := all.GetString("x-kubernetes-list-type"); ok {
		out.XListType = &text
	}
	if text, ok := all.GetString("x-kubernetes-map-type"); ok {
		out.XMapType = &text
	}
	if keys, ok := all["x-kubernetes-list-map-keys"].([]any); ok {
		out.XListMapKeys = nil
		for _, key := range keys {
			out.XListMapKeys = append(out.XListMapKeys, fmt.Sprint(key))
		}
	}
}

// isZero reports whether a default only says that a Go field cannot be missing.
func isZero(v any) bool {
	if object, ok := v.(map[string]any); ok {
		return len(object) == 0
	}
	return reflect.ValueOf(v).IsZero()
}

func (c *converter) json(v any) api.JSON {
	raw, err := json.Marshal(v)
	if err != nil {
		c.err = err
	}
	return api.JSON{Raw: raw}
}
