package golang

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"espalier.dev/analysis/generate"
	"espalier.dev/api"
	"espalier.dev/schema"
)

// position is the kind of declaration that markers belong to.
type position uint8

const (
	atField position = iota
	// atType is a type declaration, where nullable, default and example have no markers.
	atType
	// atItems is the field that holds a list, for markers of its items.
	atItems
)

// markers collects the markers of a schema.
type markers struct {
	v   *generate.Value
	pos position
	// items reports that the markers of items apply: the field holds the list itself.
	items bool
	// rest has the keywords that no marker expresses so far.
	rest  *api.JSONSchemaProps
	lines []string
}

// newMarkers starts with all keywords of a schema, apart from those that the Go type itself
// expresses.
func newMarkers(v *generate.Value, pos position) *markers {
	s := *v.Schema
	s.Description = ""
	switch v.Kind {
	case generate.List:
		s.Items, s.Type = nil, ""
	case generate.Map:
		s.AdditionalProperties, s.Type = nil, ""
	case generate.Object:
		s.Properties, s.Type = nil, ""
	case generate.Resource:
		s.Type, s.XPreserveUnknownFields = "", false
	case generate.JSON:
		s.XPreserveUnknownFields = false
	case generate.IntOrString:
		// It may have a type, which restricts it.
	default:
		s.Type = ""
	}
	rest := s.ToJSONSchemaProps()
	if v.Kind == generate.Object {
		rest.Required = nil
	}
	return &markers{v: v, pos: pos, rest: rest, items: true}
}

func (m *markers) add(marker string) { m.lines = append(m.lines, "+"+marker) }

// validation adds a kubebuilder validation marker.
func (m *markers) validation(name, value string) {
	if m.pos == atItems {
		name = "items:" + name
	}
	if value != "" {
		name += "=" + value
	}
	m.add("kubebuilder:validation:" + name)
}

// all adds the markers of a value of type e, which is nil for lists and maps.
func (m *markers) all(e *expression) *markers {
	r := m.rest
	if m.pos == atItems && !m.items {
		if e == intstrType || e == quantityType {
			m.dropIntOrString(e)
		}
		return m.onlyRest()
	}
	schemaless := false
	switch m.v.Kind {
	case generate.String:
		if e == bytesType || e == timeType {
			r.Format = ""
		}
	case generate.Integer:
		if r.Format == e.text {
			r.Format = ""
		}
	case generate.IntOrString:
		schemaless = m.intOrString(e)
	case generate.Resource:
		r.XEmbeddedResource = false
		m.validation("XEmbeddedResource", "")
	case generate.JSON:
		if e == rawType {
			r.Type = nil
		} else if len(r.Type) > 0 {
			object := r.Type[0] == "object"
			m.validation("Type", r.Type[0])
			r.Type = nil
			if object && m.pos == atField {
				m.object("structType")
			}
		}
	}
	if r.XPreserveUnknownFields != nil {
		m.preserve()
	}
	if !schemaless && (e == timeType || e == jsonType || e == rawType) {
		// The schema of these types is not known while markers are applied.
		m.general()
	} else {
		m.keywords()
	}
	return m.own()
}

func (m *markers) preserve() {
	m.rest.XPreserveUnknownFields = nil
	m.add("kubebuilder:pruning:PreserveUnknownFields")
}

// dropIntOrString drops what the types intstr.IntOrString and resource.Quantity express.
func (m *markers) dropIntOrString(e *expression) {
	m.rest.XIntOrString = false
	if isIntOrStringPattern(m.v.Schema) {
		m.rest.AnyOf = nil
	}
	if e == quantityType {
		m.rest.Pattern = ""
	}
}

// intOrString adds the markers of an IntOrString or a Quantity. It reports whether the schema
// is that of the markers, and not of the Go type.
func (m *markers) intOrString(e *expression) (schemaless bool) {
	r := m.rest
	schemaless = !isIntOrStringPattern(m.v.Schema) && m.pos == atField
	m.dropIntOrString(e)
	if schemaless {
		m.add("kubebuilder:validation:Schemaless")
	}
	if len(r.Type) > 0 {
		m.validation("Type", r.Type[0])
		r.Type = nil
	}
	if schemaless || r.Pattern != "" || r.MinLength != nil || r.MaxLength != nil {
		m.validation("XIntOrString", "")
	}
	return schemaless
}

