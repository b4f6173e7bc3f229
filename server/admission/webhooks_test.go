package admission_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/schema"
)

// TestWebhooks calls webhooks for custom resources and for Kubernetes' own kinds.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		t.Run("V-17 "+sem.String(), func(t *testing.T) {
			e := newEnv(t, sem)
			mutating := newHook(t, patching(`[{"op": "add", "path": "/spec/size", "value": 7}]`))
			e.configure("Mutating", "m", mutating, "")
			validating := newHook(t, func(_ http.ResponseWriter, _ *http.Request, review *admissionv1.AdmissionReview) *admissionv1.AdmissionResponse {
				obj := map[string]any{}
				_ = json.Unmarshal(review.Request.Object.Raw, &obj)
				if at(obj, "spec.color") == "red" {
					return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: "not red", Code: http.StatusTeapot}}
				}
				return &admissionv1.AdmissionResponse{Allowed: true, Warnings: []string{"be careful"}}
			})
			e.configure("Validating", "v", validating, "")

			a := e.must("POST", e.widgets("v1"), widget("v1", "a", "{}"))
			if a.at("spec.size") != 7.0 || a.at("spec.color") != "blue" || !slices.Equal(a.warnings, []string{"be careful"}) {
				t.Error(a)
			}
			// The validating webhook sees what the mutating one has made of the object.
			if got := object(t, validating.requests()[0]); at(got, "spec.size") != 7.0 || at(got, "metadata.name") != "a" {
				t.Error(got)
			}
			if a := e.do("POST", e.widgets("v1"), widget("v1", "b", "{color: red}")); a.code != http.StatusTeapot ||
				a.message() != `admission webhook "hook-0.v.example.com" denied the request: not red` {
				t.Error(a)
			}
			if a := e.do("GET", e.widgets("v1")+"/b", ""); a.code != http.StatusNotFound {
				t.Error("a rejected object is stored:", a)
			}
			if a := e.do("PATCH", e.widgets("v1")+"/a", `{spec: {color: red}}`); a.code != http.StatusTeapot {
				t.Error(a)
			}
			if a := e.must("PATCH", e.widgets("v2")+"/a", `{spec: {size: 1}}`); a.at("spec.size") != 7.0 {
				t.Error(a)
			}
			last := validating.requests()[len(validating.requests())-1]
			if last.Kind.Version != "v2" || last.Operation != admissionv1.Update || last.OldObject.Raw == nil || last.RequestKind.Version != "v2" {
				t.Errorf("%+v", last)
			}
		})
	}
}

