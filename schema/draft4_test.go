package schema

import (
	"strings"
	"testing"
)

// TestProvesJSONSchema checks for the keywords of a jsonSchema that the shortcut accepts exactly the
// valid objects, and that the thorough walk agrees.
func TestProvesJSONSchema(t *testing.T) {
	for text, objects := range map[string][2]string{
		// The valid objects, and the others.
		`{}`: {`[{}, {"a":[1,"x",null,{},1.5,true]}]`, `[]`},
		`{"properties":{"v":{"type":["boolean","null"]}}}`:         {`[{"v":true}, {"v":null}]`, `[{"v":1}, {"v":"x"}, {"v":1.5}, {"v":[]}, {"v":{}}]`},
		`{"properties":{"v":{"type":"boolean","enum":[true]}}}`:    {`[{"v":true}]`, `[{"v":false}]`},
		`{"properties":{"v":{"type":"number","maximum":2}}}`:       {`[{"v":1}, {"v":1.5}]`, `[{"v":3}, {"v":2.5}, {"v":"x"}, {"v":null}]`},
		`{"properties":{"v":{"type":"string","minLength":2}}}`:     {`[{"v":"ab"}, {}]`, `[{"v":"a"}, {"v":1}]`},
		`{"properties":{"v":{"type":"object","maxProperties":1}}}`: {`[{"v":{}}, {"v":{"a":1}}]`, `[{"v":{"a":1,"b":2}}, {"v":[]}]`},
		`{"properties":{"v":{"type":"array","maxItems":1}}}`:       {`[{"v":[]}, {"v":[1]}]`, `[{"v":[1,2]}, {"v":{}}]`},
		`{"required":["a"]}`: {`[{"a":1}]`, `[{}, {"b":1}]`},
		`{"additionalProperties":false,"properties":{"a":{}}}`:                                                               {`[{}, {"a":1}]`, `[{"b":1}, {"a":1,"b":1}, {"":1}]`},
		`{"additionalProperties":{"type":"string"}}`:                                                                         {`[{}, {"a":"x"}]`, `[{"b":1}, {"a":"x","b":1}]`},
		`{"properties":{"v":{"not":{"type":"string"}}}}`:                                                                     {`[{"v":1}, {"v":true}]`, `[{"v":"x"}]`},
		`{"properties":{"v":{"anyOf":[{"type":"string"},{"minimum":3}]}}}`:                                                   {`[{"v":"x"}, {"v":3}]`, `[{"v":2}]`},
		`{"properties":{"v":{"items":{"type":"string"},"additionalItems":false,"patternProperties":{"x":{}}}}}`:              {`[{"v":["a"]}, {"v":["a","b"]}]`, `[{"v":[1]}]`},
		`{"properties":{"v":{"items":{"type":"string"},"additionalItems":{"type":"integer"},"patternProperties":{"x":{}}}}}`: {`[{"v":["a"]}, {"v":["a","b"]}]`, `[{"v":[1]}]`},
		`{"properties":{"v":{"oneOf":[{"type":"string"},{"maximum":3},{"minimum":3}]}}}`:                                     {`[{"v":2}, {"v":4}]`, `[{"v":3}, {"v":"x"}]`},
		`{"anyOf":[{"required":["a"]}]}`:                                                                                     {`[{"a":1}]`, `[{}]`}, `{"oneOf":[{"required":["a"]}]}`: {`[{"a":1}]`, `[{}]`}, `{"allOf":[{"required":["a"]}]}`: {`[{"a":1}]`, `[{}]`},
		`{"$ref":"#/definitions/d","required":["b"],"definitions":{"d":{"required":["a"]}}}`:                                                                            {`[{"a":1}]`, `[{}, {"b":1}]`},
		`{"dependencies":{"a":["b","c"]}}`:                                                                                                                              {`[{}, {"b":1}, {"a":1,"b":1,"c":1}]`, `[{"a":1}, {"a":1,"b":1}, {"a":1,"c":1}]`},
		`{"dependencies":{"a":{"required":["c"]}}}`:                                                                                                                     {`[{}, {"b":1}, {"a":1,"c":1}]`, `[{"a":1}]`},
		`{"dependencies":{"a":["b"],"c":{"properties":{"a":{"type":"string"}}}}}`:                                                                                       {`[{"c":1}, {"c":1,"a":"x","b":1}]`, `[{"c":1,"a":1,"b":1}, {"c":1,"a":"x"}]`},
		`{"patternProperties":{"^x":{"type":"string"}}}`:                                                                                                                {`[{}, {"xa":"s","y":1}]`, `[{"xa":1}, {"y":1,"xb":2}]`},
		`{"patternProperties":{"^x":{"type":"string"},"a$":{"minLength":2}}}`:                                                                                           {`[{"xa":"ss"}, {"xb":"s"}, {"ya":"ss"}]`, `[{"xa":"s"}, {"xa":1}, {"ya":"s"}]`},
		`{"patternProperties":{"^x":{"type":"string"}},"additionalProperties":false}`:                                                                                   {`[{"xa":"s"}]`, `[{"y":"s"}, {"xa":1}]`},
		`{"patternProperties":{"^x":{"type":"string"}},"additionalProperties":{"type":"integer"}}`:                                                                      {`[{"xa":"s","y":1}]`, `[{"xa":1}, {"y":"s"}]`},
		`{"properties":{"xa":{"minLength":2}},"patternProperties":{"^x":{"type":"string"}},"additionalProperties":false}`:                                               {`[{"xa":"ab"}, {"xb":"a"}]`, `[{"xa":"a"}, {"xa":11}, {"xb":1}]`},
		`{"properties":{"v":{"items":{"type":"string"}}}}`:                                                                                                              {`[{"v":[]}, {"v":["a","b"]}, {"v":1}]`, `[{"v":[1]}, {"v":["a",1]}]`},
		`{"properties":{"v":{"items":{"type":"string"},"additionalItems":false}}}`:                                                                                      {`[{"v":["a","b"]}]`, `[{"v":["a",1]}]`},
		`{"properties":{"v":{"items":[{"type":"string"},{"type":"integer"}]}}}`:                                                                                         {`[{"v":[]}, {"v":["a"]}, {"v":["a",1]}, {"v":["a",1,true]}]`, `[{"v":[1]}, {"v":["a","b"]}]`},
		`{"properties":{"v":{"items":[{"type":"string"},{"type":"integer"}],"additionalItems":false}}}`:                                                                 {`[{"v":["a"]}, {"v":["a",1]}]`, `[{"v":["a",1,2]}, {"v":["a","b"]}]`},
		`{"properties":{"v":{"items":[{"type":"string"}],"additionalItems":{"type":"integer"}}}}`:                                                                       {`[{"v":["a"]}, {"v":["a",1,2]}]`, `[{"v":["a","b"]}, {"v":["a",1,"b"]}]`},
		`{"properties":{"v":{"items":[{"type":"string"}],"dependencies":{"a":["b"]}}}}`:                                                                                 {`[{"v":["a"]}, {"v":{"a":1,"b":1}}]`, `[{"v":[1]}, {"v":{"a":1}}]`},
		`{"properties":{"a":{"$ref":"#/definitions/d"},"b":{"$ref":"#/definitions/d"},"l":{"items":{"$ref":"#/definitions/d"}}},"definitions":{"d":{"type":"string"}}}`: {`[{"a":"x","b":"y"}, {"l":["x","y"],"a":"x"}]`, `[{"a":"x","b":1}, {"a":1,"b":"x"}, {"l":["x",1]}, {"l":[1,"x"]}, {"a":"x","l":[1]}]`},
		`{"allOf":[{"$ref":"#/definitions/d"},{"properties":{"a":{"$ref":"#/definitions/d"}}}],"definitions":{"d":{"required":["a"]}}}`:                                 {`[{"a":{"a":1}}]`, `[{}, {"a":{}}, {"b":{"a":1}}]`},
		`{"allOf":[{"properties":{"a":{"$ref":"#/definitions/d"}}},{"$ref":"#/definitions/d"}],"definitions":{"d":{"required":["b"]}}}`:                                 {`[{"a":{"b":1},"b":1}, {"b":1}]`, `[{"a":{"b":1}}, {"a":{},"b":1}, {}]`},
		`{"anyOf":[{"$ref":"#/definitions/d"},{"required":["b"]}],"oneOf":[{"$ref":"#/definitions/d"},{"required":["c"]}],"definitions":{"d":{"required":["a"]}}}`:      {`[{"a":1}, {"b":1,"c":1}]`, `[{}, {"c":1}, {"a":1,"c":1}, {"b":1}]`},
		`{"properties":{"a":{"$ref":"#/definitions/d"},"x":{"properties":{"a":{"$ref":"#/definitions/d"}}},"l":{"items":[{"$ref":"#/definitions/d"},{"$ref":"#/definitions/d"}]}},"patternProperties":{"^y":{"$ref":"#/definitions/d"}},"definitions":{"d":{"enum":["v"]}}}`: {
			`[{"a":"v","x":{"a":"v"},"l":["v","v"],"y":"v"}]`, `[{"a":"v","x":{"a":"w"}}, {"a":"w","x":{"a":"v"}}, {"l":["v","w"]}, {"l":["w","v"]}, {"a":"v","y":"w"}, {"a":"w","y":"v"}]`},
	} {
		p, err := CompileJSONSchema(readSchema(t, text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for i, list := range objects {
			for _, v := range parsed(t, list).([]any) {
				obj := v.(map[string]any)
				if got := p.holds(obj); got != (i == 0) {
					t.Errorf("%s: the shortcut says %t for %v", text, got, obj)
				}
				if vs := p.violations(t.Context(), obj, nil, true); len(vs) == 0 != (i == 0) {
					t.Errorf("%s: got %v for %v", text, vs, obj)
				}
			}
		}
		if p.holds(Object{"v": []string{"a"}}) && strings.Contains(text, `"v":`) {
			t.Errorf("%s: the shortcut accepts a value that JSON does not have", text)
		}
	}
}

// TestClosestToNull checks that a branch that accepts null and has another enum is closer to it than one
// without null.
func TestClosestToNull(t *testing.T) {
	p, err := CompileJSONSchema(readSchema(t, `{"anyOf":[{"properties":{"v":{"type":"string","enum":["x"]}}},{"properties":{"v":{"type":["string","null"],"enum":["x"]}}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	vs := p.Validate(t.Context(), Object{"v": nil}, nil)
	if len(vs) != 1 || vs[0].Closest != 1 {
		t.Errorf("got %+v", vs)
	}
}
