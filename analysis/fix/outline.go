package fix

import (
	"slices"
	"unicode/utf8"
)

// node is a schema as it stands in a document.
type node = map[string]any

// intOrString stands for the type of an integer or a string.
const intOrString = "int-or-string"

// outline is what is known about the values at one place, from all that a schema says
// about the place, inside of logical operators and outside.
type outline struct {
	// typ is the type that every accepted value has, or empty. null says that null is
	// accepted beside it.
	typ  string
	null bool
	// fields, items and values are specified there, by whatever part of the schema;
	// values are those of fields without a name.
	fields        map[string]*outline
	items, values *outline
	// open says that fields without a name are allowed in so many words.
	open bool
}

// outlineOf reads a schema.
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
	// The value validations of null are its type and enum; logical operators are not even looked at.
	null := o.null
	for _, part := range schemaList(s["allOf"]) {
		o.and(outlineOf(part))
	}
	for _, junctor := range []string{"anyOf", "oneOf"} {
		if branches := schemaList(s[junctor]); len(branches) > 0 {
			o.and(anyOutline(branches))
		}
	}
	if not := schemaOf(s["not"]); not != nil {
		o.and(outlineOf(not).loose())
	}
	o.null = null
	return o
}

// statedType is the type that s itself states, and whether null passes it too.
func statedType(s node) (typ string, null bool) {
	null = s["nullable"] == true
	if s["x-kubernetes-int-or-string"] == true {
		return intOrString, null
	}
	types, ok := s["type"].([]any) // as draft 4 has it
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

// enum takes the type of all values of an enum.
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

// enumType is the type of the values that equal one of an enum, for Kubernetes: it
// takes 1.5 for 1, and 65 for A.
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

// and adds what is known from another schema that holds too.
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

// both is what is known from either of two schemas if both hold, or one is missing.
func both(a, b *outline) *outline {
	switch {
	case a == nil:
		return b
	case b != nil:
		a.and(b)
	}
	return a
}

// anyOutline is what is known when one of several schemas holds.
func anyOutline(branches []node) *outline {
	out := outlineOf(branches[0])
	for _, b := range branches[1:] {
		out.or(outlineOf(b))
	}
	return out
}

// or leaves what is known from either of two schemas. What only one of them describes
// stays specified, but nothing is known about it.
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

// either is what is known if one of two schemas holds, of which one may be missing.
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

// loose forgets all types.
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

// meetTypes is the type of a value that has both types. Of two that exclude each other
// it is the first: there is no such value.
func meetTypes(a, b string) string {
	switch {
	case a == "" || narrower(b, a):
		return b
	case a == intOrString && b == "number", a == "number" && b == intOrString:
		return "integer"
	}
	return a
}

// joinTypes is the type of a value that has one of the types.
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

// narrower reports whether all values of type a are of type b too, but not the
// other way round.
func narrower(a, b string) bool {
	return a == "integer" && (b == "number" || b == intOrString) || a == "string" && b == intOrString
}

// schemaOf is v as a schema, or nil.
func schemaOf(v any) node {
	s, _ := v.(node)
	return s
}

// schemas is v as a map of schemas. What is no schema is left out.
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

// schemaList is v as a list of schemas. It is empty if anything in it is not one.
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

// sortedKeys are the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
