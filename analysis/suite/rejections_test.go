package suite_test

import (
	"strings"
	"testing"

	"espalier.dev/analysis/suite"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
)

// TestRejections checks how a case may name the reason of a rejection: by path, message and rule.
func TestRejections(t *testing.T) {
	for _, c := range []struct{ object, expected string }{
		{`{metadata: {name: A}, spec: {image: a}}`, `{path: metadata.name}`},
		{`{metadata: {name: A}, spec: {image: a}}`, `{path: metadata}`},
		{`{metadata: {name: a, labels: {a: b c}}, spec: {image: a}}`, `{path: metadata.labels}`},
		{`{metadata: {name: a, labels: {a: 1}}, spec: {image: a}}`, `{path: metadata, message: cannot unmarshal}`},
		{`{metadata: {name: a, resourceVersion: "1"}, spec: {image: a}}`, `{path: metadata.resourceVersion}`},
		{`{metadata: 7, spec: {image: a}}`, `{path: metadata}`},
		{`{apiVersion: stable.example.com/v7, spec: {image: a}}`, `{message: v7}`},
		{`{kind: Other, spec: {image: a}}`, `{message: Other}`},
		{`{spec: {image: 7}}`, `{path: spec.image, rule: wrong type}`},
		{`{spec: {image: 7}}`, `{rule: wrong-type, message: must be of type string}`},
		{`{spec: {image: a very long name of an image}}`, `{rule: max-length}`},
		{`{spec: {image: a very long name of an image}}`, `{rule: max_length}`},
		{`{}`, `{path: spec, rule: required}`},
	} {
		for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
			for wrong, expected := range map[bool]string{false: c.expected, true: strings.Replace(c.expected, ": ", ": other", 1)} {
				s, malformed := suite.Parse(toJSON(t, "apiVersion: espalier.dev/v1\nkind: TestSuite\ninvalid: [{name: a, object: "+c.object+", errors: ["+expected+"]}]"), noFiles)
				if len(malformed) > 0 {
					t.Fatal(malformed)
				}
				r, err := suite.NewRunner(t.Context(), s, toJSON(t, crontab), suite.Options{Rules: cel.Checker{}, Semantics: sem})
				if err != nil {
					t.Fatal(err)
				}
				if found := r.Run(t.Context(), s.Cases[0]); (len(found) > 0) != wrong {
					t.Errorf("%s: %s with %s: %v", sem, c.object, expected, found)
				}
			}
		}
	}
}
