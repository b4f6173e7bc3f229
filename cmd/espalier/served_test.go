package main

import (
	"fmt"
	"testing"
)

func TestServedVersions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"spec": {"versions": [{"name": "v1", "served": true, "schema": {"name": "x"}}, {"served": false, "name": "v2"}, {"deprecated": true, "name": "v3", "served": true}]}}`: `[{v1 false} {v3 true}]`,
		`{"spec": {"version": "v1beta1"}}`:                                                      `[{v1beta1 false}]`,
		`{"spec": {"version": "v1", "versions": [{"name": "v1", "served": true}]}}`:             `[{v1 false}]`,
		`{"spec": {"versions": {"name": "v1"}}}`:                                                `[]`,
		`{"spec": {"versions": [7, {"name": 7, "served": true}, {"name": "v1", "served": true}`: `[{v1 false}]`,
		`[]`: `[]`,
		``:   `[]`,
	} {
		if got := fmt.Sprint(servedVersions([]byte(text))); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
