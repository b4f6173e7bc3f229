package jsonschema

import (
	"encoding/json"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// quantityPattern matches quantities, such as 100m and 1.5Gi.
const quantityPattern = `^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(([KMGTPE]i)|[numkMGTPE]|[eE][+-]?[0-9]+)?$`

// keywords rewrites the keywords of a schema that JSON Schema does not know or defines
// differently, in the schema and in those under its logical operators. It reports whether the
// schema now accepts more values.
func (w *writer) keywords(out Schema) (weaker bool) {
	drop := func(keyword string) {
		delete(out, keyword)
		weaker = true
	}
	delete(out, "nullable")
	delete(out, "externalDocs")
	if example, ok := out["example"]; ok {
		delete(out, "example")
		out["examples"] = []any{example}
	}
	for _, end := range []struct{ bound, exclusive string }{{"minimum", "exclusiveMinimum"}, {"maximum", "exclusiveMaximum"}} {
		exclusive := out[end.exclusive] == true
		delete(out, end.exclusive)
		if bound, ok := out[end.bound]; ok && exclusive {
			out[end.exclusive] = bound
			delete(out, end.bound)
		}
	}
	if out["x-kubernetes-int-or-string"] == true {
		out["type"] = []any{"integer", "string"}
		if w.GoTypes && out["format"] == "quantity" {
			out["type"], out["pattern"] = []any{"number", "string"}, quantityPattern
			delete(out, "x-kubernetes-int-or-string")
		}
	}
	// The API server also applies formats to values of other types than strings, and rejects them.
	if format, ok := out["format"].(string); ok && (out["type"] == nil || !slices.Contains(sharedFormats(), format)) {
		drop("format")
	}
	if out["format"] == "byte" && w.GoTypes {
		out["contentEncoding"] = "base64"
	}
	if pattern, ok := out["pattern"].(string); ok && !isPortable(pattern) {
		drop("pattern")
	}
	for _, name := range []string{"minLength", "minItems", "minProperties", "maxLength", "maxItems", "maxProperties"} {
		// CRDs may have negative sizes, JSON Schemas may not.
		if size, ok := out[name].(json.Number); ok && strings.HasPrefix(size.String(), "-") {
			drop(name)
		}
	}
	if n, ok := out["multipleOf"].(json.Number); ok && !isPositive(n) {
		drop("multipleOf")
	}
	for _, name := range []string{"enum", "required"} {
		if values, ok := out[name].([]any); ok {
			out[name] = distinct(values)
		}
	}
	if out["x-kubernetes-validations"] != nil {
		weaker = true
	}
	if out["x-kubernetes-list-type"] == "set" && !w.GoTypes {
		out["uniqueItems"] = true
	}
	list := func(operator string) (weaker bool) {
		schemas, _ := out[operator].([]any)
		for _, s := range schemas {
			if w.nested(s.(Schema)) {
				weaker = true
			}
		}
		return weaker
	}
	for _, operator := range []string{"allOf", "anyOf"} {
		if list(operator) {
			weaker = true
		}
	}
	// Where a schema must not match, accepting more would reject valid values.
	if list("oneOf") {
		if out["anyOf"] == nil {
			out["anyOf"] = out["oneOf"]
		}
		drop("oneOf")
	}
	if s, ok := out["not"].(Schema); ok && w.nested(s) {
		drop("not")
	}
	return weaker
}

// nested rewrites a schema under a logical operator. It reports whether the schema now accepts
// more values.
func (w *writer) nested(out Schema) (weaker bool) {
	weaker = w.keywords(out)
	for _, name := range []string{"items", "additionalProperties"} {
		if s, ok := out[name].(Schema); ok && w.nested(s) {
			weaker = true
		}
	}
	fields, _ := out["properties"].(Schema)
	for _, s := range fields {
		if w.nested(s.(Schema)) {
			weaker = true
		}
	}
	return weaker
}

// sharedFormats returns the formats that mean the same in Kubernetes and JSON Schema, or nothing
// in JSON Schema.
func sharedFormats() []string {
	return []string{"byte", "date", "date-time", "double", "email", "float", "int32", "int64", "ipv4", "ipv6", "password"}
}

// goSyntax matches what only Go's regular expressions have: flags, names of groups, classes of
// characters, sets that begin with a bracket, characters by long numbers, and the ends of a text.
var goSyntax = regexp.MustCompile(`\(\?[^:]|\[\[:|\[\^?\]|\\[AzZQECpPa]|\\x\{`)

// isPortable reports whether a regular expression means the same in Go and in ECMAScript, which
// JSON Schema uses.
func isPortable(pattern string) bool {
	return !goSyntax.MatchString(pattern)
}

func isPositive(n json.Number) bool {
	f, err := n.Float64()
	return err == nil && f > 0
}

// distinct returns the values without repetitions.
func distinct(values []any) (out []any) {
	seen := map[string]bool{}
	for _, v := range values {
		// Values come from JSON, so this cannot fail.
		text, _ := json.Marshal(canonical(v))
		if !seen[string(text)] {
			seen[string(text)] = true
			out = append(out, v)
		}
	}
	return out
}

// canonical returns a value in which equal numbers are written alike.
func canonical(v any) any {
	switch v := v.(type) {
	case json.Number:
		if r, ok := new(big.Rat).SetString(v.String()); ok {
			return json.RawMessage(`["number",` + strconv.Quote(r.RatString()) + `]`)
		}
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = canonical(x)
		}
		return out
	case Schema:
		out := make(map[string]any, len(v))
		for name, x := range v {
			out[name] = canonical(x)
		}
		return out
	}
	return v
}

// orNull returns the schema of values that may also be null.
func (s Schema) orNull() Schema {
	for _, name := range []string{"allOf", "anyOf", "oneOf", "not"} {
		if s[name] != nil {
			return s.around(Schema{"anyOf": []any{Schema{"type": "null"}, s}})
		}
	}
	switch t := s["type"].(type) {
	case string:
		s["type"] = []any{t, "null"}
	case []any:
		s["type"] = append(slices.Clone(t), "null")
	}
	if values, ok := s["enum"].([]any); ok && !slices.Contains(values, nil) {
		s["enum"] = append(slices.Clone(values), nil)
	}
	return s
}

// require makes a field required.
func (s Schema) require(name string) {
	required, _ := s["required"].([]any)
	if !slices.Contains(required, any(name)) {
		s["required"] = append(slices.Clone(required), name)
	}
}

// optional makes all fields in the schema optional, at any depth.
func (s Schema) optional() {
	delete(s, "required")
	for _, name := range []string{"items", "additionalProperties"} {
		if inner, ok := s[name].(Schema); ok {
			inner.optional()
		}
	}
	fields, _ := s["properties"].(Schema)
	for _, field := range fields {
		field.(Schema).optional()
	}
}
