package openapi

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	builderutil "k8s.io/kube-openapi/pkg/builder3/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// EncodeMember returns a member of an object of a document, as json.Marshal would write it. The types of
// OpenAPI write compact JSON, which json.Marshal would read once more.
func EncodeMember(name string, value json.Marshaler) ([]byte, error) {
	key, err := json.Marshal(name)
	if err != nil {
		return nil, err
	}
	data, err := encodeValue(value)
	if err != nil {
		return nil, err
	}
	return slices.Concat(key, []byte{':'}, data), nil
}

func encodeValue(value json.Marshaler) ([]byte, error) {
	data, err := value.MarshalJSON()
	if err != nil {
		return nil, err
	}
	// The bytes are those with which U+2028 and U+2029 begin.
	if bytes.ContainsAny(data, "<>&") || bytes.Contains(data, []byte("\xe2\x80")) {
		var escaped bytes.Buffer
		json.HTMLEscape(&escaped, data)
		data = escaped.Bytes()
	}
	return data, nil
}

// encodeSchema returns what EncodeMember returns. If wraps is set, references with other keywords are written as
// in OpenAPI v3.
func encodeSchema(name string, s *spec.Schema, wraps bool) ([]byte, error) {
	e := schemaEncoder{wraps: wraps, out: make([]byte, 0, 16<<10)}
	e.string(name)
	e.out = append(e.out, ':')
	if e.schema(s); !e.failed {
		return bytes.Clone(e.out), nil
	}
	if wraps {
		s = builderutil.WrapRefs(s)
	}
	return EncodeMember(name, s)
}

// schemaEncoder writes the schemas of CRDs as spec.Schema does, several times as fast: that one reflects.
type schemaEncoder struct {
	out []byte
	// wraps is set if a reference with other keywords is written as an allOf, as in OpenAPI v3.
	wraps bool
	// failed is set if there is something that schemas of CRDs do not have.
	failed bool
}

// object writes the members of an object. add writes the name of one.
func (e *schemaEncoder) object(members func(add func(name string))) {
	e.out = append(e.out, '{')
	first := true
	members(func(name string) {
		if !first {
			e.out = append(e.out, ',')
		}
		first = false
		e.string(name)
		e.out = append(e.out, ':')
	})
	e.out = append(e.out, '}')
}

