package sample_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"espalier.dev/analysis/explain/sample"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// versionOf returns a version with a schema for spec.
func versionOf(t *testing.T, spec string, sem schema.Semantics) *crd.Version {
	t.Helper()
	return rootOf(t, `{type: object, required: [spec], properties: {spec: `+spec+`}}`, sem)
}

// rootOf returns a version with a schema.
func rootOf(t *testing.T, schema string, sem schema.Semantics) *crd.Version {
	t.Helper()
	return define(t, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.example.com},
spec: {group: example.com, names: {kind: Thing, plural: things}, scope: Namespaced, versions: [{name: v1, served: true, storage: true,
schema: {openAPIV3Schema: `+schema+`}}]}}`, sem).Version("v1")
}

// TestUnsolvable checks the reported violations of samples that cannot be valid: there is no room for the values.
func TestUnsolvable(t *testing.T) {
	for _, c := range []struct{ name, spec, want string }{
		{"more than there is room for", `{type: object, required: [a], properties: {a: {type: array, minItems: 1000000000, items: {type: array, minItems: 1000000000, items: {type: string}}}}}`, "spec.a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := sample.New(context.Background(), versionOf(t, c.spec, schema.Kubernetes), sample.Full)
			if err != nil {
				t.Fatal(err)
			}
			if s.Valid() {
				t.Fatalf("got %v", s.Object)
			}
			if text := fmt.Sprint(s.Violations.FieldErrors()); !strings.Contains(text, c.want) {
				t.Errorf("got %s, want something with %q", text, c.want)
			}
			if s.Object["kind"] != "Thing" {
				t.Errorf("there is no attempt: %v", s.Object)
			}
		})
	}
}

// TestNoSchema checks the sample of a CRD without a schema.
func TestNoSchema(t *testing.T) {
	v := define(t, `{apiVersion: apiextensions.k8s.io/v1beta1, kind: CustomResourceDefinition, metadata: {name: things.example.com},
spec: {group: example.com, names: {kind: Thing, plural: things}, scope: Namespaced, version: v1}}`, schema.KEP).Version("v1")
	for _, size := range []sample.Size{sample.Minimal, sample.Full} {
		s, err := sample.New(t.Context(), v, size)
		if err != nil || !s.Valid() || len(s.Object) != 3 {
			t.Errorf("%s: %v, %v", size, s, err)
		}
	}
}

// TestBroken checks the error of a version whose schema does not compile.
func TestBroken(t *testing.T) {
	inner := `{type: array, items: {type: object, properties: {b: {type: string, default: x}}}, default: [` + strings.Repeat("{},", 299) + `{}]}`
	outer := `{type: array, items: {type: object, properties: {l: ` + inner + `}}, default: [` + strings.Repeat("{},", 299) + `{}]}`
	s, err := sample.New(t.Context(), versionOf(t, outer, schema.KEP), sample.Minimal)
	if want := "version v1 of things.example.com: "; err == nil || s != nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, %v, want %s", s, err, want)
	}
}

// TestStopped checks that the search stops when its context ends.
func TestStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s, err := sample.New(ctx, versionOf(t, `{type: object, x-kubernetes-validations: [{rule: "self == self && false"}]}`, schema.Kubernetes), sample.Minimal)
	if err != nil || s.Valid() {
		t.Errorf("got %v, %v", s, err)
	}
}