// object returns the object that a webhook got.
func object(t *testing.T, r *admissionv1.AdmissionRequest) map[string]any {
	t.Helper()
	obj := map[string]any{}
	if err := json.Unmarshal(r.Object.Raw, &obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

// TestWebhookApplies checks that a configuration applies to the next request of its writer.
func TestWebhookApplies(t *testing.T) {
	t.Parallel()
	e := newEnv(t, schema.KEP)
	deny := newHook(t, func(http.ResponseWriter, *http.Request, *admissionv1.AdmissionReview) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{}
	})
	path := "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/"
	for i := range 3 {
		name := fmt.Sprintf("c%d", i)
		e.configure("Validating", name, deny, "")
		if a := e.do("POST", e.widgets("v1"), widget("v1", name, "{}")); a.code != http.StatusBadRequest || !strings.Contains(a.message(), "denied the request without explanation") {
			t.Fatal(i, a)
		}
		e.must("PATCH", path+e.namespace+"-"+name, fmt.Sprintf(`{webhooks: [{name: hook-0.%s.example.com, admissionReviewVersions: [v1], sideEffects: None, `+
			`clientConfig: {url: "%s"}, rules: [{apiGroups: [other.example.com], apiVersions: ["*"], resources: ["*"], operations: ["*"]}]}]}`, name, deny.URL))
		e.must("POST", e.widgets("v1"), widget("v1", name+"-after", "{}"))
		e.must("DELETE", path+e.namespace+"-"+name, "")
		e.must("POST", e.widgets("v1"), widget("v1", name, "{}"))
	}
}

// TestMutations checks what becomes of the changes of mutating webhooks.
func TestMutations(t *testing.T) {
	t.Parallel()
	const unknown = `[{"op": "add", "path": "/spec/unknown", "value": {"deep": 1}}, {"op": "add", "path": "/spec/nested", "value": {"b": 1, "a": null}},
		{"op": "add", "path": "/metadata/surprise", "value": 1}, {"op": "remove", "path": "/spec/color"}]`
	t.Run("P-15-mutation", func(t *testing.T) {
		e := newEnv(t, schema.KEP)
		first, second := newHook(t, patching(unknown)), newHook(t, allow)
		e.configure("Mutating", "a", first, `, reinvocationPolicy: IfNeeded`)
		e.configure("Mutating", "b", second, "")
		e.configure("Validating", "c", second, "")
		a := e.must("POST", e.widgets("v1"), widget("v1", "a", "{size: 1}"))
		clean := func(obj map[string]any) {
			t.Helper()
			if at(obj, "spec.unknown") != nil || at(obj, "spec.nested.b") != nil || at(obj, "spec.nested.a") != "x" || at(obj, "metadata.surprise") != nil || at(obj, "spec.color") != "blue" {
				t.Error(obj)
			}
		}
		clean(a.object)
		// The next webhook, and the validating one, see a normal object.
		if n := len(second.requests()); n != 2 {
			t.Fatal(n, "calls")
		}
		for _, r := range second.requests() {
			clean(object(t, r))
		}
		clean(e.must("GET", e.widgets("v1")+"/a", "").object)
		clean(e.must("PATCH", e.widgets("v2")+"/a", `{spec: {size: 2}}`).object)
	})
	t.Run("kubernetes", func(t *testing.T) {
		e := newEnv(t, schema.Kubernetes)
		first, second := newHook(t, patching(unknown)), newHook(t, allow)
		e.configure("Mutating", "a", first, "")
		e.configure("Mutating", "b", second, "")
		a := e.must("POST", e.widgets("v1"), widget("v1", "a", "{size: 1}"))
		// Only defaults are filled in before the next webhook; reads hide the rest.
		obj := object(t, second.requests()[0])
		if at(obj, "spec.unknown") == nil || at(obj, "spec.color") != "blue" {
			t.Error(obj)
		}
		if a.at("spec.unknown") != nil {
			t.Error(a)
		}
	})
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		t.Run("P-13-before-admission "+sem.String(), func(t *testing.T) { testMalformed(t, newEnv(t, sem), sem) })
		t.Run("P-13-mutation in another version "+sem.String(), func(t *testing.T) { testMalformedStorage(t, newEnv(t, sem), sem) })
	}
	t.Run("P-13-mutation kep", func(t *testing.T) {
		e := newEnv(t, schema.KEP)
		first, second := newHook(t, patching(`[{"op": "add", "path": "/spec/size", "value": "large"}]`)), newHook(t, allow)
		e.configure("Mutating", "a", first, "")
		e.configure("Mutating", "b", second, `, failurePolicy: Ignore`)
		for _, version := range []string{"v1", "v2"} {
			a := e.do("POST", e.widgets(version), widget(version, "a", "{}"))
			if a.code != http.StatusBadRequest || !strings.Contains(a.message(), `spec.size in body must be of type integer: "string"`) {
				t.Error(a)
			}
		}
		if n := len(second.requests()); n != 0 {
			t.Errorf("the next webhook was called %d times with a malformed object", n)
		}
	})
	t.Run("P-13-mutation kubernetes", func(t *testing.T) {
		e := newEnv(t, schema.Kubernetes)
		e.configure("Mutating", "a", newHook(t, patching(`[{"op": "add", "path": "/spec/size", "value": "large"}]`)), "")
		a := e.do("POST", e.widgets("v1"), widget("v1", "a", "{}"))
		if a.code != http.StatusUnprocessableEntity || !strings.Contains(a.message(), `spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"`) {
			t.Error(a)
		}
	})
	t.Run("P-13-mutation unchanged", func(t *testing.T) {
		// A value that contradicts a newer schema and is already stored passes.
		e := newEnv(t, schema.KEP)
		crd := `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: changings.%[1]s.example.com}, spec: {group: %[1]s.example.com, scope: Namespaced,
			names: {plural: changings, kind: Changing}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {
			spec: {type: object, properties: {a: {type: %s}, b: {type: string}}}}}}}]}}`
		servers[schema.KEP].InstallCRDs(t, fmt.Appendf(nil, crd, e.namespace, "string"))
		path := "/apis/" + e.namespace + ".example.com/v1/namespaces/" + e.namespace + "/changings"
		e.must("POST", path, fmt.Sprintf(`{apiVersion: %s.example.com/v1, kind: Changing, metadata: {name: a}, spec: {a: text}}`, e.namespace))
		servers[schema.KEP].InstallCRDs(t, fmt.Appendf(nil, crd, e.namespace, "integer"))
		e.configure("Mutating", "a", newHook(t, patching(`[{"op": "add", "path": "/spec/b", "value": "hook"}]`)),
			fmt.Sprintf(`, rules: [{apiGroups: [%s.example.com], apiVersions: ["*"], resources: ["*"], operations: ["*"]}]`, e.namespace))
		e.eventually("the new schema is used", func() bool {
			return e.do("POST", path, fmt.Sprintf(`{apiVersion: %s.example.com/v1, kind: Changing, metadata: {name: b}, spec: {a: text}}`, e.namespace)).code == http.StatusBadRequest
		})
		if a := e.must("PATCH", path+"/a", `{metadata: {labels: {a: b}}}`); a.at("spec.b") != "hook" || a.at("spec.a") != "text" {
			t.Error(a)
		}
	})
}