// schema writes a schema. The order of its members is that of spec.Schema.
func (e *schemaEncoder) schema(s *spec.Schema) {
	ref := s.Ref.String()
	if ref != "" && e.wraps && !reflect.DeepEqual(*s, spec.Schema{SchemaProps: spec.SchemaProps{Ref: s.Ref}}) {
		wrapped := *s
		wrapped.Ref, wrapped.AllOf = spec.Ref{}, []spec.Schema{{SchemaProps: spec.SchemaProps{Ref: s.Ref}}}
		s, ref = &wrapped, ""
	}
	if s.ID != "" || s.Schema != "" || s.PatternProperties != nil || s.Dependencies != nil || s.AdditionalItems != nil ||
		s.Definitions != nil || s.Discriminator != "" || s.ExtraProps != nil || s.Type != nil && len(s.Type) != 1 ||
		s.Items != nil && s.Items.Schema == nil {
		e.failed = true
		return
	}
	e.object(func(add func(string)) {
		text := func(name, value string) {
			if value != "" {
				add(name)
				e.string(value)
			}
		}
		isSet := func(name string, value bool) {
			if value {
				add(name)
				e.out = append(e.out, "true"...)
			}
		}
		float := func(name string, value *float64) {
			if value != nil {
				add(name)
				e.value(*value)
			}
		}
		integer := func(name string, value *int64) {
			if value != nil {
				add(name)
				e.value(*value)
			}
		}
		list := func(name string, schemas []spec.Schema) {
			if len(schemas) > 0 {
				add(name)
				each(e, schemas, func(s spec.Schema) { e.schema(&s) })
			}
		}
		text("description", s.Description)
		if s.Type != nil {
			add("type")
			e.string(s.Type[0])
		}
		isSet("nullable", s.Nullable)
		text("format", s.Format)
		text("title", s.Title)
		if s.Default != nil {
			add("default")
			e.value(s.Default)
		}
		float("maximum", s.Maximum)
		isSet("exclusiveMaximum", s.ExclusiveMaximum)
		float("minimum", s.Minimum)
		isSet("exclusiveMinimum", s.ExclusiveMinimum)
		integer("maxLength", s.MaxLength)
		integer("minLength", s.MinLength)
		text("pattern", s.Pattern)
		integer("maxItems", s.MaxItems)
		integer("minItems", s.MinItems)
		isSet("uniqueItems", s.UniqueItems)
		float("multipleOf", s.MultipleOf)
		if len(s.Enum) > 0 {
			add("enum")
			each(e, s.Enum, e.value)
		}
		integer("maxProperties", s.MaxProperties)
		integer("minProperties", s.MinProperties)
		if len(s.Required) > 0 {
			add("required")
			each(e, s.Required, e.string)
		}
		if s.Items != nil {
			add("items")
			e.schema(s.Items.Schema)
		}
		list("allOf", s.AllOf)
		list("oneOf", s.OneOf)
		list("anyOf", s.AnyOf)
		if s.Not != nil {
			add("not")
			e.schema(s.Not)
		}
		if len(s.Properties) > 0 {
			add("properties")
			e.object(func(add func(string)) {
				for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
					add(name)
					property := s.Properties[name]
					e.schema(&property)
				}
			})
		}
		if any := s.AdditionalProperties; any != nil {
			add("additionalProperties")
			if any.Schema != nil {
				e.schema(any.Schema)
			} else {
				e.out = strconv.AppendBool(e.out, any.Allows)
			}
		}
		isSet("readOnly", s.ReadOnly)
		if s.ExternalDocs != nil || s.Example != nil {
			e.generic(add, spec.Schema{SwaggerSchemaProps: spec.SwaggerSchemaProps{ExternalDocs: s.ExternalDocs, Example: s.Example}})
		}
		text("$ref", ref)
		for _, name := range slices.Sorted(maps.Keys(s.Extensions)) {
			switch value := s.Extensions[name].(type) {
			case bool, string:
				add(name)
				e.value(value)
			default:
				e.generic(add, spec.Schema{VendorExtensible: spec.VendorExtensible{Extensions: spec.Extensions{name: value}}})
			}
		}
	})
}

// each writes a list.
func each[V any](e *schemaEncoder, list []V, write func(V)) {
	e.out = append(e.out, '[')
	for i, v := range list {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		write(v)
	}
	e.out = append(e.out, ']')
}

// generic writes all members of a schema as spec.Schema does, with their names.
func (e *schemaEncoder) generic(add func(string), s spec.Schema) {
	data, err := encodeValue(s)
	if err != nil {
		e.failed = true
		return
	}
	data = bytes.TrimSuffix(bytes.TrimPrefix(data, []byte("{")), []byte("}"))
	if len(data) == 0 {
		return
	}
	add("")
	e.out = append(bytes.TrimSuffix(e.out, []byte(`"":`)), data...)
}

// value writes any JSON value.
func (e *schemaEncoder) value(v any) {
	switch v := v.(type) {
	case nil:
		e.out = append(e.out, "null"...)
	case bool:
		e.out = strconv.AppendBool(e.out, v)
	case string:
		e.string(v)
	case int64:
		e.out = strconv.AppendInt(e.out, v, 10)
	case float64:
		if v != math.Trunc(v) || math.Abs(v) >= 1e15 { // others have neither a fraction nor an exponent
			e.whole(v)
			return
		}
		e.out = strconv.AppendFloat(e.out, v, 'f', -1, 64)
	default:
		e.whole(v)
	}
}

// whole writes a value as spec.Schema does.
func (e *schemaEncoder) whole(v any) {
	const before, after = `{"enum":[`, `]}`
	data, err := encodeValue(spec.Schema{SchemaProps: spec.SchemaProps{Enum: []any{v}}})
	text, found := strings.CutPrefix(string(data), before)
	text, alsoFound := strings.CutSuffix(text, after)
	if err != nil || !found || !alsoFound {
		e.failed = true
		return
	}
	e.out = append(e.out, text...)
}

// string writes a text.
func (e *schemaEncoder) string(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			data, err := json.Marshal(s)
			if err != nil || !utf8.ValidString(s) {
				e.failed = true
			}
			e.out = append(e.out, data...)
			return
		}
	}
	e.out = append(append(append(e.out, '"'), s...), '"')
}
