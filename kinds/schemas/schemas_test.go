package schemas_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"espalier.dev/analysis"
	"espalier.dev/analysis/explain"
	"espalier.dev/analysis/object"
	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	kindscel "espalier.dev/kinds/cel"
	"espalier.dev/kinds/schemas"
	"espalier.dev/schema"
)

// TestSamples checks that there is a valid sample of each version of each kind.
func TestSamples(t *testing.T) {
	checker := object.ForKinds(kindscel.New())
	for _, k := range schemas.All() {
		for _, v := range k.Versions {
			obj, err := k.Sample(v.Name)
			if err != nil {
				t.Error(err)
				continue
			}
			text, err := json.Marshal(obj)
			if err != nil {
				t.Fatal(err)
			}
			if k.Group == api.GroupName {
				c, err := codec.DecodeLenient(text)
				if err != nil {
					t.Fatal(err)
				}
				crd.PrepareCreate(c)
				if errs := crd.ValidateCreate(t.Context(), c, crd.Options{Semantics: schema.Kubernetes, Rules: cel.Checker{}}).Errors; len(errs) > 0 {
					t.Errorf("%s: %v", k.FullName(), errs)
				}
				continue
			}
			for _, f := range checker.Check(t.Context(), text, nil, object.Strict) {
				if f.Severity == analysis.Error {
					t.Errorf("%s %s: %s: %s", k.FullName(), v.Name, f.Pointer, f.Message)
				}
			}
		}
	}
}

// TestDefinitions checks that all schemas are complete: each is structural, and each field has a
// type.
func TestDefinitions(t *testing.T) {
	fields := 0
	for _, k := range schemas.All() {
		d, err := k.Definition()
		if err != nil {
			t.Error(err)
			continue
		}
		for _, v := range d.Versions() {
			for _, f := range schema.Check(v.Structural(), schema.Kubernetes) {
				// A CRD must not specify metadata, Kubernetes does.
				if err := f.FieldError(nil); f.Refused && err.Field != "properties[metadata]" {
					t.Errorf("%s: %v", k.FullName(), err)
				}
			}
			doc, err := explain.Describe(v, "", explain.Options{Recursive: true})
			if err != nil {
				t.Fatal(err)
			}
			if doc.NoSchema || doc.Field.Description == "" {
				t.Errorf("%s has no schema or no description", k.FullName())
			}
			var walk func(f *explain.Field)
			walk = func(f *explain.Field) {
				fields++
				if strings.Contains(f.Type, "any") && k.Group != api.GroupName {
					t.Errorf("%s: %s has no type", k.FullName(), f.Path)
				}
				for _, inner := range append(slices.Clone(f.Fields), f.Items, f.Values) {
					if inner != nil {
						walk(inner)
					}
				}
			}
			walk(doc.Field)
		}
	}
	if fields < 10000 {
		t.Errorf("there are only %d fields", fields)
	}
}

// TestCalled checks the names of kinds.
func TestCalled(t *testing.T) {
	for name, want := range map[string]string{
		"pods": "pods.v1", "Pod": "pods.v1", "PO": "pods.v1", "deploy": "deployments.apps", "ev": "events.v1 events.events.k8s.io", "crds": "customresourcedefinitions.apiextensions.k8s.io",
		"endpoints": "endpoints.v1", "ingress": "ingresses.networking.k8s.io", "netpol": "networkpolicies.networking.k8s.io", "thing": "",
	} {
		var got []string
		for _, k := range schemas.Called(name) {
			got = append(got, k.FullName())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s is called %v, want %s", name, got, want)
		}
	}
}
