package compare

import (
	"slices"
	"strings"
	"testing"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// TestDrifts reproduces each drift with a minimal case, and checks that the case has no
// other. It needs no corpus.
func TestDrifts(t *testing.T) {
	const (
		head = `{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"CustomResourceDefinition","metadata":{"name":"foos.example.com","resourceVersion":"1"},` +
			`"spec":{"group":"example.com","names":{"plural":"foos","kind":"Foo"},"scope":"Namespaced","versions":[{"name":"v1","served":true,"storage":true}],"preserveUnknownFields":false`
		status   = `,"status":{"storedVersions":["v1"]}}`
		embedded = `"x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true`
	)
	obj := func(rest string) []byte {
		return []byte(`{"apiVersion":"example.com/v1","kind":"Foo","metadata":{"name":"x","namespace":"y","resourceVersion":"1"},` + rest + `}`)
	}
	validate := func(props string, objects ...ObjectRequest) func(p *pair) error {
		return func(p *pair) error {
			s := &api.JSONSchemaProps{}
			if err := api.Unmarshal([]byte(props), s); err != nil {
				return err
			}
			return p.objects("objects", s, schema.Identity{APIVersion: "example.com/v1", Kind: "Foo", Namespaced: true}, false, objects)
		}
	}
	isStructural := func(props string) func(p *pair) error {
		return func(p *pair) error {
			s := &api.JSONSchemaProps{}
			if err := api.Unmarshal([]byte(props), s); err != nil {
				return err
			}
			_, _, err := p.schema("schema", s)
			return err
		}
	}
	withSchema := func(props string) string { return head + `,"validation":{"openAPIV3Schema":` + props + `}` }
	// An update without changes: v1beta1 does not allow new defaults.
	again := func(crd string) func(p *pair) error {
		return func(p *pair) error { return p.update("definition", []byte(crd), []byte(crd), crd) }
	}
	cases := map[string]func(p *pair) error{
		"ratcheting": validate(`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}`,
			ObjectRequest{Object: obj(`"a":1,"b":"new"`), Old: obj(`"a":1`)}),
		"indices-in-paths": validate(`{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"}}}}`,
			ObjectRequest{Object: obj(`"a":["x",1]`)}),
		"numeric-formats": validate(`{"type":"object","properties":{"a":{"type":"integer","format":"int32"},"b":{"type":"number","format":"float"}}}`,
			ObjectRequest{Object: obj(`"a":1099511627776,"b":1e300`)}, ObjectRequest{Object: obj(`"a":1.5,"b":2.5`)}),
		"dots-in-labels": validate(`{"type":"object"}`,
			ObjectRequest{Object: []byte(strings.Replace(string(obj(`"a":1`)), `"y"`, `"y.z"`, 1))}),
		"example-in-metadata":                   isStructural(`{"type":"object","properties":{"metadata":{"type":"object","example":"x"}}}`),
		"nested-additional-properties":          isStructural(`{"type":"object","properties":{"a":{"type":"object","not":{"additionalProperties":false}}}}`),
		"defaults-unvalidated":                  again(withSchema(`{"type":"object","properties":{"metadata":{"type":"object","example":"x","default":[]}}}`) + `}` + status),
		"webhook-service-required":              again(withSchema(`{"type":"object"}`) + `,"conversion":{"strategy":"Webhook","conversionReviewVersions":["v1"],"webhookClientConfig":{"service":{"name":"s"}}}}` + status),
		"embedded-type-required":                validate(`{"type":"object","properties":{"a":{"type":"object",`+embedded+`}}}`, ObjectRequest{Object: obj(`"a":{}`)}),
		"values-in-errors-of-metadata-defaults": again(withSchema(`{"type":"object","properties":{"apiVersion":{"type":"string","default":{}}}}`) + `}` + status),
	}
	for _, d := range Drifts() {
		t.Run(d.ID, func(t *testing.T) {
			compare := cases[d.ID]
			if compare == nil {
				t.Fatal("no case")
			}
			ref, err := Start(referenceProgram)
			if err != nil {
				t.Fatal(err)
			}
			defer ref.Close()
			p := &pair{ref: ref}
			if err := compare(p); err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(p.found, func(found *Difference) bool { return found.Drift == d.ID }) {
				t.Error("no such difference")
			}
			for _, found := range p.found {
				// This drift never occurs alone.
				if found.Drift != d.ID && (d.ID != "defaults-unvalidated" || found.Drift != "example-in-metadata") {
					t.Errorf("explained by %q: %s", found.Drift, found)
				}
			}
		})
	}
	if len(cases) != len(Drifts()) {
		t.Errorf("%d cases for %d drifts", len(cases), len(Drifts()))
	}
}
