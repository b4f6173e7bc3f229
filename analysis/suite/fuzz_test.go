package suite_test

import (
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/analysis/suite"
	"espalier.dev/crd/cel"
)

// FuzzSuite parses arbitrary input and runs the cases.
func FuzzSuite(f *testing.F) {
	f.Add(head + "valid: [{name: a, with: {spec: {image: null}}, stored: {metadata: 1}}]")
	f.Add(head + "invalid: [{name: a, object: {metadata: [], spec: 1}, errors: [{path: x}, y]}]")
	f.Add(head + "updates: [{name: a, old: {kind: X}, new: {metadata: {name: 1}}, subresource: status}]")
	f.Add("crdName: x\nversion: v1\ntests: {onCreate: [{name: a, initial: '[]'}], onUpdate: [{name: b, initial: 'spec: {image: a}', updated: 'metadata: 7', initialCRDPatches: [{op: remove, path: /spec/versions/0}, {op: add, path: '', value: 1}]}]}")
	definition, err := yaml.YAMLToJSON([]byte(crontab(f)))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		doc, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			return
		}
		suite.Recognize(doc)
		s, findings := suite.Parse(doc, noFiles)
		for _, finding := range findings {
			if finding.Message == "" {
				t.Errorf("%s: nothing is said", finding.Pointer)
			}
		}
		r, err := suite.NewRunner(t.Context(), s, definition, suite.Options{Rules: cel.Checker{}})
		if err != nil {
			return
		}
		for _, c := range s.Cases {
			r.Run(t.Context(), c)
		}
	})
}
