package schema

import (
	"slices"
	"testing"
)

func TestAll(t *testing.T) {
	s := mustStructural(t, `{
	  "type": "object",
	  "properties": {
	    "b": {"type": "array", "items": {"type": "object", "additionalProperties": {"type": "string"}}},
	    "a": {"type": "string", "anyOf": [{"pattern": "x"}]}
	  },
	  "additionalProperties": true
	}`)
	paths := func() (all []string) {
		for path := range s.All() {
			all = append(all, path.String())
		}
		return all
	}
	want := []string{"", ".properties[a]", ".properties[b]", ".properties[b].items", ".properties[b].items.additionalProperties"}
	if got := paths(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, s := range s.All() {
		if s.Type == "array" {
			break
		}
		if s.Type == "object" {
			// What comes next is what is there after the change.
			delete(s.Properties, "a")
			s.Properties["c"] = &Structural{Generic: Generic{Type: "integer"}}
		}
	}
	if got, want := paths(), []string{"", ".properties[b]", ".properties[b].items", ".properties[b].items.additionalProperties", ".properties[c]"}; !slices.Equal(got, want) {
		t.Errorf("after a change: got %v, want %v", got, want)
	}
	isInteger := func(s *Structural) bool { return s.Type == "integer" }
	if !s.Any(isInteger) || s.Properties["b"].Any(isInteger) || (*Structural)(nil).Any(isInteger) {
		t.Error("Any is wrong")
	}
}
