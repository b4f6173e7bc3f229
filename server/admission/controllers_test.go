package admission_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/schema"
)

// TestControllerDeletions checks that webhooks see what the garbage collector and the controller
// of namespaces delete, and can keep it.
func TestControllerDeletions(t *testing.T) {
	t.Parallel()
	e := newEnv(t, schema.Kubernetes)
	var allowed atomic.Bool
	h := newHook(t, func(w http.ResponseWriter, r *http.Request, review *admissionv1.AdmissionReview) *admissionv1.AdmissionResponse {
		if len(review.Request.OldObject.Raw) == 0 {
			t.Errorf("there is no object: %+v", review.Request)
		}
		return &admissionv1.AdmissionResponse{Allowed: allowed.Load() || nameOf(review.Request) == "owner"}
	})
	e.configure("Validating", "deletions", h, `, failurePolicy: Fail, rules: [{apiGroups: ["", tests.example.com], apiVersions: ["*"], resources: [configmaps, widgets], operations: [DELETE]}]`)
	maps := "/api/v1/namespaces/" + e.namespace + "/configmaps"
	called := func(name, account string) func() bool {
		return func() bool {
			for _, r := range h.requests() {
				if nameOf(r) != name || r.Operation != admissionv1.Delete || r.Namespace != e.namespace || r.UserInfo.Username != "system:serviceaccount:kube-system:"+account {
					continue
				}
				if !slices.Equal(r.UserInfo.Groups, []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"}) {
					t.Errorf("the groups of %s are %v", account, r.UserInfo.Groups)
				}
				// The controller of namespaces deletes collections, in Kubernetes, too.
				if collection := account == "namespace-controller"; (r.Name == "") != collection || strings.Contains(string(r.Options.Raw), "preconditions") == collection {
					t.Errorf("%s deletes the name %q with %s", account, r.Name, r.Options.Raw)
				}
				return true
			}
			return false
		}
	}

	owner := e.must("POST", maps, `{apiVersion: v1, kind: ConfigMap, metadata: {name: owner}}`)
	references := fmt.Sprintf(`ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: %s}]`, owner.at("metadata.uid"))
	e.must("POST", maps, `{apiVersion: v1, kind: ConfigMap, metadata: {name: dependent, `+references+`}}`)
	e.must("POST", e.widgets("v1"), strings.Replace(widget("v1", "dependent-widget", "{}"), "metadata: {", "metadata: {"+references+", ", 1))
	e.must("DELETE", maps+"/owner", "")
	e.eventually("the webhook sees the dependent", called("dependent", "generic-garbage-collector"))
	e.eventually("the webhook sees the dependent widget", called("dependent-widget", "generic-garbage-collector"))
	e.must("GET", maps+"/dependent", "")
	e.must("GET", e.widgets("v1")+"/dependent-widget", "")

	e.must("POST", maps, `{apiVersion: v1, kind: ConfigMap, metadata: {name: inside}}`)
	e.must("DELETE", "/api/v1/namespaces/"+e.namespace, "")
	e.eventually("the webhook sees the content of the namespace", called("inside", "namespace-controller"))
	e.eventually("the namespace reports why it stays", func() bool {
		text := fmt.Sprint(e.must("GET", "/api/v1/namespaces/"+e.namespace, "").at("status.conditions"))
		return strings.Contains(text, "NamespaceDeletionContentFailure") && strings.Contains(text, "denied the request")
	})
	e.must("GET", maps+"/inside", "")
	allowed.Store(true)
	e.eventually("the namespace goes", func() bool {
		return e.do("GET", "/api/v1/namespaces/"+e.namespace, "").code == http.StatusNotFound
	})
}

// nameOf returns the name of the object that a request deletes.
func nameOf(r *admissionv1.AdmissionRequest) string {
	var old metav1.PartialObjectMetadata
	_ = json.Unmarshal(r.OldObject.Raw, &old)
	return old.Name
}

