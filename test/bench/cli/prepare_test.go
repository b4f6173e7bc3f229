package main

import (
	"encoding/json"
	"testing"
)

func TestConvert(t *testing.T) {
	var s map[string]any
	if err := json.Unmarshal([]byte(`{"properties":{"a":{"x-kubernetes-int-or-string":true},"b":{"type":"string","nullable":true},
		"properties":{"items":{"type":"string","nullable":true}}},"default":{"nullable":true,"type":"string"}}`), &s); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(convert(s))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"$schema":"http://json-schema.org/draft-04/schema#","default":{"nullable":true,"type":"string"},` +
		`"properties":{"a":{"type":["integer","string"],"x-kubernetes-int-or-string":true},"b":{"nullable":true,"type":["string","null"]},` +
		`"properties":{"items":{"nullable":true,"type":["string","null"]}}}}`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
