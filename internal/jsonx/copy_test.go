package jsonx

import (
	"reflect"
	"testing"
)

func TestCopy(t *testing.T) {
	for _, text := range []string{`null`, `"a"`, `1`, `1.5`, `true`, `[]`, `{}`, `{"a":[{"b":1},[null,"c"]],"d":{"e":{}}}`} {
		v, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		got := Copy(v)
		if !reflect.DeepEqual(got, v) {
			t.Errorf("%s: got %#v", text, got)
		}
		spoil(got)
		if again, _ := Parse([]byte(text)); !reflect.DeepEqual(v, again) {
			t.Errorf("%s: changed with its copy to %#v", text, v)
		}
	}
	for _, v := range []any{map[string]any(nil), []any(nil), 7} {
		if got := Copy(v); !reflect.DeepEqual(got, v) {
			t.Errorf("%#v: got %#v", v, got)
		}
	}
}

// spoil changes every map and slice in v.
func spoil(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			spoil(x)
		}
		v["spoiled"] = true
	case []any:
		for i, x := range v {
			spoil(x)
			v[i] = "spoiled"
		}
	}
}
