package kinds

import (
	"encoding/json"
	"fmt"
	"testing"
)

func TestLocate(t *testing.T) {
	var tree any
	if err := json.Unmarshal([]byte(`{"metadata":{"annotations":{"a.b/c":"x","a":"y"}},"spec":{"list":[{"limits":{"cpu":"1","a]b":"2"}}],"ports":{}}}`), &tree); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"":                            " true",
		"spec":                        "/spec true",
		"metadata.annotations[a.b/c]": "/metadata/annotations/a.b~1c true",
		"metadata.annotations.a.b/c":  "/metadata/annotations/a.b~1c true",
		"metadata.annotations[a]":     "/metadata/annotations/a true",
		"spec.list[0].limits[cpu]":    "/spec/list/0/limits/cpu true",
		"spec.list[0].limits[a]b]":    "/spec/list/0/limits/a]b true",
		"spec.list[0].limits.cpu":     "/spec/list/0/limits/cpu true",
		"spec.list[1].limits[cpu]":    "/spec/list/1/limits/cpu false",
		"spec.lists[0]":               "/spec/lists/0 false",
		"spec.list[x]":                "/spec/list/x false",
		"spec.list[":                  "/spec/list/ false",
		"spec..x":                     "/spec//x false",
		"spec.list[0].{a, b}":         "/spec/list/0/{a, b} false",
	} {
		located, exact := Locate(path, tree)
		if got := fmt.Sprint(located.Pointer(), " ", exact); got != want {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
}
