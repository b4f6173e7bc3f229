package kustomize

import "testing"

// TestWebhook looks for patches that make a webhook convert objects.
func TestWebhook(t *testing.T) {
	t.Parallel()
	const (
		merge = "kind: CustomResourceDefinition\nmetadata: {name: a.example.com}\nspec: {conversion: {strategy: Webhook}}\n"
		all   = "- {op: add, path: /spec/conversion, value: {strategy: Webhook}}\n"
		one   = "- {op: replace, path: /spec/conversion/strategy, value: Webhook}\n"
	)
	target := func(fields ...string) map[string]string {
		all := map[string]string{}
		for i := 0; i < len(fields); i += 2 {
			all[fields[i]] = fields[i+1]
		}
		return all
	}
	for name, test := range map[string]struct {
		text   string
		target map[string]string
		a, b   bool
	}{
		"merge":              {text: merge, a: true},
		"second document":    {text: "kind: X\n---\n" + merge, a: true},
		"merge with target":  {text: merge, target: target("kind", "CustomResourceDefinition"), a: true, b: true},
		"JSON patch":         {text: all, target: target("name", ".*[.]example[.]com", "group", "apiextensions.k8s.io"), a: true, b: true},
		"strategy":           {text: one, target: target("name", "a.example.com"), a: true},
		"part of a name":     {text: one, target: target("name", "example")},
		"no target":          {text: all},
		"other kind":         {text: all, target: target("kind", "Deployment")},
		"label selector":     {text: all, target: target("labelSelector", "a=b")},
		"invalid expression": {text: all, target: target("name", "(")},
		"removal":            {text: "- {op: remove, path: /spec/conversion/strategy, value: Webhook}\n", target: target("name", ".*")},
		"no conversion":      {text: "kind: CustomResourceDefinition\nmetadata: {name: a.example.com}\nspec: {x: Webhook}\n"},
		"malformed":          {text: "Webhook: [\n"},
	} {
		w := PatchSource{Target: test.target}.Webhook(test.text)
		if a, b := w != nil && w.Converts("a.example.com"), w != nil && w.Converts("b.example.com"); a != test.a || b != test.b {
			t.Errorf("%s: got %t, %t", name, a, b)
		}
	}
}