// keywords adds markers for the keywords that validate values of the kind. controller-gen
// rejects keywords of other kinds.
func (m *markers) keywords() {
	r := m.rest
	switch m.v.Kind {
	case generate.String, generate.IntOrString:
		m.integer("MaxLength", &r.MaxLength)
		m.integer("MinLength", &r.MinLength)
		if r.Pattern != "" {
			m.validation("Pattern", strconv.Quote(r.Pattern))
			r.Pattern = ""
		}
	case generate.Integer, generate.Number:
		m.number("Maximum", &r.Maximum)
		m.number("Minimum", &r.Minimum)
		m.number("MultipleOf", &r.MultipleOf)
		m.boolean("ExclusiveMaximum", &r.ExclusiveMaximum)
		m.boolean("ExclusiveMinimum", &r.ExclusiveMinimum)
	case generate.List:
		m.integer("MaxItems", &r.MaxItems)
		m.integer("MinItems", &r.MinItems)
		m.boolean("UniqueItems", &r.UniqueItems)
		if r.XListType != nil {
			m.add("listType=" + *r.XListType)
			for _, key := range r.XListMapKeys {
				m.add("listMapKey=" + strconv.Quote(key))
			}
			r.XListType, r.XListMapKeys = nil, nil
		}
	case generate.Map:
		m.object("mapType")
	case generate.Object:
		m.object("structType")
	}
	m.general()
}

// object adds markers for the keywords of objects. controller-gen applies the markers of types
// that preserve unknown fields, which have methods for JSON, to a schema without a type first.
func (m *markers) object(mapType string) {
	r := m.rest
	if m.v.Type == nil || !isOpen(m.v.Type) {
		m.integer("MaxProperties", &r.MaxProperties)
		m.integer("MinProperties", &r.MinProperties)
	}
	if r.XMapType != nil {
		m.add(mapType + "=" + *r.XMapType)
		r.XMapType = nil
	}
}

// general adds markers for the keywords that apply to all kinds.
func (m *markers) general() {
	r := m.rest
	if r.Format != "" {
		m.validation("Format", strconv.Quote(r.Format))
		r.Format = ""
	}
	if enum, ok := markerList(r.Enum); ok && len(r.Enum) > 0 {
		m.validation("Enum", enum)
		r.Enum = nil
	}
	for _, rule := range r.XValidations {
		m.validation("XValidation:rule", ruleArguments(rule))
	}
	r.XValidations = nil
}

// own adds markers for the keywords that belong to a field and not to its type, and then the
// rest.
func (m *markers) own() *markers {
	r := m.rest
	if m.pos == atField && m.v.Kind == generate.Object {
		m.rest = &api.JSONSchemaProps{Title: r.Title, ExternalDocs: r.ExternalDocs,
			Nullable: r.Nullable, Default: r.Default, Example: r.Example}
		r = m.rest
	}
	if m.pos != atItems {
		if r.Title != "" {
			m.add("kubebuilder:title=" + strconv.Quote(r.Title))
			r.Title = ""
		}
		if d := r.ExternalDocs; d != nil {
			marker := "kubebuilder:externalDocs:url=" + strconv.Quote(d.URL)
			if d.Description != "" {
				marker += ",description=" + strconv.Quote(d.Description)
			}
			m.add(marker)
			r.ExternalDocs = nil
		}
	}
	if m.pos == atField {
		if r.Nullable {
			m.add("nullable")
			r.Nullable = false
		}
		if r.Default != nil && !isNull(r.Default) {
			m.add("default=" + compact(r.Default))
			r.Default = nil
		}
		if r.Example != nil {
			if example, ok := markerValue(*r.Example); ok {
				m.add("kubebuilder:example=" + example)
				r.Example = nil
			}
		}
	}
	return m.onlyRest()
}

// onlyRest adds a marker with the keywords that no other marker expresses.
func (m *markers) onlyRest() *markers {
	if m.pos != atField && m.v.Kind == generate.Object {
		// The type has the other keywords.
		m.rest = &api.JSONSchemaProps{Nullable: m.rest.Nullable, Default: m.rest.Default,
			Example: m.rest.Example, Title: m.rest.Title, ExternalDocs: m.rest.ExternalDocs}
	}
	if isEmpty(m.rest) {
		return m
	}
	name := "espalier:keywords="
	if m.pos != atField && (m.pos == atItems || m.v.Kind == generate.Object) {
		name = "espalier:items:keywords="
	}
	m.add(name + marshal(m.rest))
	return m
}

