package schema

import "testing"

// TestDefaultOnly checks that Default fills in defaults at any depth, and changes nothing else.
func TestDefaultOnly(t *testing.T) {
	p := compiled(t, `{"type":"object","properties":{
		"o":{"type":"object","properties":{"a":{"type":"string","default":"x"},"b":{"type":"string"},"n":{"type":"string","nullable":true,"default":"x"}}},
		"l":{"type":"array","items":{"type":"object","default":{"b":"y"},"properties":{"a":{"type":"string","default":"x"},"b":{"type":"string"}}}},
		"nl":{"type":"array","items":{"type":"string","nullable":true,"default":"x"}},
		"m":{"type":"object","additionalProperties":{"type":"object","default":{"b":"y"},"properties":{"a":{"type":"string","default":"x"},"b":{"type":"string"}}}},
		"open":{"type":"object","additionalProperties":true,"properties":{"a":{"type":"string","default":"x"}}},
		"free":{"type":"array"}}}`)
	for text, want := range map[string]string{
		`{}`: `{}`, `{"unknown":{"a":null}}`: `{"unknown":{"a":null}}`,
		`{"o":{}}`: `{"o":{"a":"x","n":"x"}}`, `{"o":{"a":null,"b":null,"n":null}}`: `{"o":{"a":"x","b":null,"n":null}}`, `{"o":null}`: `{"o":null}`, `{"o":{"a":"z","n":"z"}}`: `{"o":{"a":"z","n":"z"}}`,
		`{"l":[{},null,{"a":"z"},1]}`: `{"l":[{"a":"x"},{"a":"x","b":"y"},{"a":"z"},1]}`, `{"nl":[null,"a"]}`: `{"nl":[null,"a"]}`,
		`{"m":{"k":{},"n":null,"z":{"a":"z","u":1}}}`: `{"m":{"k":{"a":"x"},"n":{"a":"x","b":"y"},"z":{"a":"z","u":1}}}`,
		`{"open":{"k":{},"n":null}}`:                  `{"open":{"a":"x","k":{},"n":null}}`, `{"free":[null,{}]}`: `{"free":[null,{}]}`,
		// Values that have other types.
		`{"o":[{}]}`: `{"o":[{}]}`, `{"l":{"a":null}}`: `{"l":{"a":null}}`, `{"m":[{}]}`: `{"m":[{}]}`, `{"o":1}`: `{"o":1}`,
	} {
		obj := parsed(t, text).(map[string]any)
		if err := p.Default(obj); err != nil || !Equal(obj, parsed(t, want)) {
			t.Errorf("%s: got %v, want %s", text, obj, want)
		}
	}
	obj := Object{"o": map[string]any(nil)}
	if err := p.Default(obj); err != nil || obj["o"] == nil || len(obj["o"].(map[string]any)) > 0 {
		t.Errorf("a nil map: got %v", obj)
	}
	// Each use of a default is a copy.
	one, other := parsed(t, `{"l":[null,null]}`).(map[string]any), parsed(t, `{"l":[null]}`).(map[string]any)
	if err := p.Default(one); err != nil {
		t.Error(err)
	}
	one["l"].([]any)[0].(map[string]any)["b"] = "changed"
	if err := p.Default(other); err != nil {
		t.Error(err)
	}
	if !Equal(one["l"].([]any)[1], other["l"].([]any)[0]) {
		t.Errorf("a change of a default reaches others: got %v, %v", one, other)
	}
	without := compiled(t, `{"type":"object","properties":{"a":{"type":"string"}}}`)
	obj = Object{"a": nil}
	if err := without.Default(obj); err != nil || !Equal(obj, Object{"a": nil}) {
		t.Errorf("no defaults: got %v", obj)
	}
}

// TestDefaultsPruned checks that a default is pruned and that its metadata is normalized, as if it were
// in an object.
func TestDefaultsPruned(t *testing.T) {
	for schema, want := range map[string]string{
		`"o":{"type":"object","default":{"a":"x","unknown":1},"properties":{"a":{"type":"string"}}}`:                                                                                 `{"metadata":{"name":"n"},"o":{"a":"x"}}`,
		`"o":{"type":"array","default":[{"a":"x","unknown":1}],"items":{"type":"object","properties":{"a":{"type":"string"}}}}`:                                                      `{"metadata":{"name":"n"},"o":[{"a":"x"}]}`,
		`"metadata":{"type":"object","properties":{"labels":{"type":"object","default":{"a":"b"}}}}`:                                                                                 `{"metadata":{"name":"n","labels":{"a":"b"}}}`,
		`"metadata":{"type":"object","properties":{"labels":{"type":"object","default":{"a":1}},"unknown":{"type":"string","default":"x"},"uid":{"type":"string","default":""}}}`:    `{"metadata":{"name":"n"}}`,
		`"pod":{"type":"object","x-kubernetes-embedded-resource":true,"default":{"kind":1,"apiVersion":"v1","metadata":{"name":"a","x":1}},"properties":{"kind":{"type":"string"}}}`: `{"metadata":{"name":"n"},"pod":{"apiVersion":"v1","metadata":{"name":"a"}}}`,
	} {
		p := compiled(t, `{"type":"object","properties":{`+schema+`}}`, WithSemantics(Kubernetes))
		obj, _, err := p.Decode([]byte(`{"metadata":{"name":"n"}}`), DecodeOptions{})
		if err != nil || !Equal(obj, parsed(t, want)) {
			t.Errorf("%s: got %v, %v, want %s", schema, obj, err, want)
		}
	}
	// A default that is null is none.
	obj, _, err := compiled(t, `{"type":"object","properties":{"a":{"type":"string","default":null},"b":{"type":"string","default":"x"}}}`).Decode([]byte(`{}`), DecodeOptions{})
	if err != nil || !Equal(obj, parsed(t, `{"b":"x"}`)) {
		t.Errorf("null: got %v, %v", obj, err)
	}
	// No object has the items of the root.
	compiled(t, `{"type":"object","items":{"type":"object","default":{"a":1}}}`)
}
