package object_test

import (
	"testing"

	"espalier.dev/analysis/object"
	"espalier.dev/schema"
)

// TestMalformedMetadata checks what is said about values of a wrong type in metadata, for each type.
func TestMalformedMetadata(t *testing.T) {
	c := checker(t, widgets, schema.Kubernetes, nil)
	for metadata, want := range map[string][]string{
		`{"name": 1.5}`:                      {skipped, `error decode /metadata/name: must be a string, is a number`},
		`{"name": "a", "labels": []}`:        {skipped, `error decode /metadata/labels: must be an object, is a list`},
		`{"name": "a", "labels": {"a": {}}}`: {skipped, `error decode /metadata/labels/a: must be a string, is an object`},
		`{"name": "a", "finalizers": [[], 2]}`: {
			skipped,
			`error decode /metadata/finalizers/0: must be a string, is a list`,
			`error decode /metadata/finalizers/1: must be a string, is an integer`,
		},
		`{"name": "a", "creationTimestamp": "yesterday"}`: {
			skipped, `error decode /metadata/creationTimestamp: must be a time like 2006-01-02T15:04:05Z, is the string "yesterday"`,
		},
		`{"name": "a", "ownerReferences": [{"controller": "yes"}]}`: {
			skipped, `error decode /metadata/ownerReferences/0/controller: must be a boolean, is the string "yes"`,
		},
		`{"name": "a", "ownerReferences": [{"name": true}]}`: {
			skipped, `error decode /metadata/ownerReferences/0/name: must be a string, is a boolean`,
		},
		`{"name": "a", "ownerReferences": {"name": "b"}}`: {skipped, `error decode /metadata/ownerReferences: must be a list, is an object`},
		`7`: {`error decode /metadata: must be an object, is an integer`},
	} {
		source := []byte(`{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": ` + metadata + `, "spec": {"name": "a"}}`)
		t.Run(metadata, func(t *testing.T) {
			expect(t, c.Check(t.Context(), source, nil, object.Warn), want...)
		})
	}
}

// TestEmbeddedIdentity checks what is said about embedded resources whose apiVersion, kind or
// metadata is malformed or missing.
func TestEmbeddedIdentity(t *testing.T) {
	document := thingsWith(`{type: object, properties: {pod: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}}`)
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		c := checker(t, document, sem, nil)
		for pod, want := range map[string][]string{
			`{"apiVersion": 1, "kind": "Pod"}`: {`error decode /pod/apiVersion: must be a string`},
			`{"apiVersion": "v1", "kind": {}}`: {`error decode /pod/kind: must be a string`},
			`{"kind": "Pod", "metadata": []}`: {
				`error validation/metadata /pod/apiVersion: Required value`,
				`  schema: .properties[pod]`,
				`error decode /pod/metadata: must be an object, is a list`,
			},
			`{"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": 1}, "x": 2}}`: {
				`error decode /pod/metadata/labels/a: must be a string, is an integer`,
				`warning unknown-field /pod/metadata/x: unknown field "pod.metadata.x": the API server drops it`,
				`  ObjectMeta has no such field`,
			},
		} {
			t.Run(sem.String()+" "+pod, func(t *testing.T) {
				expect(t, c.Check(t.Context(), thing(`"pod": `+pod), nil, object.Warn), want...)
				if p := c.Prune(thing(`"pod": ` + pod)); p.Object != nil || len(p.Failures) != 1 {
					t.Errorf("pruned to %v, %q", p.Object, lines(p.Failures))
				}
			})
		}
	}
}