func (m *markers) integer(name string, n **int64) {
	if *n != nil {
		m.validation(name, strconv.FormatInt(**n, 10))
		*n = nil
	}
}

// number adds the marker of a number. controller-gen rejects fractions for integers.
func (m *markers) number(name string, n **float64) {
	if *n == nil || m.v.Kind == generate.Integer && **n != float64(int64(**n)) {
		return
	}
	m.validation(name, strconv.FormatFloat(**n, 'f', -1, 64))
	*n = nil
}

func (m *markers) boolean(name string, b *bool) {
	if *b {
		m.validation(name, "true")
		*b = false
	}
}

// ruleArguments returns the arguments of an XValidation marker, starting with the rule.
func ruleArguments(r api.ValidationRule) string {
	text := strconv.Quote(r.Rule)
	for _, a := range []struct{ name, value string }{{"message", r.Message},
		{"messageExpression", r.MessageExpression}, {"fieldPath", r.FieldPath}} {
		if a.value != "" {
			text += "," + a.name + "=" + strconv.Quote(a.value)
		}
	}
	if r.Reason != nil {
		text += ",reason=" + strconv.Quote(string(*r.Reason))
	}
	if r.OptionalOldSelf != nil {
		text += ",optionalOldSelf=" + strconv.FormatBool(*r.OptionalOldSelf)
	}
	return text
}

// markerList returns JSON values in the syntax of markers. It reports whether they can be
// written so.
func markerList(values []api.JSON) (string, bool) {
	text := "{"
	for i, v := range values {
		if i > 0 {
			text += ","
		}
		one, ok := markerValue(v)
		if !ok || one[0] == '{' {
			return "", false
		}
		text += one
	}
	return text + "}", true
}

// markerValue returns a JSON value in the syntax of markers. It reports whether it can be
// written so: null cannot, nor can lists of several types, and large numbers are not exact.
func markerValue(v api.JSON) (string, bool) {
	var decoded any
	d := json.NewDecoder(bytes.NewReader([]byte(compact(&v))))
	d.UseNumber()
	if d.Decode(&decoded) != nil {
		return "", false
	}
	switch x := decoded.(type) {
	case string:
		return strconv.Quote(x), true
	case bool:
		return strconv.FormatBool(x), true
	case json.Number:
		if n, err := x.Int64(); err == nil {
			return strconv.FormatInt(n, 10), true
		}
	}
	return "", false
}

func isNull(v *api.JSON) bool { return compact(v) == "null" }

// compact returns a JSON value on one line.
func compact(v *api.JSON) string { return marshal(v) }

// marshal returns a value as JSON on one line.
func marshal(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // schemas can be encoded
	return string(bytes.TrimSpace(b.Bytes()))
}

func isEmpty(s *api.JSONSchemaProps) bool { return marshal(s) == "{}" }

// typeMarkers returns the markers of the declaration of a struct.
func typeMarkers(t *generate.Type) []string {
	s := *t.Schema
	s.Generic = schema.Generic{Type: s.Type, ReadOnly: s.ReadOnly}
	if s.ValueValidation != nil {
		v := *s.ValueValidation
		v.Required = slices.DeleteFunc(slices.Clone(v.Required), func(name string) bool { return s.Properties[name] != nil })
		s.ValueValidation = &v
	}
	required := []string(nil)
	if s.ValueValidation != nil {
		required = s.ValueValidation.Required
	}
	s.XUnions = slices.Clone(s.XUnions)
	m := newMarkers(&generate.Value{Kind: generate.Object, Schema: &s, Type: t}, atType)
	m.rest.Required = required
	if t.Embedded {
		m.rest.XEmbeddedResource = false
		m.validation("XEmbeddedResource", "")
	}
	if m.rest.XPreserveUnknownFields != nil {
		m.preserve()
	}
	m.keywords()
	if !isEmpty(m.rest) {
		m.add("espalier:keywords=" + marshal(m.rest))
	}
	return m.lines
}
