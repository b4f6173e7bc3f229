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

// TestPlainForms checks the limits of the shortcuts for formats.
func TestPlainForms(t *testing.T) {
	label := func(n int) string { return strings.Repeat("a", n) }
	for format, forms := range map[string]struct{ plain, others []string }{
		"hostname": {[]string{"a.bc", "a-b.c1.de", "0.com", label(60) + ".com", strings.Repeat("a.", 123) + "abcd"},
			[]string{"", "a", ".", "a.b", "a.", ".bc", "a..bc", "-a.bc", "a-.bc", "a.b-", "a_b.cd", "a.Bc", "a.b1", "a.b{", "a.b`", label(61) + ".com", strings.Repeat("a.", 124) + "abcd", "com", "a b.cd"}},
		"email": {[]string{"a@b", "a.b@c.d", "a-b@c1", "1@2"}, []string{"", "a", "@b", "a@", "a b@c", "a@b c", "a@b@c", "-a@b", "a@-b", ".@b"}},
		"uri":   {[]string{"http://a", "https://a.b/c/d-e_f.g", "http://a/"}, []string{"", "ftp://a", "http://", "http:///x", "https://-a", "http://a/b c", "http://a/b?c", "http://a/{", "http://a/@", "http://a:80"}},
		"ipv4": {[]string{"1.2.3.4", "0.0.0.0", "255.255.255.255", "10.20.30.40", "199.99.9.100"},
			[]string{"", "1", "1.2.3", "1.2.3.4.5", "1.2.3.", ".1.2.3", "1..2.3", "01.2.3.4", "1.2.3.04", "001.2.3.4", "00.0.0.0", "256.1.1.1", "1.2.3.1000", "1.2.3.a", "1.2.3:4", "1.2.3/4", "a.b.c.d"}},
		"uuid": {[]string{"01234567-89ab-cdef-0123-456789abcdef"},
			[]string{"", "01234567-89ab-cdef-0123-456789abcde", "01234567-89ab-cdef-0123-456789abcdef0", "01234567089ab-cdef-0123-456789abcdef", "01234567-89abccdef-0123-456789abcdef", "01234567-89ab-cdef00123-456789abcdef", "01234567-89ab-cdef-01230456789abcdef", "0123456g-89ab-cdef-0123-456789abcdef", "0123456`-89ab-cdef-0123-456789abcdef", "0123456:-89ab-cdef-0123-456789abcdef", "0123456/-89ab-cdef-0123-456789abcdef", "-1234567-89ab-cdef-0123-456789abcdef"}},
	} {
		for _, s := range forms.plain {
			if !plainForms[format](s) {
				t.Errorf("%s: %q is not plain", format, s)
			}
			if !stringFormat(format)(s) {
				t.Errorf("%s: %q is invalid", format, s)
			}
		}
		for _, s := range forms.others {
			if plainForms[format](s) {
				t.Errorf("%s: %q is plain", format, s)
			}
		}
	}
	// Valid strings that are not plain.
	for format, s := range map[string]string{"hostname": "localhost", "email": "a+b@c.de", "uri": "http://a/b?c#d", "uuid": "01234567-89AB-CDEF-0123-456789abcdef", "date-time": "2024-02-03T04:05:06+01:00"} {
		if !stringFormat(format)(s) {
			t.Errorf("%s: %q is invalid", format, s)
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

// TestUnchanged checks which values are the same as the old ones, as far as Kubernetes can tell.
func TestUnchanged(t *testing.T) {
	p := compiled(t, `{"type":"object","properties":{
		"a":{"type":"object","properties":{"b":{"type":"string","nullable":true},"c":{"type":"object"}}},
		"l":{"type":"array","items":{"type":"string"}},
		"m":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","properties":{"k":{"type":"string"},"v":{"type":"integer"}}}},
		"n":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k","j"],"items":{"type":"object","properties":{"k":{"type":"string"},"j":{"type":"number"},"v":{"type":"integer"}}}},
		"f":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","properties":{"k":{"type":"number"}}}},
		"open":{"type":"object","additionalProperties":true},"free":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"x-kubernetes-preserve-unknown-fields":true},
		"any":{"x-kubernetes-preserve-unknown-fields":true}}}`)
	for _, tt := range []struct {
		field, old, now string
		want            bool
	}{
		{"a", `{}`, `{}`, true}, {"a", `{"b":"x"}`, `{"b":"x"}`, true}, {"a", `{"b":"x"}`, `{"b":"y"}`, false}, {"a", `{"b":"x"}`, `{}`, false}, {"a", `{"b":null}`, `{"b":null}`, true}, {"a", `{"b":null}`, `{"b":"x"}`, false},
		{"a", `{"b":"x"}`, `{"c":{}}`, false}, {"a", `{"unknown":"x"}`, `{"unknown":"x"}`, false}, {"a", `{"c":{}}`, `{"c":{}}`, true}, {"a", `[]`, `{}`, false}, {"a", `"x"`, `{}`, false}, {"a", `1`, `1`, true}, {"a", `{}`, `1`, false},
		{"l", `[]`, `[]`, true}, {"l", `["a","b"]`, `["a","b"]`, true}, {"l", `["a","b"]`, `["b","a"]`, false}, {"l", `["a"]`, `["a","b"]`, false}, {"l", `{}`, `[]`, false}, {"l", `"x"`, `[]`, false},
		{"m", `[{"k":"1","v":1},{"k":"2","v":2}]`, `[{"k":"2","v":2},{"k":"1","v":1}]`, true}, {"m", `[{"k":"1","v":1}]`, `[{"k":"1","v":2}]`, false}, {"m", `[{"k":"1"}]`, `[{"k":"2"}]`, false},
		{"m", `[{"v":1}]`, `[{"v":1}]`, false}, {"m", `["x"]`, `["x"]`, false}, {"m", `[{"k":{}}]`, `[{"k":{}}]`, false}, {"m", `[{"k":"1","v":1},{"k":"1","v":2}]`, `[{"k":"1","v":1},{"k":"1","v":1}]`, true},
		{"n", `[{"k":"1","j":1,"v":1},{"k":"1","j":2.5,"v":2}]`, `[{"k":"1","j":2.5,"v":2},{"k":"1","j":1,"v":1}]`, true}, {"n", `[{"k":"1","j":1,"v":1}]`, `[{"k":"1","j":2,"v":1}]`, false}, {"n", `[{"k":"1"}]`, `[{"k":"1"}]`, false},
		{"m", `[{"k":"1"},{"k":"2"}]`, `[{"k":"1"}]`, false}, {"m", `[null]`, `[null]`, false}, {"m", `[]`, `[]`, true}, {"a", `{"c":{}}`, `{"b":null}`, false}, {"a", `{"b":"x"}`, `null`, false}, {"a", `null`, `{}`, false}, {"a", `null`, `null`, true},
		{"f", `[{"k":1.00000001}]`, `[{"k":1.00000002}]`, false}, {"f", `[{"k":1.5}]`, `[{"k":1.5}]`, true}, {"open", `{"a":{}}`, `{"a":{}}`, false}, {"open", `{}`, `{}`, true}, {"free", `[{"k":"1"}]`, `[{"k":"1"}]`, false},
		{"any", `{"a":1}`, `{"a":1}`, false}, {"any", `{}`, `{}`, true}, {"any", `"a"`, `"a"`, true}, {"any", `true`, `true`, true}, {"any", `1.5`, `1`, false},
	} {
		c := &comparison{p: p}
		if got := c.unchanged(p.nodes[root].props.find(tt.field), parsed(t, tt.old), parsed(t, tt.now)); got != tt.want {
			t.Errorf("%s: %s, %s: got %t", tt.field, tt.old, tt.now, got)
		}
	}
	// Go cannot compare all values that JSON does not have.
	if odd := []string{"a"}; (&comparison{p: p}).unchanged(p.nodes[root].props.find("any"), odd, odd) {
		t.Error("values that JSON does not have are unchanged")
	}
	// An old list is indexed once.
	c := &comparison{p: p}
	id, old := p.nodes[root].props.find("m"), parsed(t, `[{"k":"1"},{"k":"2"}]`)
	for range 3 {
		c.items(id, correlation{old, true})
	}
	if c.visited != 2 {
		t.Errorf("visited %d items, want 2", c.visited)
	}
	for _, of := range []correlation{{}, {old, false}, {"x", true}} {
		if got := c.items(id, of); got.list != nil {
			t.Errorf("%v: got %v", of, got)
		}
	}
	if got := c.items(p.nodes[root].props.find("l"), correlation{parsed(t, `["a"]`), true}); got.list != nil {
		t.Errorf("a list without keys: got %v", got)
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
	for _, path := range []Path{{{Key: "metadata"}, {Key: "none"}, {Kind: Index}, {Key: "nam"}}, {{Key: "a"}, {Key: "ownerReferences"}, {Kind: Index}, {Key: "nam"}}} {
		if got := metadataFields(path); got != nil {
			t.Errorf("%v: got %q", path, got)
		}
	}
	for _, path := range []Path{{{Key: "name"}}, {{Key: "a"}, {Key: "nam"}}, {{Key: "a"}, {Kind: Index}, {Key: "nam"}}, {{Key: "labels"}, {Kind: Index}, {Key: "nam"}}} {
		if got := metadataFields(path); got != nil && len(path) < 3 || len(path) == 3 && len(got) > 0 {
			t.Errorf("%v: got %q", path, got)
		}
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

// TestSmallForms checks what types return about themselves.
func TestSmallForms(t *testing.T) {
	if KEP.Other() != Kubernetes || Kubernetes.Other() != KEP {
		t.Error("the other semantics is not the other one")
	}
	bound := RuleBound{Path: SchemaPath{{Keyword: "properties", Form: StepNamed, Name: "a"}}, Keyword: "maxItems", Max: 10}
	if got := bound.String(); got != ".properties[a].maxItems: 10" {
		t.Errorf("got %s", got)
	}
	part := StructuralPart(readSchema(t, `{"type":"object","$schema":"x","properties":{"a":{"type":"string","id":"x"}}}`))
	if part == nil || part.Type != "object" || part.Properties["a"].Type != "string" || StructuralPart(nil) != nil {
		t.Errorf("got %+v", part)
	}
	other := &Structural{}
	if got := NewCursor(part, KEP, PruningOn).WithSchema(other); got.Schema() != other || got.Entered() != NewCursor(part, KEP, PruningOn).Entered() {
		t.Errorf("got %+v", got)
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
