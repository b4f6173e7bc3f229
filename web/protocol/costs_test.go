package protocol_test

import (
	"slices"
	"strings"
	"testing"

	"espalier.dev/web/protocol"
)

// costly has a rule that is too expensive, one that does not compile, and one that is cheap.
const costly = `# 🌲
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: others.example.com}
spec: {group: example.com, scope: Cluster, names: {kind: Other, plural: others}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {kind: Thing, plural: things}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            x-kubernetes-validations:
            - rule: self.list.all(x, self.list.exists(y, x.name == y.name))
            - {rule: self.nothing > 1}
            - {rule: self.size > 1}
            properties:
              size: {type: integer}
              list:
                type: array
                items:
                  type: object
                  properties: {name: {type: string, maxLength: 63}}
`

// TestRules checks the costs of rules, and that each of the bounds is sufficient.
func TestRules(t *testing.T) {
	e := engine()
	request := func(crds string) protocol.VersionRequest {
		return protocol.VersionRequest{CRDs: crds, CRD: "things.example.com", Version: "v1"}
	}
	a := ask[protocol.RulesAnswer](t, e, "rules", request(costly))
	if len(a.Rules) != 3 || a.Limit == 0 {
		t.Fatalf("%+v", a)
	}
	expensive, broken, cheap := a.Rules[0], a.Rules[1], a.Rules[2]
	if !expensive.Exceeded || expensive.Cost <= expensive.Limit || len(expensive.Bounds) == 0 || cut(costly, expensive.Range) != "rule: self.list.all(x, self.list.exists(y, x.name == y.name))" && expensive.Range.Line != 25 {
		t.Errorf("%+v at %q", expensive, cut(costly, expensive.Range))
	}
	if broken.Error == "" || broken.Exceeded || len(broken.Bounds) > 0 || broken.Path != "spec" || broken.Index != 1 {
		t.Errorf("%+v", broken)
	}
	if cheap.Exceeded || cheap.Error != "" || cheap.Cost == 0 || cheap.Cost > cheap.Limit || len(cheap.Bounds) > 0 {
		t.Errorf("%+v", cheap)
	}
	for _, b := range expensive.Bounds {
		if !strings.HasPrefix(b.Message, "add maxItems: ") || !strings.HasSuffix(b.Message, " to spec.list") {
			t.Errorf("the change is %q", b.Message)
		}
		change := ask[protocol.ApplyAnswer](t, e, "apply", protocol.ApplyRequest{Text: costly, Fix: b})
		units := []rune(costly) // the first line has a character of two units
		fixed := string(units[:change.Start-1]) + change.Text + string(units[change.End-1:])
		after := ask[protocol.RulesAnswer](t, e, "rules", request(fixed))
		if len(after.Rules) != 3 || after.Rules[0].Exceeded || after.Rules[0].Cost == 0 {
			t.Errorf("%+v\n%s", after, fixed)
		}
	}
	t.Run("lower", func(t *testing.T) {
		crds := strings.Replace(costly, "                type: array\n", "                type: array\n                maxItems: 100000\n", 1)
		a := ask[protocol.RulesAnswer](t, e, "rules", request(crds))
		if !slices.ContainsFunc(a.Rules[0].Bounds, func(f protocol.Fix) bool {
			return strings.HasPrefix(f.Message, "lower maxItems of spec.list from 100000 to ")
		}) {
			t.Errorf("%+v", a.Rules[0])
		}
	})
	t.Run("Kubernetes' own kinds", func(t *testing.T) {
		a := ask[protocol.RulesAnswer](t, e, "rules", protocol.VersionRequest{CRD: "deployments.apps"})
		if len(a.Rules) > 0 || a.Limit == 0 {
			t.Errorf("%+v", a)
		}
	})
	t.Run("without CEL", func(t *testing.T) {
		a := ask[protocol.RulesAnswer](t, protocol.New(protocol.Options{}), "rules", request(costly))
		if len(a.Rules) > 0 {
			t.Errorf("%+v", a)
		}
	})
}
