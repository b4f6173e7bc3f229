package admission_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/schema"
)

// TestOperations calls webhooks and policies for the operations besides CREATE and UPDATE of a
// custom resource: DELETE, and UPDATE of its subresources.
func TestOperations(t *testing.T) {
	t.Parallel()
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		t.Run("V-17-operations "+sem.String(), func(t *testing.T) {
			e := newEnv(t, sem)
			denying := func(name, resource, operation string) *hook {
				h := newHook(t, func(http.ResponseWriter, *http.Request, *admissionv1.AdmissionReview) *admissionv1.AdmissionResponse {
					return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: "no " + name, Code: http.StatusTeapot}}
				})
				e.configure("Validating", name, h, fmt.Sprintf(`, objectSelector: {matchLabels: {deny: "yes"}}, rules: [{apiGroups: [tests.example.com], apiVersions: ["*"], resources: [%s], operations: [%s]}]`, resource, operation))
				return h
			}
			deletes := denying("delete", "widgets", "DELETE")
			statuses := denying("status", "widgets/status", "UPDATE")
			phase := newHook(t, patching(`[{"op": "add", "path": "/status/phase", "value": "hook"}, {"op": "add", "path": "/spec/size", "value": 9}]`))
			e.configure("Mutating", "phase", phase, `, rules: [{apiGroups: [tests.example.com], apiVersions: ["*"], resources: [widgets/status], operations: [UPDATE]}]`)
			scales := newHook(t, func(http.ResponseWriter, *http.Request, *admissionv1.AdmissionReview) *admissionv1.AdmissionResponse {
				return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: "no scale", Code: http.StatusTeapot}}
			})
			e.configure("Validating", "scale", scales, `, rules: [{apiGroups: [tests.example.com], apiVersions: ["*"], resources: [widgets/scale], operations: [UPDATE]}]`)
			operations(e, http.StatusTeapot)

			// A webhook gets the object that would be deleted, and what a subresource changes.
			if r := deletes.requests()[0]; r.Operation != admissionv1.Delete || r.Name != "kept" || r.Object.Raw != nil || !strings.Contains(string(r.OldObject.Raw), `"kept"`) || r.Kind.Kind != "Widget" {
				t.Errorf("%+v", r)
			}
			if r := statuses.requests()[0]; r.SubResource != "status" || r.Operation != admissionv1.Update || at(object(t, r), "status.phase") != "hook" || at(object(t, r), "spec.size") != 1.0 {
				t.Errorf("%+v", r)
			}
			if r := scales.requests()[0]; r.SubResource != "scale" || r.Kind.Kind != "Scale" || at(object(t, r), "spec.replicas") != 4.0 {
				t.Errorf("%+v", r)
			}
			// It changes the status, and nothing else.
			e.must("POST", e.widgets("v1"), widget("v1", "free", "{size: 1}"))
			if a := e.must("PATCH", e.widgets("v1")+"/free/status", `{status: {phase: x, replicas: 2}}`); a.at("status.phase") != "hook" || a.at("status.replicas") != 2.0 || a.at("spec.size") != 1.0 {
				t.Error(a)
			}
			e.must("DELETE", e.widgets("v2")+"/free", "")
		})
		t.Run("V-22-operations "+sem.String(), func(t *testing.T) {
			e := newEnv(t, sem)
			deny := func(name, resource, operation, expression string) {
				e.policy("Validating", name, fmt.Sprintf(`validations: [{expression: "%s", message: no %s}], matchConstraints: {resourceRules: [{apiGroups: [tests.example.com], apiVersions: ["*"], resources: [%s], operations: [%s]}]}`, expression, name, resource, operation), "")
			}
			labelled := func(object string) string {
				return fmt.Sprintf("!has(%[1]s.metadata.labels) || !('deny' in %[1]s.metadata.labels)", object)
			}
			deny("delete", "widgets", "DELETE", labelled("oldObject")+" || object != null")
			deny("status", "widgets/status", "UPDATE", labelled("object"))
			deny("scale", "widgets/scale", "UPDATE", "request.subResource != 'scale' || object.spec.replicas == oldObject.spec.replicas")
			e.policy("Mutating", "phase", `mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/status/phase', value: 'policy'}, JSONPatch{op: 'add', path: '/spec/size', value: 9}]"}}],
				matchConstraints: {resourceRules: [{apiGroups: [tests.example.com], apiVersions: ["*"], resources: [widgets/status], operations: [UPDATE]}]}`, "")
			operations(e, http.StatusUnprocessableEntity)

			e.must("POST", e.widgets("v1"), widget("v1", "free", "{size: 1}"))
			if a := e.must("PATCH", e.widgets("v1")+"/free/status", `{status: {phase: x, replicas: 2}}`); a.at("status.phase") != "policy" || a.at("status.replicas") != 2.0 || a.at("spec.size") != 1.0 {
				t.Error(a)
			}
			e.must("DELETE", e.widgets("v2")+"/free", "")
		})
		t.Run("V-22-terminating "+sem.String(), func(t *testing.T) { terminating(newEnv(t, sem)) })
		t.Run("V-22-quota "+sem.String(), func(t *testing.T) {
			e := newEnv(t, sem)
			const count = "count/widgets.tests.example.com"
			quotas := "/api/v1/namespaces/" + e.namespace + "/resourcequotas"
			e.must("POST", quotas, fmt.Sprintf(`{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {%s: "1"}}}`, count))
			e.eventually("the quota is counted", func() bool {
				used, _ := e.must("GET", quotas+"/q", "").at("status.used").(map[string]any)
				return used[count] == "0"
			})
			e.must("POST", e.widgets("v1")+"?dryRun=All", widget("v1", "dry", "{}")) // is not counted
			e.must("POST", e.widgets("v1"), widget("v1", "a", "{}"))
			want := fmt.Sprintf(`widgets.tests.example.com "b" is forbidden: exceeded quota: q, requested: %[1]s=1, used: %[1]s=1, limited: %[1]s=1`, count)
			if a := e.do("POST", e.widgets("v1")+"?dryRun=All", widget("v1", "b", "{}")); a.code != http.StatusForbidden || a.message() != want {
				t.Error(a)
			}
			for _, version := range []string{"v1", "v2"} {
				if a := e.do("POST", e.widgets(version), widget(version, "b", "{}")); a.code != http.StatusForbidden || a.message() != want {
					t.Error(a)
				}
			}
			e.must("DELETE", e.widgets("v2")+"/a", "")
			e.eventually("there is room again", func() bool { return e.do("POST", e.widgets("v2"), widget("v2", "b", "{}")).code == http.StatusCreated })
		})
	}
}