// testMalformedStorage changes objects in a version in which they are valid. They are not in the
// storage version.
func testMalformedStorage(t *testing.T, e *env, sem schema.Semantics) {
	servers[sem].InstallCRDs(t, fmt.Appendf(nil, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: mixeds.%[1]s.example.com}, spec: {group: %[1]s.example.com, scope: Namespaced,
		names: {plural: mixeds, kind: Mixed}, versions: [
			{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {a: {type: integer}}}}}}},
			{name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {a: {type: string}}}}}}}]}}`, e.namespace))
	path := "/apis/" + e.namespace + ".example.com/v2/namespaces/" + e.namespace + "/mixeds"
	mixed := func(name string) string {
		return fmt.Sprintf(`{apiVersion: %s.example.com/v2, kind: Mixed, metadata: {name: %s}, spec: {}}`, e.namespace, name)
	}
	e.must("POST", path, mixed("a"))
	e.configure("Mutating", "a", newHook(t, patching(`[{"op": "add", "path": "/spec/a", "value": "text"}]`)),
		fmt.Sprintf(`, rules: [{apiGroups: [%s.example.com], apiVersions: ["*"], resources: ["*"], operations: ["*"]}]`, e.namespace))
	for _, r := range []struct{ method, path, body string }{
		{"POST", "", mixed("b")},
		{"PUT", "/a", mixed("a")},
		{"PATCH", "/a", "{metadata: {labels: {c: d}}}"},
		{"APPLY", "/a", mixed("a")},
	} {
		a := e.do(r.method, path+r.path, r.body)
		if sem.RefusesContradictions() {
			if a.code != http.StatusBadRequest || !strings.Contains(a.message(), `spec.a in body must be of type integer: "string"`) {
				t.Errorf("%s: %v", r.method, a)
			}
		} else if a.code >= 300 {
			t.Errorf("%s: %v", r.method, a)
		}
	}
}

// testMalformed sends values that contradict the schema. No webhook gets them in kep semantics.
func testMalformed(t *testing.T, e *env, sem schema.Semantics) {
	h := newHook(t, allow)
	e.must("POST", e.widgets("v1"), widget("v1", "a", "{size: 1}"))
	e.configure("Mutating", "a", h, "")
	e.configure("Validating", "b", h, "")
	seen := newHook(t, allow)
	e.configure("Mutating", "c", seen, `, rules: [{apiGroups: [tests.example.com], apiVersions: ["*"], resources: [widgets/status, widgets/scale], operations: [UPDATE]}]`)
	for _, version := range []string{"v1", "v2"} {
		for _, r := range []struct{ method, path, body string }{
			{"POST", "", widget(version, "b", "{size: large}")},
			{"PUT", "/a", widget(version, "a", "{size: large}")},
			{"PATCH", "/a", "{spec: {size: large}}"},
			{"APPLY", "/a", widget(version, "a", "{size: large}")},
			{"APPLY", "/b", widget(version, "b", "{size: large}")},
			{"PATCH", "/a/status", "{status: {replicas: many}}"},
		} {
			h.reset()
			seen.reset()
			a := e.do(r.method, e.widgets(version)+r.path, r.body)
			calls := len(h.requests()) + len(seen.requests())
			if sem.RefusesContradictions() {
				// What applies an object has its own words for it.
				what := `in body must be of type integer: "string"`
				if r.method == "APPLY" {
					what = ".spec.size: expected numeric"
				}
				if a.code != http.StatusBadRequest || !strings.Contains(a.message(), what) || calls != 0 {
					t.Errorf("%s %s%s: %d calls, %v", r.method, version, r.path, calls, a)
				}
			} else if r.method != "APPLY" && (a.code != http.StatusUnprocessableEntity || calls == 0) {
				t.Errorf("%s %s%s: %d calls, %v", r.method, version, r.path, calls, a)
			}
		}
	}
	if a := e.must("GET", e.widgets("v1")+"/a", ""); a.at("spec.size") != 1.0 || a.at("status") != nil {
		t.Error(a)
	}
}

// TestMatching checks which requests webhooks get.
func TestMatching(t *testing.T) {
	t.Parallel()
	e := newEnv(t, schema.KEP)
	calls := func(h *hook, f func() answer, want int) {
		t.Helper()
		h.reset()
		a := f()
		// An update is admitted again if another version of the object is stored than in memory.
		if got := len(h.requests()); got != want && !(want > 0 && got > want && h.requests()[0].Operation == admissionv1.Update) {
			t.Errorf("got %d calls, want %d; %v", got, want, a)
		}
	}
	create := func(version, name, spec string) func() answer {
		return func() answer { return e.must("POST", e.widgets(version), widget(version, name, spec)) }
	}
	n := 0
	configured := func(kind, more string) *hook {
		n++
		h := newHook(t, allow)
		e.configure(kind, fmt.Sprintf("match-%d", n), h, more)
		return h
	}

	conditions := configured("Validating", `, matchConditions: [{name: large, expression: "has(object.spec) && has(object.spec.size) && object.spec.size > 5"}, {name: admin, expression: "'system:masters' in request.userInfo.groups"},
		{name: allowed, expression: "authorizer.group('tests.example.com').resource('widgets').check('create').allowed()"}]`)
	calls(conditions, create("v1", "small", "{size: 1}"), 0)
	calls(conditions, create("v1", "large", "{size: 6}"), 1)
	failing := configured("Validating", `, objectSelector: {matchLabels: {failing: "yes"}}, matchConditions: [{name: broken, expression: "object.spec.missing > 5"}]`)
	if a := e.do("POST", e.widgets("v1"), `{apiVersion: tests.example.com/v1, kind: Widget, metadata: {name: f, labels: {failing: "yes"}}}`); a.code != http.StatusForbidden || len(failing.requests()) != 0 {
		t.Error(a)
	}

	exact := configured("Validating", `, matchPolicy: Exact, rules: [{apiGroups: [tests.example.com], apiVersions: [v2], resources: [widgets], operations: [CREATE]}]`)
	equivalent := configured("Validating", `, matchPolicy: Equivalent, rules: [{apiGroups: [tests.example.com], apiVersions: [v2], resources: [widgets], operations: [CREATE]}]`)
	calls(exact, create("v1", "exact", "{}"), 0)
	calls(equivalent, create("v1", "equivalent", "{size: 1}"), 1)
	if r := equivalent.requests()[0]; r.Kind.Version != "v2" || r.RequestKind.Version != "v1" || r.Resource.Version != "v2" || at(object(t, r), "apiVersion") != "tests.example.com/v2" || at(object(t, r), "spec.size") != 1.0 {
		t.Errorf("%+v", r)
	}

	labelled := configured("Validating", `, objectSelector: {matchLabels: {a: b}}`)
	calls(labelled, create("v1", "unlabelled", "{}"), 0)
	calls(labelled, func() answer {
		return e.must("POST", e.widgets("v1"), `{apiVersion: tests.example.com/v1, kind: Widget, metadata: {name: labelled, labels: {a: b}}}`)
	}, 1)

	elsewhere := configured("Validating", `, namespaceSelector: {matchLabels: {test: elsewhere}}, rules: [{apiGroups: [tests.example.com], apiVersions: ["*"], resources: [widgets, globals], operations: [CREATE]}]`)
	calls(elsewhere, create("v1", "elsewhere", "{}"), 0)
	// An object without a namespace is never exempt.
	global := fmt.Sprintf(`{apiVersion: tests.example.com/v1, kind: Global, metadata: {name: %s}}`, e.namespace)
	calls(elsewhere, func() answer { return e.must("POST", "/apis/tests.example.com/v1/globals", global) }, 1)
	e.must("PATCH", "/api/v1/namespaces/"+e.namespace, `{metadata: {labels: {test2: x}}}`)

	scoped := configured("Validating", `, rules: [{apiGroups: [tests.example.com], apiVersions: ["*"], resources: ["*"], operations: [CREATE], scope: Cluster}]`)
	calls(scoped, create("v1", "scoped", "{}"), 0)

	status := configured("Validating", `, rules: [{apiGroups: [tests.example.com], apiVersions: ["*"], resources: [widgets/status], operations: [UPDATE]}]`)
	calls(status, func() answer { return e.must("PATCH", e.widgets("v1")+"/small", `{spec: {size: 2}}`) }, 0)
	calls(status, func() answer { return e.must("PATCH", e.widgets("v1")+"/small/status", `{status: {phase: x}}`) }, 1)

	deleted := configured("Validating", `, rules: [{apiGroups: [tests.example.com], apiVersions: ["*"], resources: [widgets], operations: [DELETE]}]`)
	calls(deleted, func() answer { return e.must("DELETE", e.widgets("v1")+"/exact", "") }, 1)
	if r := deleted.requests()[0]; r.Operation != admissionv1.Delete || r.Object.Raw != nil || !strings.Contains(string(r.OldObject.Raw), `"exact"`) {
		t.Errorf("%+v", r)
	}
	calls(deleted, func() answer { return e.must("DELETE", e.widgets("v2")+"?labelSelector=a%3Db", "") }, 1)
}

// TestScale changes a Scale with a webhook.
func TestScale(t *testing.T) {
	t.Parallel()
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		e := newEnv(t, sem)
		h := newHook(t, patching(`[{"op": "replace", "path": "/spec/replicas", "value": 5}]`))
		e.configure("Mutating", "scale", h, `, rules: [{apiGroups: [tests.example.com, apps], apiVersions: ["*"], resources: [widgets/scale, deployments/scale], operations: [UPDATE]}]`)
		e.must("POST", e.widgets("v1"), widget("v1", "a", "{replicas: 1}"))
		a := e.must("PATCH", e.widgets("v1")+"/a/scale", `{spec: {replicas: 2}}`)
		if a.at("spec.replicas") != 5.0 || a.at("kind") != "Scale" {
			t.Error(a)
		}
		if r := h.requests()[0]; r.Kind.Kind != "Scale" || r.SubResource != "scale" || at(object(t, r), "spec.replicas") != 2.0 {
			t.Errorf("%+v", r)
		}
		if a := e.must("GET", e.widgets("v1")+"/a", ""); a.at("spec.replicas") != 5.0 {
			t.Error(a)
		}
		deployments := "/apis/apps/v1/namespaces/" + e.namespace + "/deployments"
		e.must("POST", deployments, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}`)
		if a := e.must("PATCH", deployments+"/d/scale", `{spec: {replicas: 2}}`); a.at("spec.replicas") != 5.0 {
			t.Error(a)
		}
	}
}

