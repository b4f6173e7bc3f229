package schema

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	kjson "sigs.k8s.io/json"
)

// parsed returns the value of a JSON text.
func parsed(t testing.TB, text string) (v any) {
	t.Helper()
	if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// compiled returns the program of a schema.
func compiled(t testing.TB, text string, opts ...Option) *Program {
	t.Helper()
	s, err := NewStructural(readSchema(t, text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return mustCompile(t, s, opts...)
}

// TestProves checks for all keywords that the shortcut accepts exactly the valid values, and that
// the thorough walk agrees.
func TestProves(t *testing.T) {
	many := make([]string, 40)
	for i := range many {
		many[i] = fmt.Sprintf(`"p%d":{"type":"string"}`, i)
	}
	for text, values := range map[string][2]string{
		// The valid values, and the others.
		`"type":"string"`:                                                                   {`["", "a"]`, `[1, 1.5, 3.0, true, null, [], {}]`},
		`"type":"string","enum":["a","b"]`:                                                  {`["a", "b"]`, `["c", ""]`},
		`"type":"string","maxLength":2`:                                                     {`["", "ab", "éé", "日本"]`, `["abc", "ééé"]`},
		`"type":"string","minLength":2`:                                                     {`["ab", "éé", "abcdefghi"]`, `["", "a", "é", "日"]`},
		`"type":"string","minLength":2,"maxLength":2`:                                       {`["ab", "éé"]`, `["a", "abc", "日"]`},
		`"type":"string","pattern":"^a+$"`:                                                  {`["a", "aa"]`, `["", "b"]`},
		`"type":"string","format":"ipv4"`:                                                   {`["1.2.3.4"]`, `["1.2.3", "x"]`},
		`"type":"string","nullable":true`:                                                   {`["a", null]`, `[1]`},
		`"type":"string","nullable":true,"enum":["a"]`:                                      {`["a"]`, `[null, "b"]`},
		`"type":"integer"`:                                                                  {`[0, -1, 5, 3.0]`, `["1", 1.5, true, null]`},
		`"type":"integer","maximum":3,"minimum":1`:                                          {`[1, 2, 3]`, `[0, 4]`},
		`"type":"integer","maximum":3,"exclusiveMaximum":true`:                              {`[2]`, `[3, 4]`},
		`"type":"integer","minimum":3,"exclusiveMinimum":true`:                              {`[4]`, `[3, 2]`},
		`"type":"integer","multipleOf":3`:                                                   {`[0, 3, -6]`, `[1, 4]`},
		`"type":"integer","multipleOf":1`:                                                   {`[0, 3, -6]`, `["x"]`},
		`"type":"number","enum":[3.0]`:                                                      {`[3, 3.0]`, `[4, 3.5]`},
		`"x-kubernetes-int-or-string":true,"enum":["A"]`:                                    {`["A", 65]`, `["B", 66]`},
		`"type":"integer","enum":[1,2]`:                                                     {`[1, 2]`, `[3]`},
		`"type":"number"`:                                                                   {`[1, 1.5]`, `["1", true]`},
		`"type":"number","maximum":1.5`:                                                     {`[1, 1.5]`, `[2, 1.6]`},
		`"type":"number","enum":[1.5,2]`:                                                    {`[1.5, 2]`, `[3.5, 3]`},
		`"type":"number","minimum":1.5,"exclusiveMinimum":true`:                             {`[1.6, 2]`, `[1.5, 1]`},
		`"type":"boolean"`:                                                                  {`[true, false]`, `["true", 1]`},
		`"type":"array","items":{"type":"string"},"uniqueItems":true`:                       {`[[], ["a"], ["a", "b"]]`, `[["a", "a"]]`},
		`"type":"string","allOf":[{"minLength":1}]`:                                         {`["a"]`, `[""]`},
		`"type":"object","additionalProperties":false,"properties":{"a":{"type":"string"}}`: {`[{}, {"a": "x"}]`, `[{"": 1}, {"b": 1}]`},
		`"type":"object","additionalProperties":true,"allOf":[{"additionalProperties":{"type":"string"}}]`:                        {`[{}, {"a": "x"}]`, `[{"a": 1}]`},
		`"type":"object","additionalProperties":true,"allOf":[{"properties":{"a":{"maxLength":1}},"additionalProperties":false}]`: {`[{}, {"a": "x"}]`, `[{"b": 1}, {"": 1}, {"a": "xx"}]`},
		`"type":"boolean","maxLength":1`:                                                                                         {`[true, false]`, `[1]`},
		`"type":"string","nullable":true,"maxLength":1`:                                                                          {`["a", null]`, `["ab"]`},
		`"type":"boolean","enum":[true]`:                                                                                         {`[true]`, `[false]`},
		`"type":"array","items":{"type":"string"}`:                                                                               {`[[], ["a"], ["a", "b"]]`, `[[1], ["a", 1], {}]`},
		`"type":"array","items":{"type":"string"},"maxItems":1`:                                                                  {`[[], ["a"]]`, `[["a", "b"]]`},
		`"type":"array","items":{"type":"string"},"minItems":1`:                                                                  {`[["a"]]`, `[[]]`},
		`"type":"array","items":{"type":"string"},"enum":[["a"]]`:                                                                {`[["a"]]`, `[[], ["b"]]`},
		`"type":"object","properties":{"a":{"type":"string"}}`:                                                                   {`[{}, {"a": "x"}]`, `[{"a": 1}, []]`},
		`"type":"object","required":["a"],"properties":{"a":{"type":"string"}}`:                                                  {`[{"a": "x"}]`, `[{}]`},
		`"type":"object","enum":[{"a":"x"}],"properties":{"a":{"type":"string"}}`:                                                {`[{"a": "x"}]`, `[{}, {"a": "y"}]`},
		`"type":"object","additionalProperties":{"type":"string"}`:                                                               {`[{}, {"a": "x", "b": "y"}]`, `[{"a": 1}, {"a": "x", "b": 1}]`},
		`"type":"object","additionalProperties":{"type":"string"},"maxProperties":1`:                                             {`[{}, {"a": "x"}]`, `[{"a": "x", "b": "x"}]`},
		`"type":"object","additionalProperties":{"type":"string"},"minProperties":1`:                                             {`[{"a": "x"}]`, `[{}]`},
		`"type":"object","additionalProperties":false`:                                                                           {`[{}]`, `[{"a": 1}, {"kind": 1}]`},
		`"type":"object","additionalProperties":true`:                                                                            {`[{}, {"a": 1}]`, `[[]]`},
		`"type":"object","properties":{` + strings.Join(many, ",") + `}`:                                                         {`[{}, {"p0": "x"}, {"p39": "x", "p1": "y"}, {"unknown": 1}]`, `[{"p7": 1}, {"p39": 1, "p38": "x"}]`},
		`"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"},"c":{"type":"string"},"d":{"type":"string"}}`: {`[{"a": "x", "b": "x"}, {"d": "x"}]`, `[{"a": "x", "d": 1}, {"d": 1}, {"a": 1, "b": 1, "c": 1}]`},
		`"type":"string","allOf":[{"minLength":1},{"maxLength":2}]`:                                                              {`["a", "ab"]`, `["", "abc"]`},
		`"type":"string","anyOf":[{"enum":["a"]}]`:                                                                               {`["a"]`, `["b"]`},
		`"type":"string","anyOf":[{"enum":["a"]},{"maxLength":0}]`:                                                               {`["a", ""]`, `["b"]`},
		`"type":"string","oneOf":[{"enum":["a"]}]`:                                                                               {`["a"]`, `["b"]`},
		`"type":"string","oneOf":[{"enum":["a","b"]},{"enum":["b","c"]}]`:                                                        {`["a", "c"]`, `["b", "d"]`},
		`"type":"string","oneOf":[{"enum":["a","b"]},{"enum":["b"]},{"enum":["b"]}]`:                                             {`["a"]`, `["b", "d"]`},
		`"type":"string","not":{"enum":["a"]}`:                                                                                   {`["b"]`, `["a"]`},
		`"x-kubernetes-int-or-string":true`:                                                                                      {`[1, "a", 2.0]`, `[true, 1.5, [], null]`},
		`"x-kubernetes-preserve-unknown-fields":true`:                                                                            {`[1, "a", true, [], {}]`, `[]`},
	} {
		for _, sem := range []Semantics{KEP, Kubernetes} {
			p := compiled(t, `{"type":"object","properties":{"x":{`+text+`}}}`, WithSemantics(sem))
			for i, list := range values {
				for _, v := range parsed(t, list).([]any) {
					got := (&prover{p: p, scratch: &scratch{}}).proves(p.nodes[root].props.find("x"), v)
					if got != (i == 0) {
						t.Errorf("%v: %s: the shortcut says %t for %v", sem, text, got, v)
					}
					if vs := p.violations(t.Context(), Object{"x": v}, nil, true); len(vs) == 0 != (i == 0) {
						t.Errorf("%v: %s: got %v for %v", sem, text, vs, v)
					}
				}
			}
			// Values that JSON does not have.
			for _, v := range []any{int(1), []string{"a"}, struct{}{}} {
				if (&prover{p: p, scratch: &scratch{}}).proves(p.nodes[root].props.find("x"), v) {
					t.Errorf("%s: the shortcut accepts a %T", text, v)
				}
			}
		}
	}
}

// TestDecodeSimple checks which values of schemas need no decoder, and that they are the same as with one.
func TestDecodeSimple(t *testing.T) {
	for raw, simple := range map[string]bool{
		`"a"`: true, `""`: true, `"a b~"`: true, `true`: true, `false`: true, `null`: true, `0`: true, `1`: true, `109`: true, `987654321098765432`: true,
		`"é"`: false, `"a\n"`: false, `"\u0061"`: false, `-1`: false, `1.5`: false, `1e3`: false, `9876543210987654321`: false, `1098765432109876543`: false, `{}`: false, `[]`: false,
	} {
		v, ok := decodeSimple([]byte(raw))
		if ok != simple || ok && v != parsed(t, raw) {
			t.Errorf("%s: got %v, %t", raw, v, ok)
		}
	}
	for _, raw := range []string{`"`, `"a`, `"a"b"`, `tru`, `truee`, `fals`, `falsee`, `nul`, `nulll`, `00`, `01`, `1a`, `1:`, `1/`, "\"\x7f\"", "\"\x1f\""} {
		if v, ok := decodeSimple([]byte(raw)); ok {
			t.Errorf("%s: got %v", raw, v)
		}
	}
	if v, ok := decodeSimple(nil); v != nil || !ok {
		t.Errorf("no bytes: got %v, %t", v, ok)
	}
}

// TestEqual checks the comparison of JSON values.
func TestEqual(t *testing.T) {
	values := []any{nil, true, false, "", "a", "1", int64(0), int64(1), 1.0, 1.5, []any(nil), []any{}, []any{"a"}, []any{"b"}, []any{"a", "b"}, []any{[]any{}},
		map[string]any(nil), map[string]any{}, map[string]any{"a": nil}, map[string]any{"a": "b"}, map[string]any{"a": "c"}, map[string]any{"b": "b"}, map[string]any{"a": "b", "c": "d"}}
	for i, a := range values {
		for j, b := range values {
			if got := Equal(a, b); got != (i == j) {
				t.Errorf("%#v, %#v: got %t", a, b, got)
			}
		}
	}
	if Equal([]string{"a"}, []string{"a"}) || Equal(nil, []string{}) || Equal("a", []string{"a"}) {
		t.Error("values that JSON does not have are equal")
	}
}

// TestNearest checks the names that are proposed for unknown fields.
func TestNearest(t *testing.T) {
	p := compiled(t, `{"type":"object","properties":{"spec":{"type":"object","properties":{"replicas":{"type":"integer"}}}}}`)
	for text, want := range map[string]string{
		`{"specs":1}`: "spec", `{"metdata":1}`: "metadata", `{"apiversion":1}`: "apiVersion", `{"kinds":1}`: "kind", `{"zzzzzz":1}`: "",
		`{"spec":{"replica":1}}`: "replicas", `{"spec":{"metdata":1}}`: "", `{"spec":{"kinds":1}}`: "", `{"spec":{"apiversion":1}}`: "",
		`{"metadata":{"label":{}}}`: "labels", `{"metadata":{"ownerReferences":[{"names":"a"}]}}`: "name", `{"metadata":{"managedFields":[{"managers":"a"}]}}`: "manager",
	} {
		_, report, err := p.Decode([]byte(text), DecodeOptions{Report: true})
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Changes) != 1 || report.Changes[0].Nearest() != want {
			t.Errorf("%s: got %v", text, report.Changes)
		}
	}
	if got := (&Change{Kind: Defaulted, Path: Path{{Key: "specs"}}, Known: []string{"spec"}}).Nearest(); got != "" {
		t.Errorf("a default: got %s", got)
	}
	if got := (&Change{Kind: Pruned, Path: Path{{Key: "specs"}}, Known: []string{"spec"}}).Nearest(); got != "spec" {
		t.Errorf("known names: got %s", got)
	}
	resource := Path{{Key: "ownerReferences"}, {Key: "metadata"}, {Key: "namespac"}}
	if got := (&Change{Kind: Pruned, Path: resource}).Nearest(); got != "namespace" {
		t.Errorf("in an embedded resource: got %q", got)
	}
}

// TestPathForms checks the forms of a path, and the value that it leads to.
func TestPathForms(t *testing.T) {
	value := parsed(t, `{"a":{"b":[{"c":1},null]},"m":{"k":"x"}}`)
	for _, tt := range []struct {
		path          Path
		text, pattern string
		want          any
		found         bool
	}{
		{nil, "", "", value, true}, {Path{{Key: "a"}, {Key: "b"}, {Kind: Index, Index: 0}, {Key: "c"}}, "a.b[0].c", "a.b[*].c", int64(1), true},
		{Path{{Key: "a"}, {Key: "b"}, {Kind: Index, Index: 1}}, "a.b[1]", "a.b[*]", nil, true}, {Path{{Key: "a"}, {Key: "b"}, {Kind: Index, Index: 2}}, "a.b[2]", "a.b[*]", nil, false},
		{Path{{Key: "m"}, {Kind: MapKey, Key: "k"}}, "m.k", "m.*", "x", true}, {Path{{Kind: MapKey, Key: "k"}}, "k", "*", nil, false},
		{Path{{Kind: Index, Index: 0}}, "[0]", "[*]", nil, false}, {Path{{Key: "m"}, {Key: "k"}, {Key: "l"}}, "m.k.l", "m.k.l", nil, false},
	} {
		got, found := tt.path.Find(value)
		if tt.path.String() != tt.text || tt.path.Pattern() != tt.pattern || !reflect.DeepEqual(got, tt.want) || found != tt.found {
			t.Errorf("%v: got %s, %s, %v, %t", tt.path, tt.path, tt.path.Pattern(), got, found)
		}
	}
}

// TestIsNormalDefaults checks that an object is normal only if it has all defaults.
func TestIsNormalDefaults(t *testing.T) {
	const head = `{"apiVersion":"v1","kind":"Thing",`
	for schema, texts := range map[string]map[string]bool{
		`"properties":{"a":{"type":"string","default":"x"},"b":{"type":"integer","default":1},"c":{"type":"string"}}`: {
			`"a":"x","b":1}`: true, `"a":"y","b":2,"c":"z"}`: true, `"a":"x"}`: false, `"b":1}`: false, `"a":"x","c":"z"}`: false, `"a":"x","b":null}`: false, `"a":"x","a":"y"}`: false, `"a":"x","b":1,"c":null}`: false,
		},
		`"properties":{"a":{"type":"string","nullable":true,"default":"x"}}`:                                 {`"a":null}`: true, `"a":"y"}`: true},
		`"properties":{"a":{"type":"array","items":{"type":"string","default":"x"}}}`:                        {`"a":["y"]}`: true, `"a":[]}`: true, `"a":[null]}`: false, `"a":["y",null]}`: false},
		`"properties":{"a":{"type":"array","items":{"type":"string","nullable":true}}}`:                      {`"a":[null]}`: true},
		`"properties":{"a":{"type":"array","items":{"type":"object","properties":{"b":{"type":"string"}}}}}`: {`"a":[{"b":"x"},{}]}`: true, `"a":[{"b":"x"},{"c":"x"}]}`: false, `"a":[{"b":"x"},{"b":nul}]}`: false},
		`"properties":{"a":{"type":"object","additionalProperties":{"type":"string"}}}`:                      {`"a":{"b":"x"}}`: true, `"a":{"b":null}}`: false},
		`"properties":{"metadata":{"type":"object","properties":{"name":{"type":"string","pattern":"a"}}}}`:  {`"metadata":{"generation":1,"name":"b"}}`: true},
		`"properties":{"pod":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}}`: {
			`"pod":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}}}`: true, `"pod":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","unknown":1}}}`: false, `"pod":{"apiVersion":1}}`: false,
		},
	} {
		p := compiled(t, `{"type":"object",`+schema+`}`)
		for text, want := range texts {
			text = head + text
			if got := p.IsNormal([]byte(text)); got != want {
				t.Errorf("%s: %s: got %t", schema, text, got)
			}
			// An object that is normal stays as it is.
			if want {
				obj, report, err := p.Decode([]byte(text), DecodeOptions{FromStorage: true, Report: true})
				if err != nil || len(report.Changes) > 0 || !Equal(map[string]any(obj), parsed(t, text)) {
					t.Errorf("%s: %s: got %v, %v, %v", schema, text, obj, report, err)
				}
			}
		}
	}
}

// TestExhaustive checks that a context lifts the limit on the number of violations.
func TestExhaustive(t *testing.T) {
	p := compiled(t, `{"type":"object","properties":{"l":{"type":"array","items":{"type":"integer","maximum":0}}}}`)
	list := slices.Repeat([]any{int64(1)}, 50_000)
	few := p.Validate(t.Context(), Object{"l": list}, nil)
	all := p.Validate(Exhaustive(context.Background()), Object{"l": slices.Clone(list)}, nil)
	if len(few) >= len(all) || len(all) != len(list) {
		t.Errorf("got %d violations, and %d of all", len(few), len(all))
	}
}
