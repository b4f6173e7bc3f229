package why_test

import (
	"fmt"
	"strings"
	"testing"

	"espalier.dev/analysis"
	"espalier.dev/analysis/object"
	"espalier.dev/analysis/why"
	"espalier.dev/kinds"
	"espalier.dev/kinds/schemas"
	"espalier.dev/schema"
)

// TestReasons checks the reasons that users see, and the positions of the schemas.
func TestReasons(t *testing.T) {
	t.Parallel()
	d := definition(t, schema.Kubernetes, "", version("v1", true, `"n":{"type":"integer"},"d":{"type":"string","default":"x"},"s":{"type":"string"},`+
		`"o":{"type":"object","default":{"a":1},"properties":{"a":{"type":"integer"}}},"l":{"type":"array","items":{"type":"object","properties":{"x":{"type":"integer"}}}},`+
		`"q":{"type":"object","properties":{"d":{"type":"string","default":"x"}}},"p":{"type":"object","x-kubernetes-preserve-unknown-fields":true}`))
	const stored = `{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a","labels":7,"nam":"b"},"spec":{"n":1,"n":2,"d":null,"s":null,"l":[{"x":1},{"y":2}],"p":{"q":1},"ns":1}}`
	for path, want := range map[string]string{
		"spec.n":          `the schema specifies it; the text has this field more than once, and the last one is used (/properties/spec/properties/n)`,
		"spec.d":          `null is not allowed here: filled in with the default of the schema (/properties/spec/properties/d)`,
		"spec.s":          `the schema of version v1 does not allow null for this field (/properties/spec/properties/s)`,
		"spec.o":          `not set: filled in with the default of the schema (/properties/spec/properties/o)`,
		"spec.o.a":        `not set: filled in with the default of the schema (/properties/spec/properties/o) at spec.o`,
		"spec.l[0].x":     `the schema specifies it (/properties/spec/properties/l/items/properties/x)`,
		"spec.l[1].y":     `the schema of version v1 does not specify this field (/properties/spec/properties/l/items)`,
		"spec.l[1].x":     `not set, and the schema has no default (/properties/spec/properties/l/items/properties/x)`,
		"spec.l[7].x":     `not set, and the schema has no default (/properties/spec/properties/l/items/properties/x)`,
		"spec.p.q":        `not specified, but kept: the schema has x-kubernetes-preserve-unknown-fields: true (/properties/spec/properties/p)`,
		"spec.p.r":        `not set, and the schema has no default (/properties/spec/properties/p)`,
		"spec.ns":         `the schema of version v1 does not specify this field (/properties/spec)`,
		"spec.ns.a":       `the schema of version v1 does not specify spec.ns (/properties/spec) at spec.ns`,
		"spec.none":       `not set, and the schema of version v1 does not specify it (/properties/spec)`,
		"spec.none.a":     `not set, and the schema of version v1 does not specify spec.none (/properties/spec) at spec.none`,
		"spec.q.d":        `not set: the default of the schema applies only if spec.q exists (/properties/spec/properties/q/properties/d)`,
		"metadata.name":   `every object has this field, whatever the schema specifies`,
		"metadata.uid":    `not set`,
		"metadata.labels": `this part of the metadata is malformed`,
		"metadata.nam":    `metadata has no such field`,
		"status":          `not set, and the schema of version v1 does not specify it ()`,
	} {
		e, err := why.Explain(d, []byte(stored), path, why.Options{Text: object.Options{Locate: func(pointer string) analysis.Location {
			return analysis.Location{Pointer: pointer, File: "crd.yaml", Line: len(pointer), Column: 3}
		}}})
		if err != nil {
			t.Fatal(err)
		}
		v := e.Versions[0]
		got := v.Reason
		if v.Schema != nil {
			got += " (" + strings.TrimPrefix(v.Schema.Pointer, "/spec/versions/0/schema/openAPIV3Schema") + ")"
			if v.Schema.File != "crd.yaml" || v.Schema.Line != len(v.Schema.Pointer) || v.Schema.Column != 3 {
				t.Errorf("%s: at %+v", path, v.Schema)
			}
		}
		if v.At != "" {
			got += " at " + v.At
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

// TestVersionReasons checks the reasons about an object that is stored in another version.
func TestVersionReasons(t *testing.T) {
	t.Parallel()
	v1 := version("v1", false, `"a":{"type":"string"},"old":{"type":"string"},"null":{"type":"string","nullable":true}`)
	v2 := version("v2", true, `"a":{"type":"string"},"new":{"type":"string"},"null":{"type":"string"},"d":{"type":"string","default":"2"}`)
	const stored = `{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a"},"spec":{"a":"x","old":"y","new":"z","null":null}}`
	d := definition(t, schema.Kubernetes, "", v1, v2)
	for path, want := range map[string]string{
		"spec.old":  `dropped by the conversion from version v1 to version v2: the schema of version v2 does not specify this field`,
		"spec.new":  `dropped when the object is read in version v1, in which it is stored: the schema of version v1 does not specify this field`,
		"spec.null": `dropped by the conversion from version v1 to version v2: the schema of version v2 does not allow null for this field`,
		"spec.d":    `not set: the default of version v2 does not apply to objects that are stored in version v1`,
		"spec.a":    `the schema specifies it`,
	} {
		e, err := why.Explain(d, []byte(stored), path, why.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if v := e.Versions[1]; v.Reason != want || !v.Served || !v.Storage || e.Versions[0].Storage {
			t.Errorf("%s: got %q, want %q: %+v", path, v.Reason, want, v)
		}
	}
	if e, err := why.Explain(d, []byte(stored), "spec.a", why.Options{}); err != nil || e.Stored.Value != "x" || !e.Stored.Found || e.Stored.APIVersion != "example.com/v1" {
		t.Errorf("stored: %+v, %v", e.Stored, err)
	}
	for name, source := range map[string]string{"the stored value is not JSON": `{`, "the stored value is not an object": `7`} {
		if _, err := why.Explain(d, []byte(source), "spec.a", why.Options{}); err == nil || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("%s: %v", source, err)
		}
	}
}

// TestExplainKind explains fields of built-in kinds, in the version of the object and, if there
// are several, in the others.
func TestExplainKind(t *testing.T) {
	t.Parallel()
	rules, err := kinds.NewOffline(nil)
	if err != nil {
		t.Fatal(err)
	}
	const (
		service    = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{"ports":[{"port":1,"nodePort":0}],"type":null,"externalName":null,"prts":{"a":1}}}`
		autoscaler = `{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler","metadata":{"name":"a"},"spec":{"maxReplicas":3,"targetCPUUtilizationPercentage":5,"scaleTargetRef":{"kind":"a","name":"b"}}}`
	)
	for _, c := range []struct{ kind, source, path, want string }{
		{"Service", service, "spec.ports[0].port", `v1 specified: a Service has this field = 1, stored`},
		{"Service", service, "spec.ports[0].nodePort", `v1 absent: it has the value of a field that is not set, stored`},
		{"Service", service, "spec.ports[0].protocol", `v1 defaulted: not set: filled in with the default of Kubernetes = TCP, stored`},
		{"Service", service, "spec.type", `v1 defaulted: null is the same as no value: filled in with the default of Kubernetes = ClusterIP, stored`},
		{"Service", service, "spec.externalName", `v1 nullDropped: null is the same as no value, stored`},
		{"Service", service, "spec.prts", `v1 pruned: a Service has no such field, stored, nearest ports`},
		{"Service", service, "spec.prts.a", `v1 pruned: a Service has no field spec.prts, stored, at spec.prts, nearest ports`},
		{"Service", service, "spec.selector", `v1 absent: not set, and Kubernetes has no default, stored`},
		{"Service", service, "spec.selectr", `v1 pruned: not set, and version v1 of Service has no such field, stored, nearest selector`},
		{"Service", service, "spec.selectr.a", `v1 pruned: not set, and version v1 of Service has no such field, stored, at spec.selectr, nearest selector`},
		{"Service", service, "metadata.name", `v1 metadata: every object has this field = a, stored`},
		{"Service", service, "metadata.uid", `v1 absent: not set, and Kubernetes has no default, stored`},
		{"Service", `{"apiVersion":"v1","kind":"Service","spec":7}`, "spec.type", `v1 unreadable: the object cannot be read: json: cannot unmarshal number into Go struct field Service.spec of type v1.ServiceSpec, stored`},
		{"HorizontalPodAutoscaler", autoscaler, "spec.targetCPUUtilizationPercentage", `v2 pruned: the conversion from version v1 to version v2 drops it, stored; v1 specified: a HorizontalPodAutoscaler has this field = 5`},
		{"HorizontalPodAutoscaler", autoscaler, "spec.metrics", `v2 specified: the conversion from version v1 to version v2 sets it = [map[resource:map[name:cpu target:map[averageUtilization:5 type:Utilization]] type:Resource]], stored; v1 pruned: not set, and version v1 of HorizontalPodAutoscaler has no such field`},
		{"HorizontalPodAutoscaler", autoscaler, "spec.maxReplicas", `v2 specified: a HorizontalPodAutoscaler has this field = 3, stored; v1 specified: a HorizontalPodAutoscaler has this field = 3`},
	} {
		kind := schemas.Called(c.kind)[0]
		d, err := kind.Definition()
		if err != nil {
			t.Fatal(err)
		}
		e, err := why.ExplainKind(d, rules, []byte(c.source), c.path, why.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, v := range e.Versions {
			text := fmt.Sprintf("%s %s: %s", v.Name, v.Decision, v.Reason)
			if v.Found {
				text += fmt.Sprintf(" = %v", v.Value)
			}
			if v.Storage {
				text += ", stored"
			}
			if v.At != "" {
				text += ", at " + v.At
			}
			if v.Nearest != "" {
				text += ", nearest " + v.Nearest
			}
			got = append(got, text)
		}
		if got := strings.Join(got, "; "); got != c.want {
			t.Errorf("%s %s: got %s, want %s", c.kind, c.path, got, c.want)
		}
	}
}