// TestBuiltinKinds calls webhooks for Kubernetes' own kinds, and for CRDs.
func TestBuiltinKinds(t *testing.T) {
	t.Parallel()
	e := newEnv(t, schema.KEP)
	core := newHook(t, patching(`[{"op": "add", "path": "/data", "value": {"a": "b"}}, {"op": "add", "path": "/unknown", "value": 1}]`))
	e.configure("Mutating", "core", core, `, rules: [{apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE, UPDATE]}]`)
	seen := newHook(t, allow)
	e.configure("Validating", "core", seen, `, rules: [{apiGroups: ["", apps, autoscaling, events.k8s.io], apiVersions: [v1], resources: ["*"], operations: ["*"]}]`)
	maps := "/api/v1/namespaces/" + e.namespace + "/configmaps"
	if a := e.must("POST", maps, `{apiVersion: v1, kind: ConfigMap, metadata: {name: m}}`); a.at("data.a") != "b" {
		t.Error(a)
	}
	if r := seen.requests()[0]; r.Kind.Kind != "ConfigMap" || at(object(t, r), "data.a") != "b" || at(object(t, r), "kind") != "ConfigMap" || at(object(t, r), "unknown") != nil {
		t.Errorf("%+v", r)
	}
	if a := e.must("PATCH", maps+"/m", `{data: null}`); a.at("data.a") != "b" {
		t.Error(a)
	}
	seen.reset()
	e.must("DELETE", maps+"/m", "")
	if r := seen.requests()[0]; r.Operation != admissionv1.Delete || !strings.Contains(string(r.OldObject.Raw), `"kind":"ConfigMap"`) {
		t.Errorf("%+v", r)
	}

	// A pod template gets its defaults before and after the webhook.
	template := newHook(t, patching(`[{"op": "add", "path": "/spec/template/spec/containers/-", "value": {"name": "sidecar", "image": "s"}}]`))
	e.configure("Mutating", "apps", template, `, rules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE]}]`)
	a := e.must("POST", "/apis/apps/v1/namespaces/"+e.namespace+"/deployments", `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}}`)
	containers, _ := a.at("spec.template.spec.containers").([]any)
	if len(containers) != 2 || at(containers[1], "imagePullPolicy") != "Always" {
		t.Error(a)
	}
	if at(object(t, template.requests()[0]), "spec.template.spec.restartPolicy") != "Always" {
		t.Error("the webhook got an object without defaults")
	}

	// Resources that are stored in the same place are equivalent.
	same := newHook(t, patching(`[{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}]`))
	e.configure("Mutating", "events", same, `, rules: [{apiGroups: [events.k8s.io], apiVersions: [v1], resources: [events], operations: [CREATE]}, {apiGroups: [autoscaling], apiVersions: [v1], resources: [horizontalpodautoscalers], operations: [CREATE]}]`)
	a = e.must("POST", "/api/v1/namespaces/"+e.namespace+"/events", fmt.Sprintf(`{apiVersion: v1, kind: Event, metadata: {name: e}, involvedObject: {kind: Pod, name: p, namespace: %s}, message: hello}`, e.namespace))
	if r := same.requests()[0]; a.at("metadata.labels.seen") != "yes" || a.at("message") != "hello" || r.Kind.Group != "events.k8s.io" || r.RequestKind.Group != "" || at(object(t, r), "note") != "hello" {
		t.Errorf("%v %+v", a, r)
	}
	a = e.must("POST", "/apis/autoscaling/v2/namespaces/"+e.namespace+"/horizontalpodautoscalers", `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: h}, spec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: d, apiVersion: apps/v1},
		metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]}}`)
	if r := same.requests()[1]; a.at("metadata.labels.seen") != "yes" || a.at("kind") != "HorizontalPodAutoscaler" || r.Kind.Version != "v1" || at(object(t, r), "spec.targetCPUUtilizationPercentage") != 50.0 {
		t.Errorf("%v %+v", a, r)
	}

	// CRDs have no namespace, so the object selector chooses them.
	crds := newHook(t, patching(`[{"op": "add", "path": "/metadata/annotations", "value": {"seen": "yes"}}]`))
	e.configure("Mutating", "crds", crds, fmt.Sprintf(`, objectSelector: {matchLabels: {test: %s}}, rules: [{apiGroups: [apiextensions.k8s.io], apiVersions: [v1], resources: [customresourcedefinitions], operations: [CREATE]}]`, e.namespace))
	a = e.must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition,
		metadata: {name: things.%[1]s.example.com, labels: {test: %[1]s}}, spec: {group: %[1]s.example.com, scope: Namespaced, names: {plural: things, kind: Thing},
		versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`, e.namespace))
	if a.at("metadata.annotations.seen") != "yes" || a.at("spec.names.kind") != "Thing" {
		t.Error(a)
	}
	if r := crds.requests()[0]; at(object(t, r), "kind") != "CustomResourceDefinition" {
		t.Errorf("%+v", r)
	}
}

// TestReinvocation checks that a webhook sees the changes of later ones.
func TestReinvocation(t *testing.T) {
	t.Parallel()
	t.Run("V-17-reinvocation", func(t *testing.T) {
		e := newEnv(t, schema.KEP)
		var round atomic.Int32
		first := newHook(t, func(_ http.ResponseWriter, _ *http.Request, review *admissionv1.AdmissionReview) *admissionv1.AdmissionResponse {
			round.Add(1)
			return &admissionv1.AdmissionResponse{Allowed: true}
		})
		e.configure("Mutating", "a", first, `, reinvocationPolicy: IfNeeded`, `, reinvocationPolicy: Never`)
		e.configure("Mutating", "b", newHook(t, patching(`[{"op": "add", "path": "/spec/size", "value": 3}, {"op": "add", "path": "/spec/junk", "value": 3}]`)), "")
		e.must("POST", e.widgets("v1"), widget("v1", "a", "{}"))
		got := first.requests()
		if len(got) != 3 || at(object(t, got[0]), "spec.size") != nil || at(object(t, got[2]), "spec.size") != 3.0 || at(object(t, got[2]), "spec.junk") != nil {
			t.Errorf("%d calls: %+v", len(got), got)
		}
	})
}

// TestDryRun checks that a dry run calls only webhooks without side effects.
func TestDryRun(t *testing.T) {
	t.Parallel()
	e := newEnv(t, schema.KEP)
	h := newHook(t, allow)
	e.configure("Validating", "v", h, `, sideEffects: NoneOnDryRun`)
	e.must("POST", e.widgets("v1")+"?dryRun=All", widget("v1", "a", "{}"))
	if r := h.requests()[0]; r.DryRun == nil || !*r.DryRun {
		t.Errorf("%+v", r)
	}
	if a := e.do("GET", e.widgets("v1")+"/a", ""); a.code != http.StatusNotFound {
		t.Error(a)
	}
}

// TestAuditAnnotations checks that annotations of webhooks are in the audit log. It is not parallel, because
// annotations have the index of a webhook among those of all tests.
func TestAuditAnnotations(t *testing.T) {
	e := newEnv(t, schema.KEP)
	e.configure("Mutating", "m", newHook(t, patching(`[{"op": "add", "path": "/spec/size", "value": 3}]`)), "")
	e.configure("Validating", "v", newHook(t, func(http.ResponseWriter, *http.Request, *admissionv1.AdmissionReview) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Allowed: true, AuditAnnotations: map[string]string{"reason": "why not"}}
	}), "")
	e.must("POST", e.widgets("v1"), widget("v1", "audited", "{}"))
	e.eventually("the event is in the audit log", func() bool {
		text, err := os.ReadFile(auditLog)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, e.namespace) && strings.Contains(line, `"hook-0.v.example.com/reason":"why not"`) &&
				strings.Contains(line, `mutation.webhook.admission.k8s.io/round_0_index_0`) && strings.Contains(line, `patch.webhook.admission.k8s.io/round_0_index_0`) {
				return true
			}
		}
		return false
	})
}

// TestCostlyConditions evaluates match conditions of webhooks and policies whose functions would
// take very long.
func TestCostlyConditions(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes minutes with the race detector")
	}
	e := newEnv(t, schema.KEP)
	h := newHook(t, allow)
	const pattern = "too long for a regular expression"
	for _, kind := range []string{"Mutating", "Validating"} {
		for _, of := range []string{"webhook", "policy"} {
			name := strings.ToLower(kind + "-" + of)
			// The condition is false for the objects of the other cases.
			conditions := fmt.Sprintf(`matchConditions: [{name: costly, expression: "object.metadata.name == '%s' && object.spec.color.matches('^(.*a){1000}$')"}], failurePolicy: Fail`, name)
			switch {
			case of == "webhook":
				e.configure(kind, name, h, ", "+conditions)
			case kind == "Mutating":
				e.policy(kind, name, conditions+`, mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{spec: Object.spec{size: 1}}"}}]`, "")
			default:
				e.policy(kind, name, conditions+`, validations: [{expression: "true"}]`, "")
			}
			a := e.do("POST", e.widgets("v1"), widget("v1", name, `{color: "`+strings.Repeat("a", 900_000)+`"}`))
			if a.code < http.StatusBadRequest || !strings.Contains(a.message(), pattern) {
				t.Errorf("%s: %d %.300s", name, a.code, a.message())
			}
		}
	}
}
