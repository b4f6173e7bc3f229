package object_test

import (
	"encoding/json"
	"strings"
	"testing"

	"espalier.dev/analysis"
	"espalier.dev/analysis/object"
	"espalier.dev/schema"
)

// peers has two versions with different schemas; v2 is stored.
const peers = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: peers.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: peers, singular: peer, kind: Peer, listKind: PeerList}
  versions:
  - name: v1
    served: true
    storage: false
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              localPort: {type: integer}
              peerPort: {type: integer}
              timeout: {type: integer, default: 5}
              extra: {type: integer, default: 6}
              hold: {type: integer}
              note: {type: string, nullable: true}
              mode: {type: string}
              limits: {type: object, properties: {cpu: {type: integer}}}
          status: {type: object, properties: {old: {type: string}}}
  - name: v2
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              peerPort: {type: integer}
              timeout: {type: integer, default: 7}
              hold: {type: integer, default: 9}
              note: {type: string}
              mode: {type: integer}
              limits: {type: object, default: {cpu: 1, memory: 2}, properties: {cpu: {type: integer}, memory: {type: integer}}}
              added: {type: string, default: x}
          status: {type: object, properties: {new: {type: string}}}
`

func peer(version, spec string) []byte {
	return []byte(`{"apiVersion": "example.com/` + version + `", "kind": "Peer", "metadata": {"name": "a"}, "spec": ` + spec + `}`)
}

func text(t *testing.T, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestStorageVersion sends objects through a storage version with another schema.
func TestStorageVersion(t *testing.T) {
	source := peer("v1", `{"localPort": 1790, "peerPort": 179, "note": null, "unknown": 1}`)
	for _, semantics := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		t.Run(semantics.String(), func(t *testing.T) {
			c := checker(t, peers, semantics, func(pointer string) analysis.Location {
				return analysis.Location{Pointer: pointer, File: strings.TrimPrefix(pointer, "/spec/versions/")}
			})
			read := c.Prune(source)
			const back = `{"apiVersion":"example.com/v1","kind":"Peer","metadata":{"name":"a"},"spec":{"hold":9,"limits":{"cpu":1},"peerPort":179,"timeout":5}}`
			if got := text(t, read.Object); got != back {
				t.Errorf("read back as\n%s, want\n%s", got, back)
			}
			expect(t, read.Reasons(),
				`warning storage-version /spec/extra: pruned in storage version v2: not specified by the schema`,
				`  schema: .properties[spec] 1/schema/openAPIV3Schema/properties/spec`,
				`info defaulted /spec/extra: defaulted to 6`,
				`  schema: .properties[spec].properties[extra] 0/schema/openAPIV3Schema/properties/spec/properties/extra`,
				`info defaulted /spec/hold: defaulted to 9 in storage version v2`,
				`  schema: .properties[spec].properties[hold] 1/schema/openAPIV3Schema/properties/spec/properties/hold`,
				`info defaulted /spec/limits: defaulted to {"cpu":1} in storage version v2`,
				`  schema: .properties[spec].properties[limits] 1/schema/openAPIV3Schema/properties/spec/properties/limits`,
				`warning storage-version /spec/localPort: pruned in storage version v2: not specified by the schema`,
				`  schema: .properties[spec] 1/schema/openAPIV3Schema/properties/spec`,
				`info null-dropped /spec/note: removed in storage version v2: null is not allowed`,
				`  schema: .properties[spec].properties[note] 1/schema/openAPIV3Schema/properties/spec/properties/note`,
				`info defaulted /spec/timeout: defaulted to 5`,
				`  schema: .properties[spec].properties[timeout] 0/schema/openAPIV3Schema/properties/spec/properties/timeout`,
				`warning unknown-field /spec/unknown: pruned: not specified by the schema`,
				`  schema: .properties[spec] 0/schema/openAPIV3Schema/properties/spec`,
			)
			stored := c.PruneStored(source)
			const etcd = `{"apiVersion":"example.com/v2","kind":"Peer","metadata":{"name":"a"},"spec":{"peerPort":179,"timeout":5}}`
			if got := text(t, stored.Object); got != etcd {
				t.Errorf("stored as\n%s, want\n%s", got, etcd)
			}
			if n := len(stored.Reasons()); n != 6 {
				t.Errorf("%d reasons for the stored form, want 6", n)
			}
			// An object of the storage version is not converted.
			own := peer("v2", `{"localPort": 1790, "hold": 1, "limits": {}}`)
			if got, want := text(t, c.Prune(own).Object["spec"]), `{"added":"x","hold":1,"limits":{},"timeout":7}`; got != want {
				t.Errorf("in the storage version: got %s, want %s", got, want)
			}
			if got, want := text(t, c.PruneStored(own).Object), text(t, c.Prune(own).Object); got != want {
				t.Errorf("stored as %s, read back as %s", got, want)
			}
		})
	}
}

// TestStorageLoss checks the warnings about fields that the storage version does not have.
func TestStorageLoss(t *testing.T) {
	c := checker(t, peers, schema.Kubernetes, nil)
	source := peer("v1", `{"localPort": 1790, "peerPort": 179, "note": null}`)
	want := []string{
		`warning storage-version /spec/localPort: field "spec.localPort" is not in storage version v2: the API server drops it`,
		`  schema: .properties[spec]`,
		`warning storage-version /spec/note: field "spec.note" cannot be null in storage version v2: the API server drops it`,
		`  schema: .properties[spec].properties[note]`,
	}
	expect(t, c.Check(t.Context(), source, nil, object.Warn), want...)
	// It does not become an error: the API server accepts the object, whatever its field
	// validation is.
	expect(t, c.Check(t.Context(), source, nil, object.Strict), want...)
	expect(t, c.Check(t.Context(), source, nil, object.Ignore))
	expect(t, c.Check(t.Context(), peer("v2", `{"peerPort": 1}`), nil, object.Warn))
	// The status of the old object is not part of the request.
	old := schema.Object{"apiVersion": "example.com/v1", "kind": "Peer", "metadata": map[string]any{"name": "a"}, "status": map[string]any{"old": "x"}}
	expect(t, c.Check(t.Context(), []byte(`{"apiVersion": "example.com/v1", "kind": "Peer", "metadata": {"name": "a"}, "status": {"old": "x"}}`), old, object.Warn))
}

// TestStorageOld checks that the object before an update has lost what the storage version does
// not have: it cannot excuse an invalid value.
func TestStorageOld(t *testing.T) {
	document := strings.Replace(peers, "localPort: {type: integer}", "localPort: {type: integer, maximum: 1000}", 1)
	document = strings.Replace(document, "peerPort: {type: integer}", "peerPort: {type: integer, maximum: 1000}", 1)
	source := peer("v1", `{"localPort": 1790, "peerPort": 1791}`)
	lost := []string{
		`warning storage-version /spec/localPort: field "spec.localPort" is not in storage version v2: the API server drops it`,
		`  schema: .properties[spec]`,
		`info ratcheted /spec/peerPort: Invalid value: 1791: spec.peerPort in body should be less than or equal to 1000; ` +
			`tolerated in an update that does not change the value (ratcheting)`,
		`  schema: .properties[spec].properties[peerPort]`,
	}
	invalid := `error validation/maximum /spec/localPort: Invalid value: 1790: spec.localPort in body should be less than or equal to 1000`
	where := `  schema: .properties[spec].properties[localPort]`
	for _, semantics := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		c := checker(t, document, semantics, nil)
		for _, version := range []string{"v1", "v2"} {
			old := schema.Object{"apiVersion": "example.com/" + version, "kind": "Peer", "metadata": map[string]any{"name": "a"},
				"spec": map[string]any{"localPort": int64(1790), "peerPort": int64(1791)}}
			expect(t, c.Check(t.Context(), source, old, object.Warn), append([]string{invalid, where}, lost...)...)
		}
	}
}

// TestStorageContradiction checks values that contradict the types of the storage version.
func TestStorageContradiction(t *testing.T) {
	source := peer("v1", `{"mode": "fast"}`)
	c := checker(t, peers, schema.KEP, nil)
	rejected := `error decode /spec/mode: spec.mode in body must be of type integer: "string"`
	where := `  schema: .properties[spec].properties[mode]`
	expect(t, c.Check(t.Context(), source, nil, object.Ignore), `info semantics : under kubernetes semantics it would be accepted`, rejected, where)
	if p := c.Prune(source); p.Object != nil {
		t.Errorf("pruned to %v", p.Object)
	} else {
		expect(t, p.Failures, rejected, where)
	}
	kubernetes := checker(t, peers, schema.Kubernetes, nil)
	expect(t, kubernetes.Check(t.Context(), source, nil, object.Warn))
	if got := text(t, kubernetes.Prune(source).Object["spec"]); !strings.Contains(got, `"mode":"fast"`) {
		t.Errorf("pruned to %s", got)
	}
}

// TestStorageWebhook checks that the result of a webhook is not guessed.
func TestStorageWebhook(t *testing.T) {
	document := strings.Replace(peers, "  scope: Namespaced", `  scope: Namespaced
  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: "https://example.com"}}}`, 1)
	c := checker(t, document, schema.Kubernetes, nil)
	source := peer("v1", `{"localPort": 1790}`)
	for name, p := range map[string]*object.Pruned{"read back": c.Prune(source), "stored": c.PruneStored(source)} {
		if got, want := text(t, p.Object["spec"]), `{"extra":6,"localPort":1790,"timeout":5}`; got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
		if p.Webhook == nil {
			t.Fatalf("%s: the webhook is not mentioned", name)
		}
		expect(t, []analysis.Finding{*p.Webhook},
			`info webhook-conversion /spec/conversion/strategy: a webhook converts objects of version v1 to storage version v2: it is not called, and its changes are not shown`)
	}
	if one, two := c.Prune(source), c.Prune(source); one.Webhook != two.Webhook {
		t.Error("each object has a finding of its own")
	}
	if c.Prune(peer("v2", `{}`)).Webhook != nil {
		t.Error("an object of the storage version is not converted")
	}
	expect(t, c.Check(t.Context(), source, nil, object.Warn))
}

// TestStorageSame checks that versions with the same schema differ in their apiVersion only.
func TestStorageSame(t *testing.T) {
	c := checker(t, widgets, schema.Kubernetes, nil)
	source := strings.Replace(string(widget(`{"name": "a", "other": 1}`)), "example.com/v1", "example.com/v2", 1)
	stored, read := c.PruneStored([]byte(source)), c.Prune([]byte(source))
	if stored.Object["apiVersion"] != "example.com/v1" || read.Object["apiVersion"] != "example.com/v2" || text(t, stored.Object["spec"]) != text(t, read.Object["spec"]) {
		t.Errorf("stored as %v, read back as %v", stored.Object, read.Object)
	}
}
