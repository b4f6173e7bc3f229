package jsonschema

import (
	"regexp"
	"slices"
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
		if out[end.exclusive] == true {
			out[end.exclusive] = out[end.bound]
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
	if format, ok := out["format"].(string); ok && !slices.Contains(sharedFormats(), format) {
		drop("format")
	}
	if out["format"] == "byte" && w.GoTypes {
		out["contentEncoding"] = "base64"
	}
	if pattern, ok := out["pattern"].(string); ok && !isPortable(pattern) {
		drop("pattern")
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
	if list("allOf") || list("anyOf") {
		weaker = true
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
	return []string{"byte", "date", "date-time", "double", "email", "float", "int32", "int64", "ipv4", "ipv6", "password", "uuid"}
}

// goSyntax matches what only Go's regular expressions have: flags, names of groups, classes of
// characters, and the ends of a text.
var goSyntax = regexp.MustCompile(`\(\?[^:]|\[\[:|\\[AzZQECpP]`)

// isPortable reports whether a regular expression means the same in Go and in ECMAScript, which
// JSON Schema uses.
func isPortable(pattern string) bool {
	return !goSyntax.MatchString(pattern)
}

// orNull returns the schema of values that may also be null.
func (s Schema) orNull() Schema {
	for _, name := range []string{"allOf", "anyOf", "oneOf", "not"} {
		if s[name] != nil {
			out := Schema{"anyOf": []any{Schema{"type": "null"}, s}}
			for _, name := range []string{"description", "default"} {
				if v, ok := s[name]; ok {
					out[name] = v
					delete(s, name)
				}
			}
			return out
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
