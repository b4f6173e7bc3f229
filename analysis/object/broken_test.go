package object_test

import (
	"strings"
	"testing"

	"espalier.dev/analysis/internal/analysistest"
	"espalier.dev/analysis/object"
	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
)

// TestBrokenDefinition checks what is said about objects of a CRD whose schemas cannot be compiled:
// here, they have rules, and there is no RuleChecker.
func TestBrokenDefinition(t *testing.T) {
	d := analysistest.Define(t, archived(t, "widgets"), crd.Options{Semantics: schema.Kubernetes})
	c := object.New(d, object.Options{})
	problem := schema.ErrRules.Error()
	for _, version := range []string{"v1", "v2"} {
		source := []byte(strings.Replace(string(widget(`{}`)), "/v1", "/"+version, 1))
		if found := c.Check(t.Context(), source, nil, object.Warn); len(found) == 0 || found[0].Rule != object.RuleDecode || found[0].Message != problem {
			t.Errorf("%s: %q", version, lines(found))
		}
		p := c.Prune(source)
		expect(t, p.Failures, "error invalid-definition : "+problem)
		if _, err := p.Edits(); p.Object != nil || p.Reasons() != nil || p.Difference() != nil || err == nil || err.Error() != "the object cannot be decoded" {
			t.Errorf("%s: %v, %v", version, p, err)
		}
	}
}

// TestConverts checks with which old objects an object can be compared.
func TestConverts(t *testing.T) {
	with := func(strategy api.ConversionStrategyType) *object.Checker {
		decoded := analysistest.CRD(t, archived(t, "peers"))
		decoded.Spec.Conversion = nil // as in a CRD that was not read from a file
		if strategy != "" {
			decoded.Spec.Conversion = &api.CustomResourceConversion{Strategy: strategy}
		}
		d, err := crd.New(decoded, crd.Options{Semantics: schema.Kubernetes, Rules: cel.Checker{}})
		if err != nil {
			t.Fatal(err)
		}
		return object.New(d, object.Options{})
	}
	old := func(version string) schema.Object {
		return schema.Object{"apiVersion": "example.com/" + version, "kind": "Peer", "metadata": map[string]any{"name": "a"},
			"spec": map[string]any{"peerPort": "text"}}
	}
	invalid := []string{
		`error validation/wrong-type /spec/peerPort: Invalid value: "string": spec.peerPort in body must be of type integer: "string"`,
		`  schema: .properties[spec].properties[peerPort]`,
	}
	tolerated := []string{
		`info ratcheted /spec/peerPort: Invalid value: "string": spec.peerPort in body must be of type integer: "string"; ` +
			`tolerated in an update that does not change the value (ratcheting)`,
		`  schema: .properties[spec].properties[peerPort]`,
	}
	source := peer("v1", `{"peerPort": "text"}`)
	for _, tt := range []struct {
		strategy api.ConversionStrategyType
		version  string
		converts bool
		want     []string
	}{
		// An unchanged value that is invalid is accepted.
		{"", "v1", true, tolerated},
		{"", "v2", true, tolerated},
		{api.NoneConverter, "v1", true, tolerated},
		{api.NoneConverter, "v2", true, tolerated},
		{api.NoneConverter, "v0", true, tolerated},
		{api.WebhookConverter, "v1", true, tolerated},
		{api.WebhookConverter, "v2", false, invalid},
	} {
		c := with(tt.strategy)
		if got := c.Converts(old(tt.version), source); got != tt.converts {
			t.Errorf("%s %s: %t", tt.strategy, tt.version, got)
		}
		if !c.Converts(old(tt.version), []byte(`{`)) {
			t.Errorf("%s %s: an object that cannot be read is not compared", tt.strategy, tt.version)
		}
		before := old(tt.version)
		if !tt.converts {
			before = nil // callers then check the object as one that is created
		}
		expect(t, c.Check(t.Context(), source, before, object.Warn), tt.want...)
	}
}
