package rules_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"espalier.dev/schema/rules"
)

func TestFields(t *testing.T) {
	for expression, want := range map[string]string{
		"object.spec.replicas <= 5": "object: spec.replicas",
		"has(object.spec) && has(object.spec.replicas) && object.spec.a > 1": "object: spec.a spec.replicas",
		"object.spec.list.all(x, x.name != oldObject.spec.name)":             "object: spec.list; oldObject: spec.name; x: name",
		"'object.spec.a' in object.metadata.labels":                          "object: metadata.labels",
		"variables.a > params.max":                                           "params: max; variables: a",
		"object == oldObject":                                                "object:; oldObject:",
		"object.metadata.?labels[?'a'].orValue('') == object.metadata.name":  "object: metadata.labels metadata.name",
		"object.spec.": "",
	} {
		got := rules.Fields(expression)
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(got)) {
			if strings.HasPrefix(name, "@") {
				continue
			}
			parts = append(parts, strings.TrimSpace(name+": "+strings.Join(got[name], " ")))
		}
		if text := strings.Join(parts, "; "); text != want {
			t.Errorf("%s: %q, not %q", expression, text, want)
		}
	}
}
