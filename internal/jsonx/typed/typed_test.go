package typed_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	kjson "sigs.k8s.io/json"

	"espalier.dev/internal/jsonx/typed"
)

type name string

type inner struct {
	Text string `json:"text,omitempty"`
}

type all struct {
	inner  `json:",inline"`
	Bool   bool              `json:"bool"`
	Int    int32             `json:"int"`
	Tiny   *int8             `json:"tiny"`
	Float  float32           `json:"float"`
	Bytes  []byte            `json:"bytes"`
	Any    any               `json:"any"`
	Labels map[string]string `json:"labels"`
	Map    map[name]inner    `json:"map"`
	Slice  []*inner          `json:"slice"`
	Self   *all              `json:"self"`
	Raw    *json.RawMessage  `json:"raw"`
	Own    lower             `json:"own"`
	Hidden string            `json:"-"`
	Plain  int64
}

// lower has a method that reads it.
type lower string

func (l *lower) UnmarshalJSON(text []byte) error {
	*l = lower(strings.ToLower(string(text)))
	return nil
}

// TestDecode reads texts as sigs.k8s.io/json reads them, or rejects them.
func TestDecode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text     string
		rejected bool
	}{
		{`{}`, false},
		{` { "text" : "a\u0041" , "bool" : true, "int": -2147483648, "tiny": 127, "float": 1e3, "bytes": "YWI=", "Plain": 9007199254740993 } `, false},
		{`{"any": {"a": [1, 1.0, "x", null, true, {}]}, "labels": {"a": "b", "c": null}, "map": {"a": {"text": "b"}, "c": null, "d": {}}}`, false},
		{`{"slice": [null, {}, {"text": "a"}], "self": {"self": {"int": 1}}, "raw": {"a": 1, "a": 2}, "own": "A"}`, false},
		{`{"text": null, "bool": null, "int": null, "tiny": null, "float": null, "bytes": null, "any": null, "labels": null, "map": null, "slice": null, "self": null, "raw": null, "own": null}`, false},
		{`{"bytes": "", "labels": {}, "map": {}, "slice": []}`, false},
		{"{\"text\": \"\xff\", \"labels\": {\"\xff\": \"\"}}", false},
		{`null`, false},

		{``, true}, {`{`, true}, {`{}x`, true}, {`[]`, true}, {`"a"`, true}, {`{"text": "a" "bool": true}`, true},
		{`{"unknown": 1}`, true}, {`{"Text": "a"}`, true}, {`{"Hidden": "a"}`, true}, {`{"self": {"unknown": 1}}`, true},
		{`{"text": "a", "text": "a"}`, true}, {`{"labels": {"a": "b", "a": "b"}}`, true}, {`{"map": {"a": {}, "a": {}}}`, true}, {`{"any": {"a": 1, "a": 1}}`, true},
		{`{"text": 1}`, true}, {`{"bool": "true"}`, true}, {`{"int": "1"}`, true}, {`{"int": 1.5}`, true}, {`{"int": 2147483648}`, true}, {`{"tiny": 128}`, true},
		{`{"float": "1"}`, true}, {`{"float": 1e39}`, true}, {`{"bytes": "a"}`, true}, {`{"bytes": [1]}`, true}, {`{"labels": []}`, true}, {`{"labels": {"a": 1}}`, true},
		{`{"map": {"a": 1}}`, true}, {`{"slice": {}}`, true}, {`{"self": []}`, true}, {`{"raw": }`, true}, {`{"Plain": 9223372036854775808}`, true},
		{strings.Repeat(`{"self":`, 20000) + `null` + strings.Repeat(`}`, 20000), true},
	} {
		var have, want all
		if ok := typed.Decode([]byte(c.text), &have); ok == c.rejected {
			t.Errorf("%.200s: accepted: %v", c.text, ok)
		} else if !ok {
			continue
		}
		strict, err := kjson.UnmarshalStrict([]byte(c.text), &want)
		if err != nil || len(strict) > 0 || !reflect.DeepEqual(have, want) {
			t.Errorf("%s: got %+v, want %+v, %v, %v", c.text, have, want, strict, err)
		}
	}
}

// TestDecodeUnusual leaves types to sigs.k8s.io/json that have rules of their own.
func TestDecodeUnusual(t *testing.T) {
	t.Parallel()
	type quoted struct {
		Int int `json:"int,string"`
	}
	type pointer struct {
		*inner `json:",inline"`
	}
	twice := reflect.StructOf([]reflect.StructField{
		{Name: "A", Type: reflect.TypeFor[string](), Tag: `json:"text"`},
		{Name: "B", Type: reflect.TypeFor[string](), Tag: `json:"text"`},
	})
	for text, into := range map[string]any{
		`{"int": "1"}`:    &quoted{},
		`{"text": "a"}`:   &pointer{},
		`{"text": "b"}`:   reflect.New(twice).Interface(),
		`{"number": "1"}`: &struct{ Number json.Number }{},
		`{"n": {"1": 2}}`: &struct {
			N map[int]int `json:"n"`
		}{},
		`{"n": [1]}`: &struct {
			N [2]int `json:"n"`
		}{},
	} {
		if typed.Decode([]byte(text), into) {
			t.Errorf("%s is read as %+v", text, into)
		}
	}
}

// TestDecodeCopies makes sure that the value does not change with the text.
func TestDecodeCopies(t *testing.T) {
	t.Parallel()
	text := []byte(`{"text": "abc", "labels": {"abc": "abc"}}`)
	var have all
	if !typed.Decode(text, &have) {
		t.Fatal("rejected")
	}
	clear(text)
	if have.Text != "abc" || have.Labels["abc"] != "abc" {
		t.Errorf("got %+v", have)
	}
}
