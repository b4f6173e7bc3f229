package fix

import (
	"slices"
	"unicode/utf8"
)

// node is a schema as decoded JSON.
type node = map[string]any

// intOrString is the type of values that are an integer or a string.
const intOrString = "int-or-string"

// outline describes the values at one location: everything that follows from the schema,
// inside and outside of logical operators.
type outline struct {
	// typ is the type that every accepted value has, or empty. null reports whether null is
	// accepted in addition.
	typ  string
	null bool
	// fields, items and values are specified by any part of the schema. values describes
	// additional fields.
	fields        map[string]*outline
	items, values *outline
	// open reports whether the schema explicitly allows additional fields.
	open bool
}

// outlineOf returns the outline of a schema.
func outlineOf(s node) *outline {
	o := &outline{}
	o.typ, o.null = statedType(s)
	if enum, ok := s["enum"].([]any); ok && len(enum) > 0 {
		o.enum(enum)
	}
	for name, f := range schemas(s["properties"]) {
		o.field(name, outlineOf(f))
	}
	if items := schemaOf(s["items"]); items != nil {
		o.items = outlineOf(items)
	} else if positions := schemaList(s["items"]); len(positions) > 0 {
		o.items = anyOutline(positions).loose()
	}
	if v, ok := s["additionalProperties"]; ok && v != false {
		o.open = true
		if values := schemaOf(v); values != nil {
			o.values = outlineOf(values)
		}
	}
	for _, values := range schemas(s["patternProperties"]) {
		o.open = true
		o.values = both(o.values, outlineOf(values).loose())
	}
	// For null, only the type and the enum are checked; logical operators are skipped.
	null := o.null
	for _, part := range schemaList(s["allOf"]) {
		o.and(outlineOf(part))
	}
	for _, operator := range []string{"anyOf", "oneOf"} {
		if branches := schemaList(s[operator]); len(branches) > 0 {
			o.and(anyOutline(branches))
		}
	}
	if not := schemaOf(s["not"]); not != nil {
		o.and(outlineOf(not).loose())
	}
	o.null = null
	return o
}

// statedType returns the type that s itself states, and whether s also accepts null.
func statedType(s node) (typ string, null bool) {
	null = s["nullable"] == true
	if s["x-kubernetes-int-or-string"] == true {
		return intOrString, null
	}
	types, ok := s["type"].([]any) // draft 4 allows a list
	if !ok {
		types = []any{s["type"]}
	}
	for i, t := range types {
		t, _ := t.(string)
		switch {
		case t == "null":
			null = true
		case !isType(t):
			return "", true
		case i == 0 || typ == "":
			typ = t
		default:
			if typ = joinTypes(typ, t); typ == "" {
				return "", true
			}
		}
	}
	return typ, null || typ == ""
}

func isType(t string) bool {
	switch t {
	case "object", "array", "string", "integer", "number", "boolean":
		return true
	}
	return false
}

// enum narrows the type to the common type of the enum's values.
func (o *outline) enum(values []any) {
	null, typ, first := false, "", true
	for _, v := range values {
		if v == nil {
			null = true
			continue
		}
		if t := enumType(v); first {
			typ, first = t, false
		} else {
			typ = joinTypes(typ, t)
		}
	}
	o.typ = meetTypes(o.typ, typ)
	o.null = o.null && null
}

// enumType returns the type of the values that Kubernetes considers equal to an enum value:
// 1.5 equals 1, and 65 equals A.
func enumType(v any) string {
	switch v := v.(type) {
	case string:
		if utf8.RuneCountInString(v) == 1 {
			return intOrString
		}
		return "string"
	case bool:
		return "boolean"
	case int64, float64:
		return "number"
	case map[string]any:
		return "object"
	case []any:
		return "array"
	}
	return ""
}

func (o *outline) field(name string, f *outline) {
	if o.fields == nil {
		o.fields = map[string]*outline{}
	}
	o.fields[name] = f
}

// and adds the constraints of another schema that also applies.
func (o *outline) and(p *outline) {
	o.typ = meetTypes(o.typ, p.typ)
	o.null = o.null && p.null
	o.open = o.open || p.open
	for name, f := range p.fields {
		if have := o.fields[name]; have != nil {
			have.and(f)
		} else {
			o.field(name, f)
		}
	}
	o.items = both(o.items, p.items)
	o.values = both(o.values, p.values)
}

// both returns the outline of values that two schemas accept. One of them may be nil.
func both(a, b *outline) *outline {
	switch {
	case a == nil:
		return b
	case b != nil:
		a.and(b)
	}
	return a
}

// anyOutline returns the outline of values that at least one of several schemas accepts.
func anyOutline(branches []node) *outline {
	out := outlineOf(branches[0])
	for _, b := range branches[1:] {
		out.or(outlineOf(b))
	}
	return out
}

// or keeps only what follows from each of two schemas. Fields that only one of them
// specifies stay specified, but without types.
func (o *outline) or(p *outline) {
	o.typ = joinTypes(o.typ, p.typ)
	o.null = o.null || p.null
	o.open = o.open || p.open
	for name, f := range o.fields {
		if other := p.fields[name]; other != nil {
			f.or(other)
		} else {
			f.loose()
		}
	}
	for name, f := range p.fields {
		if o.fields[name] == nil {
			o.field(name, f.loose())
		}
	}
	o.items = either(o.items, p.items)
	o.values = either(o.values, p.values)
}

// either returns the outline of values that one of two schemas accepts. One of them may be
// nil.
func either(a, b *outline) *outline {
	switch {
	case a == nil:
		return b.loose()
	case b == nil:
		return a.loose()
	}
	a.or(b)
	return a
}

// loose removes all types.
func (o *outline) loose() *outline {
	if o == nil {
		return nil
	}
	o.typ, o.null = "", true
	for _, f := range o.fields {
		f.loose()
	}
	o.items.loose()
	o.values.loose()
	return o
}

// meetTypes returns the type of a value that has both types. If the types exclude each
// other, no such value exists, and it returns the first.
func meetTypes(a, b string) string {
	switch {
	case a == "" || narrower(b, a):
		return b
	case a == intOrString && b == "number", a == "number" && b == intOrString:
		return "integer"
	}
	return a
}

// joinTypes returns the type of a value that has one of the types.
func joinTypes(a, b string) string {
	switch {
	case a == "" || b == "":
		return ""
	case a == b || narrower(b, a):
		return a
	case narrower(a, b):
		return b
	case narrower(a, intOrString) && narrower(b, intOrString):
		return intOrString
	}
	return ""
}

// narrower reports whether type a is a proper subtype of type b.
func narrower(a, b string) bool {
	return a == "integer" && (b == "number" || b == intOrString) || a == "string" && b == intOrString
}

// schemaOf returns v as a schema, or nil.
func schemaOf(v any) node {
	s, _ := v.(node)
	return s
}

// schemas returns v as a map of schemas, without the entries that are not schemas.
func schemas(v any) map[string]node {
	m, _ := v.(map[string]any)
	out := make(map[string]node, len(m))
	for name, s := range m {
		if s := schemaOf(s); s != nil {
			out[name] = s
		}
	}
	return out
}

// schemaList returns v as a list of schemas. It is empty if an item is not a schema.
func schemaList(v any) []node {
	list, _ := v.([]any)
	out := make([]node, 0, len(list))
	for _, s := range list {
		s := schemaOf(s)
		if s == nil {
			return nil
		}
		out = append(out, s)
	}
	return out
}

// sortedKeys returns the sorted keys of a map.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
