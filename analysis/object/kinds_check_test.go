package object_test

import (
	"strings"
	"testing"

	"espalier.dev/analysis/object"
	"espalier.dev/kinds/cel"
)

// TestKinds checks the findings about objects of built-in kinds, for each field validation.
func TestKinds(t *testing.T) {
	c := object.ForKinds(cel.New())
	for _, tt := range []struct {
		name, source string
		warn, ignore []string
		prune        []string
	}{
		{
			name:   "unknown kind",
			source: `{"apiVersion":"v1","kind":"Nothing"}`,
			warn:   []string{`error decode : there is no built-in kind /v1, Kind=Nothing`},
			ignore: []string{`error decode : there is no built-in kind /v1, Kind=Nothing`},
			prune:  []string{`error decode : there is no built-in kind /v1, Kind=Nothing`},
		},
		{
			name:   "wrong type",
			source: `{"apiVersion":"v1","kind":"Pod","spec":{"containers":{},"x":1}}`,
			warn: []string{
				`error decode /spec/containers: must be a list, is an object`,
				`warning unknown-field /spec/x: unknown field "spec.x": the API server drops it`,
			},
			ignore: []string{`error decode /spec/containers: must be a list, is an object`},
			prune:  []string{`error decode /spec/containers: must be a list, is an object`},
		},
		{
			name:   "unknown and duplicate fields",
			source: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"b","a":"c"},"dta":{},"binaryData":null}`,
			warn: []string{
				`warning duplicate-field /data/a: duplicate field "data.a": the last one takes effect`,
				`warning unknown-field /dta: unknown field "dta": the API server drops it; did you mean "data"?`,
			},
			prune: []string{
				`info null-dropped /binaryData: removed: null is the same as no value`,
				`warning duplicate-field /data/a: duplicate field: the last one takes effect`,
				`warning unknown-field /dta: pruned: a ConfigMap has no such field; did you mean "data"?`,
			},
		},
		{
			name:   "invalid values",
			source: `{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{"type":"x","ports":[{"name":"a","port":1},{"name":"a","port":2,"protocol":null}],"sessionAffinity":"None","internalTrafficPolicy":"Cluster"}}`,
			warn: []string{
				`error validation/duplicate-item /spec/ports/1/name: Duplicate value: "a"`,
				`error validation/enum /spec/type: Unsupported value: "x": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"`,
			},
			ignore: []string{
				`error validation/duplicate-item /spec/ports/1/name: Duplicate value: "a"`,
				`error validation/enum /spec/type: Unsupported value: "x": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"`,
			},
			prune: []string{
				`info defaulted /spec/ports/0/protocol: defaulted to "TCP"`,
				`info defaulted /spec/ports/0/targetPort: defaulted to 1`,
				`info defaulted /spec/ports/1/protocol: defaulted to "TCP"`,
				`info defaulted /spec/ports/1/targetPort: defaulted to 2`,
			},
		},
		{
			name:   "other form",
			source: `{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"a"},"spec":{"hard":{"cpu":"0.5","pods":"1"}}}`,
			prune:  []string{`info normalized /spec/hard/cpu: stored as "500m"`},
		},
		{
			name:   "only decoded",
			source: `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"x":1}}`,
			warn:   []string{`warning unknown-field /spec/x: unknown field "spec.x": the API server drops it`},
			prune:  []string{`warning unknown-field /spec/x: pruned: a SubjectAccessReview has no such field`},
		},
		{
			name:   "no JSON",
			source: `{"apiVersion":"v1"`,
			warn:   []string{`error decode : invalid JSON at byte 18: unexpected end of input after a member of an object`},
			ignore: []string{`error decode : invalid JSON at byte 18: unexpected end of input after a member of an object`},
			prune:  []string{`error decode : invalid JSON at byte 18: unexpected end of input after a member of an object`},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			expect(t, c.Check(t.Context(), []byte(tt.source), nil, object.Warn), tt.warn...)
			expect(t, c.Check(t.Context(), []byte(tt.source), nil, object.Ignore), tt.ignore...)
			p := c.Prune([]byte(tt.source))
			expect(t, append(p.Failures, p.Reasons()...), tt.prune...)
			if (p.Object == nil) != (len(p.Failures) > 0) {
				t.Errorf("pruned to %v", p.Object)
			}
		})
	}
}

// TestKindsOld checks updates of built-in kinds: values that cannot change, errors that several rules
// find, and an old object that cannot be read.
func TestKindsOld(t *testing.T) {
	c := object.ForKinds(cel.New())
	const config = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"b"},"immutable":true,"data":{"a":"DATA"}}`
	for old, want := range map[string][]string{
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"b"},"immutable":true,"data":{"a":"1"}}`: nil,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"b"},"immutable":true,"data":{"a":"2"}}`: {
			"error validation/forbidden /data: Forbidden: field is immutable when `immutable` is set",
		},
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":1}}`: {
			`error decode : cannot decode the old object: json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string`,
		},
	} {
		source := []byte(strings.Replace(config, "DATA", "1", 1))
		expect(t, c.Check(t.Context(), source, []byte(old), object.Warn), want...)
	}
}
