package schema

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// TestClosestBranch compares the violations of logical operators with those that the library of
// kube-apiserver reports: it decides by the number of checks that a value passes which branch of an
// anyOf or oneOf is closest.
func TestClosestBranch(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	invalid, schemas := 0, 3000
	if testing.Short() {
		schemas = 600
	}
	for range schemas {
		typ := pick(r, []string{"string", "integer", "number", "array", "object", "boolean"})
		text := fmt.Sprintf(`{"type":"object","properties":{"v":{"type":%q,%q:[%s]}}}`, typ, pick(r, []string{"anyOf", "oneOf"}), branches(r, typ, 2))
		obj := map[string]any{"v": branchValue(r, typ)}
		got := mustCompile(t, mustStructural(t, text), WithSemantics(Kubernetes)).Validate(t.Context(), obj, nil).Messages()
		var s spec.Schema
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, err := range validate.NewSchemaValidator(&s, nil, "", strfmt.Default).Validate(obj).Errors {
			if !slices.Contains(want, err.Error()) {
				want = append(want, err.Error())
			}
		}
		if len(want) > 0 {
			invalid++
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("%s\n%v: got\n%s\nwant\n%s", text, obj, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if invalid < schemas/3 {
		t.Errorf("only %d objects are invalid", invalid)
	}
}

// branches returns the branches of a logical operator for values of a type.
func branches(r *rand.Rand, typ string, depth int) string {
	var list []string
	for range 2 + r.IntN(2) {
		list = append(list, branch(r, typ, depth))
	}
	return strings.Join(list, ",")
}

// branch returns a schema that some values of a type satisfy.
func branch(r *rand.Rand, typ string, depth int) string {
	n := func() string { return fmt.Sprint(r.IntN(4)) }
	keywords := map[string]func() string{
		"type": func() string { return fmt.Sprintf("%q", pick(r, []string{typ, typ, "string", "integer"})) },
	}
	switch typ {
	case "string":
		keywords["maxLength"], keywords["minLength"] = n, n
		keywords["enum"] = func() string { return pick(r, []string{`["a"]`, `["a","bb"]`, `["ccc"]`}) }
		keywords["pattern"] = func() string { return pick(r, []string{`"^a"`, `"b"`, `"^$"`}) }
		keywords["format"] = func() string { return pick(r, []string{`"date"`, `"uuid"`}) }
	case "integer", "number":
		keywords["maximum"], keywords["minimum"] = n, n
		keywords["multipleOf"] = func() string { return pick(r, []string{"1", "2", "3"}) }
		if typ == "integer" {
			// Enums of kube-apiserver have integers, those of the library fractions.
			keywords["enum"] = func() string { return pick(r, []string{`[1]`, `[1,2]`, `[3]`}) }
		}
	case "boolean":
		keywords["enum"] = func() string { return pick(r, []string{`[true]`, `[false]`}) }
	case "array":
		keywords["maxItems"], keywords["minItems"] = n, n
		if depth > 0 {
			keywords["items"] = func() string { return branch(r, "string", depth-1) }
		}
	case "object":
		keywords["maxProperties"], keywords["minProperties"] = n, n
		keywords["required"] = func() string { return pick(r, []string{`["a"]`, `["b"]`, `["a","b"]`}) }
		if depth > 0 {
			keywords["properties"] = func() string {
				return `{"a":` + branch(r, "string", depth-1) + `,"b":` + branch(r, "integer", depth-1) + `}`
			}
		}
	}
	if depth > 0 {
		for _, operator := range []string{"anyOf", "oneOf"} {
			keywords[operator] = func() string { return "[" + branches(r, typ, depth-1) + "]" }
		}
		keywords["not"] = func() string { return branch(r, typ, depth-1) }
	}
	names := make([]string, 0, len(keywords))
	for name := range keywords {
		names = append(names, name)
	}
	slices.Sort(names)
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	names = names[:min(len(names), 1+r.IntN(3))]
	var parts []string
	for _, name := range names {
		if name == "type" && slices.Contains(names, "format") {
			continue // kube-apiserver drops formats that are not of the type
		}
		parts = append(parts, fmt.Sprintf("%q:%s", name, keywords[name]()))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// branchValue returns a value, mostly of a type.
func branchValue(r *rand.Rand, typ string) any {
	if r.IntN(8) == 0 {
		typ = pick(r, []string{"string", "integer", "boolean", "array", "object"})
	}
	switch typ {
	case "string":
		return pick(r, []string{"", "a", "bb", "ab", "ccc", "2020-01-02"})
	case "integer":
		return r.Int64N(5)
	case "number":
		return float64(r.IntN(10)) / 2
	case "boolean":
		return r.IntN(2) == 0
	case "array":
		list := []any{}
		for range r.IntN(4) {
			list = append(list, branchValue(r, "string"))
		}
		return list
	}
	obj := map[string]any{}
	for name, typ := range map[string]string{"a": "string", "b": "integer", "c": "string"} {
		if r.IntN(2) == 0 {
			obj[name] = branchValue(r, typ)
		}
	}
	return obj
}