// TestHangingWebhook checks that a webhook that does not respond holds up only the deletion of
// the objects that it is called for.
func TestHangingWebhook(t *testing.T) {
	t.Parallel()
	e, other := newEnv(t, schema.Kubernetes), newEnv(t, schema.Kubernetes)
	release := make(chan struct{})
	let := sync.OnceFunc(func() { close(release) })
	var allowed, expired atomic.Bool
	h := newHook(t, func(w http.ResponseWriter, r *http.Request, review *admissionv1.AdmissionReview) *admissionv1.AdmissionResponse {
		select {
		case <-release:
		case <-r.Context().Done():
			expired.Store(true)
		}
		return &admissionv1.AdmissionResponse{Allowed: allowed.Load()}
	})
	t.Cleanup(let)
	e.configure("Validating", "hangs", h, `, timeoutSeconds: 30, failurePolicy: Fail, rules: [{apiGroups: [""], apiVersions: ["*"], resources: [configmaps], operations: [DELETE]}]`)
	called := func(account string) func() bool {
		return func() bool {
			return slices.ContainsFunc(h.requests(), func(r *admissionv1.AdmissionRequest) bool { return strings.HasSuffix(r.UserInfo.Username, account) })
		}
	}
	gone := func(path string) func() bool {
		return func() bool { return e.do("GET", path, "").code == http.StatusNotFound }
	}
	maps, secrets := "/api/v1/namespaces/"+e.namespace+"/configmaps", "/api/v1/namespaces/"+e.namespace+"/secrets"
	own := func(name, path, kind, dependent string) {
		owner := e.must("POST", secrets, fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: %s}}`, name))
		e.must("POST", path, fmt.Sprintf(`{apiVersion: v1, kind: %s, metadata: {name: %s, ownerReferences: [{apiVersion: v1, kind: Secret, name: %s, uid: %s}]}}`,
			kind, dependent, name, owner.at("metadata.uid")))
		e.must("DELETE", secrets+"/"+name, "")
	}
	own("first", maps, "ConfigMap", "held")
	e.eventually("the webhook is called for the dependent", called("generic-garbage-collector"))
	own("second", secrets, "Secret", "quick")
	e.eventually("the other dependent goes", gone(secrets+"/quick"))

	e.must("POST", secrets, `{apiVersion: v1, kind: Secret, metadata: {name: inside}}`)
	e.must("POST", e.widgets("v1"), widget("v1", "inside", "{}"))
	e.must("DELETE", "/api/v1/namespaces/"+e.namespace, "")
	e.eventually("the webhook is called for the content of the namespace", called("namespace-controller"))
	e.eventually("the secret goes", gone(secrets+"/inside"))
	e.eventually("the widget goes", gone(e.widgets("v1")+"/inside"))
	e.must("DELETE", "/api/v1/namespaces/"+other.namespace, "")
	e.eventually("the other namespace goes", gone("/api/v1/namespaces/"+other.namespace))
	if expired.Load() {
		t.Error("the others went after a call of the webhook had timed out")
	}
	let()
	e.eventually("the namespace reports why it stays", func() bool {
		text := fmt.Sprint(e.must("GET", "/api/v1/namespaces/"+e.namespace, "").at("status.conditions"))
		return strings.Contains(text, "denied the request") && strings.Contains(text, "SomeResourcesRemain")
	})
	e.must("GET", maps+"/held", "")
	allowed.Store(true)
	e.eventually("the namespace goes", gone("/api/v1/namespaces/"+e.namespace))
}

// TestControllerUpdates checks that webhooks see the references and finalizers that the garbage
// collector removes, as an update of its service account, and can change and keep the object. What is
// denied is tried again, and the other dependents do not wait for it.
func TestControllerUpdates(t *testing.T) {
	t.Parallel()
	for _, sem := range []schema.Semantics{schema.Kubernetes, schema.KEP} {
		t.Run(sem.String(), func(t *testing.T) { testControllerUpdates(newEnv(t, sem)) })
	}
}

func testControllerUpdates(e *env) {
	const rules = `, failurePolicy: Fail, rules: [{apiGroups: ["", tests.example.com], apiVersions: ["*"], resources: [configmaps, widgets], operations: [UPDATE]}]`
	var allowed atomic.Bool
	h := newHook(e.T, func(_ http.ResponseWriter, _ *http.Request, review *admissionv1.AdmissionReview) *admissionv1.AdmissionResponse {
		r := review.Request
		if r.UserInfo.Username != "system:serviceaccount:kube-system:generic-garbage-collector" || !slices.Contains(r.UserInfo.Groups, "system:authenticated") {
			e.Errorf("the user of the update of %s is %+v", r.Name, r.UserInfo)
		}
		if r.Name != nameOf(r) || r.Namespace != e.namespace || !strings.Contains(string(r.Options.Raw), "UpdateOptions") {
			e.Errorf("the request is for %s in %s, with %s", r.Name, r.Namespace, r.Options.Raw)
		}
		return &admissionv1.AdmissionResponse{Allowed: allowed.Load() || r.Name != "denied"}
	})
	e.configure("Validating", "updates", h, rules)
	patch := `[{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}, {"op": "add", "path": "/spec", "value": {"size": 7, "unknown": 1}}]`
	e.configure("Mutating", "patches", newHook(e.T, patching(patch)), strings.Replace(rules, "configmaps, widgets", "widgets", 1))
	seen := func(name string) (requests []*admissionv1.AdmissionRequest) {
		for _, r := range h.requests() {
			if r.Name == name {
				requests = append(requests, r)
			}
		}
		return requests
	}
	maps := "/api/v1/namespaces/" + e.namespace + "/configmaps"
	own := func(owner string, dependents ...string) {
		uid := e.must("POST", maps, fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}}`, owner)).at("metadata.uid")
		ref := fmt.Sprintf(`metadata: {ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: %s, uid: %s, blockOwnerDeletion: true}], `, owner, uid)
		for _, name := range dependents {
			path, obj := maps, fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}}`, name)
			if name == "widget" {
				path, obj = e.widgets("v1"), widget("v1", name, "{size: 1}")
			}
			e.must("POST", path, strings.Replace(obj, "metadata: {", ref, 1))
		}
	}
	references := func(path string) int {
		list, _ := e.must("GET", path, "").at("metadata.ownerReferences").([]any)
		return len(list)
	}

	own("owner", "dependent", "denied", "widget")
	e.must("DELETE", maps+"/owner", `{propagationPolicy: Orphan}`)
	e.eventually("the others are orphaned", func() bool {
		return references(maps+"/dependent")+references(e.widgets("v1")+"/widget") == 0
	})
	e.eventually("what is denied is tried again", func() bool { return len(seen("denied")) > 2 })
	if references(maps+"/denied") != 1 || len(seen("owner")) != 0 {
		e.Error("the owner does not wait for the dependent that is denied")
	}
	allowed.Store(true)
	gone := func(path string) func() bool {
		return func() bool { return e.do("GET", path, "").code == http.StatusNotFound }
	}
	e.eventually("the owner goes", gone(maps+"/owner"))
	if references(maps+"/denied") != 0 || len(seen("owner")) == 0 {
		e.Error("the dependent or the finalizer of the owner was changed without admission")
	}
	if got := e.must("GET", e.widgets("v1")+"/widget", ""); got.at("metadata.labels.seen") != "yes" || got.at("spec.size") != float64(7) || got.at("spec.unknown") != nil {
		e.Errorf("the mutating webhook has made %v", got)
	}
	if r := seen("widget"); len(r) != 1 || !strings.Contains(string(r[0].OldObject.Raw), `"ownerReferences":`) || strings.Contains(string(r[0].Object.Raw), `"ownerReferences":`) {
		e.Errorf("the webhook has not seen one update of the references: %v", r)
	}

	own("foreground")
	e.must("DELETE", maps+"/foreground", `{propagationPolicy: Foreground}`)
	e.eventually("the owner goes", gone(maps+"/foreground"))
	if len(seen("foreground")) != 1 {
		e.Error("the removal of the finalizer was not seen once")
	}

	var refs []string
	for _, name := range []string{"first", "second"} {
		uid := e.must("POST", maps, fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}}`, name)).at("metadata.uid")
		refs = append(refs, fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, name: %s, uid: %s}`, name, uid))
	}
	e.must("POST", maps, fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: shared, ownerReferences: [%s]}}`, strings.Join(refs, ", ")))
	e.must("DELETE", maps+"/first", "")
	e.eventually("the reference to the owner that is gone is removed", func() bool { return references(maps+"/shared") == 1 })
	if len(seen("shared")) != 1 {
		e.Error("the removal of the reference was not seen once")
	}
}

