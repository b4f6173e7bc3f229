package crd_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
	"espalier.dev/crd"
)

// FuzzValidate lets the fuzzer write definitions: whatever they are, judging them
// ends, and does not panic; what is accepted compiles.
func FuzzValidate(f *testing.F) {
	for _, seed := range []string{
		`{"metadata":{"name":"things.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"things","kind":"Thing"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","default":{"a":1},"properties":{"a":{"type":"integer"}}}}}}}]}}`,
		`{"metadata":{"name":"x"},"spec":{"versions":[{"name":"v1","selectableFields":[{"jsonPath":".a['b"}],"schema":{}},{"name":"v1","additionalPrinterColumns":[{"jsonPath":"x"}],"subresources":{"scale":{"specReplicasPath":".x"}}}],"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"service":{"path":"x"}}}}}}`,
		`{"spec":{"version":"v1","validation":{"jsonSchema":{"$ref":"#/definitions/a","definitions":{"a":{"$ref":"#/definitions/a"}}}},"preserveUnknownFields":true}}`,
		`{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"type":"array","items":[{"x-kubernetes-list-type":"map"}],"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a"],"x-kubernetes-embedded-resource":true,"default":[{"metadata":1}],"properties":{"metadata":{"default":{"labels":1}}}}}}]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<15 {
			t.Skip()
		}
		ctx := context.Background()
		for _, sem := range both {
			o := crd.Options{Semantics: sem, IgnoreRules: true}
			_, _ = crd.Superseded(data, sem)
			v1 := &api.CustomResourceDefinition{}
			if api.Unmarshal(data, v1) == nil {
				api.SetDefaults(v1)
				if r := crd.ValidateCreate(ctx, v1, o); len(r.Errors) == 0 {
					use(t, v1, o)
				}
				crd.ValidateUpdate(ctx, v1.DeepCopy(), v1, o)
			}
			beta := &v1beta1.CustomResourceDefinition{}
			if api.Unmarshal(data, beta) == nil {
				v1beta1.SetDefaults(beta)
				hub, err := v1beta1.ToV1(beta)
				if r := crd.ValidateCreateV1beta1(ctx, beta, o); len(r.Errors) == 0 && err == nil {
					use(t, hub, o)
				}
				if err == nil {
					crd.ValidateUpdateV1beta1(ctx, beta, hub, o)
				}
			}
		}
	})
}

// use does with an accepted definition what a server does.
func use(t *testing.T, c *api.CustomResourceDefinition, o crd.Options) {
	d, err := crd.New(c, o)
	if err != nil {
		t.Fatalf("accepted, but cannot be compiled: %v", err)
	}
	for _, v := range d.Versions() {
		if _, err := v.Program(); err != nil {
			t.Fatalf("accepted, but cannot be compiled: %v", err)
		}
		if _, err := v.StatusProgram(); err != nil {
			t.Fatalf("accepted, but cannot be compiled for its status: %v", err)
		}
	}
	status := crd.Status(c.Status, d, nil, metav1.Now())
	if again := crd.Status(status, d, crd.NewCatalog(d), metav1.Now()); len(again.Conditions) != len(status.Conditions) {
		t.Fatalf("a status that is up to date changes: %v, %v", status, again)
	}
}