// operations sends the requests that are denied, and expects that they have changed nothing.
func operations(e *env, code int) {
	e.Helper()
	e.must("POST", e.widgets("v1"), `{apiVersion: tests.example.com/v1, kind: Widget, metadata: {name: kept, labels: {deny: "yes"}}, spec: {size: 1, replicas: 1}}`)
	uid := e.must("GET", e.widgets("v1")+"/kept", "").at("metadata.uid")
	for _, version := range []string{"v1", "v2"} {
		path := e.widgets(version)
		for _, request := range []struct{ method, path, body, says string }{
			{"DELETE", path + "/kept", "", "no delete"},
			{"DELETE", path + "?labelSelector=deny", "", "no delete"},
			{"DELETE", path + "/kept?dryRun=All", "", "no delete"},
			{"PATCH", path + "/kept/status", `{status: {phase: x}}`, "no status"},
			{"PUT", path + "/kept/status", fmt.Sprintf(`{apiVersion: tests.example.com/%s, kind: Widget, metadata: {name: kept, labels: {deny: "yes"}}, spec: {size: 1}, status: {phase: x}}`, version), "no status"},
			{"PATCH", path + "/kept/scale", `{spec: {replicas: 4}}`, "no scale"},
		} {
			if a := e.do(request.method, request.path, request.body); a.code != code || !strings.Contains(a.message(), request.says) {
				e.Errorf("%s %s: %v", request.method, request.path, a)
			}
		}
	}
	a := e.must("GET", e.widgets("v1")+"/kept", "")
	if a.at("metadata.uid") != uid || a.at("metadata.deletionTimestamp") != nil || a.at("status") != nil || a.at("spec.replicas") != 1.0 {
		e.Error(a)
	}
}

// terminating deletes a namespace that a custom resource with a finalizer keeps: nothing new can be
// created there, and the rest can still be changed.
func terminating(e *env) {
	e.must("POST", e.widgets("v1"), `{apiVersion: tests.example.com/v1, kind: Widget, metadata: {name: held, finalizers: [tests.example.com/hold]}, spec: {size: 1}}`)
	e.must("POST", e.widgets("v1"), widget("v1", "free", "{}"))
	e.must("DELETE", "/api/v1/namespaces/"+e.namespace, "")
	for _, path := range []string{e.widgets("v1"), e.widgets("v2"), e.widgets("v1") + "?dryRun=All"} {
		version := "v1"
		if path == e.widgets("v2") {
			version = "v2"
		}
		a := e.do("POST", path, widget(version, "late", "{}"))
		want := fmt.Sprintf(`widgets.tests.example.com "late" is forbidden: unable to create new content in namespace %s because it is being terminated`, e.namespace)
		causes, _ := a.at("details.causes").([]any)
		if a.code != http.StatusForbidden || a.message() != want || len(causes) != 1 || at(causes[0], "reason") != "NamespaceTerminating" {
			e.Error(a)
		}
	}
	if a := e.do("PATCH", e.widgets("v1")+"/late", `{metadata: {labels: {a: b}}}`); a.code != http.StatusNotFound {
		e.Error(a)
	}
	e.eventually("other objects are deleted", func() bool { return e.do("GET", e.widgets("v1")+"/free", "").code == http.StatusNotFound })
	e.must("PATCH", e.widgets("v2")+"/held", `{spec: {size: 2}}`)
	e.must("PATCH", e.widgets("v1")+"/held/status", `{status: {phase: x}}`)
	e.must("PATCH", e.widgets("v1")+"/held", `{metadata: {finalizers: null}}`)
	e.eventually("the namespace is gone", func() bool {
		return e.do("GET", "/api/v1/namespaces/"+e.namespace, "").code == http.StatusNotFound
	})
}