// TestHangingUpdate checks that a webhook that does not respond to an update of the garbage collector
// holds up only the objects that it is called for.
func TestHangingUpdate(t *testing.T) {
	t.Parallel()
	e := newEnv(t, schema.Kubernetes)
	release := make(chan struct{})
	let := sync.OnceFunc(func() { close(release) })
	var expired atomic.Bool
	h := newHook(t, func(_ http.ResponseWriter, r *http.Request, _ *admissionv1.AdmissionReview) *admissionv1.AdmissionResponse {
		select {
		case <-release:
		case <-r.Context().Done():
			expired.Store(true)
		}
		return &admissionv1.AdmissionResponse{Allowed: true}
	})
	t.Cleanup(let)
	e.configure("Mutating", "hangs", h, `, timeoutSeconds: 30, failurePolicy: Fail, rules: [{apiGroups: [""], apiVersions: ["*"], resources: [configmaps], operations: [UPDATE]}]`)
	maps, secrets := "/api/v1/namespaces/"+e.namespace+"/configmaps", "/api/v1/namespaces/"+e.namespace+"/secrets"
	orphan := func(owner, path, kind string, dependents int) {
		uid := e.must("POST", secrets, fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: %s}}`, owner)).at("metadata.uid")
		for i := range dependents {
			e.must("POST", path, fmt.Sprintf(`{apiVersion: v1, kind: %s, metadata: {name: %s-%d, ownerReferences: [{apiVersion: v1, kind: Secret, name: %s, uid: %s}]}}`,
				kind, owner, i, owner, uid))
		}
		e.must("DELETE", secrets+"/"+owner, `{propagationPolicy: Orphan}`)
	}
	gone := func(path string) func() bool {
		return func() bool { return e.do("GET", path, "").code == http.StatusNotFound }
	}
	for i := range 10 {
		orphan(fmt.Sprintf("held-%d", i), maps, "ConfigMap", 3)
	}
	e.eventually("the webhook is called", func() bool { return len(h.requests()) >= 20 })
	orphan("quick", secrets, "Secret", 3)
	e.eventually("the other owner goes", gone(secrets+"/quick"))
	if e.must("GET", secrets+"/quick-0", "").at("metadata.ownerReferences") != nil {
		t.Error("the other dependent was not orphaned")
	}
	if expired.Load() {
		t.Error("the other owner went after a call of the webhook had timed out")
	}
	e.must("GET", secrets+"/held-0", "")
	let()
	e.eventually("the owners go", func() bool {
		for i := range 10 {
			if !gone(fmt.Sprintf("%s/held-%d", secrets, i))() {
				return false
			}
		}
		return true
	})
}

// TestMarkedByWebhook checks that a namespace goes although a webhook has marked an object in it
// as deleted, which then nothing deletes.
func TestMarkedByWebhook(t *testing.T) {
	t.Parallel()
	e := newEnv(t, schema.Kubernetes)
	e.configure("Mutating", "marks", newHook(t, patching(`[{"op": "add", "path": "/metadata/deletionTimestamp", "value": "2020-01-01T00:00:00Z"}]`)),
		`, failurePolicy: Fail, rules: [{apiGroups: [""], apiVersions: ["*"], resources: [secrets], operations: [CREATE]}]`)
	e.must("POST", "/api/v1/namespaces/"+e.namespace+"/secrets", `{apiVersion: v1, kind: Secret, metadata: {name: marked}}`)
	e.must("DELETE", "/api/v1/namespaces/"+e.namespace, "")
	e.eventually("the namespace goes", func() bool {
		return e.do("GET", "/api/v1/namespaces/"+e.namespace, "").code == http.StatusNotFound
	})
}
