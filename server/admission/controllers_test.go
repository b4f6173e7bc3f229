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

// TestMarkedByWebhook checks that a namespace goes although a webhook has marked an object in it
// as deleted, which then nothing deletes.
func TestMarkedByWebhook(t *testing.T) {
	e := newEnv(t, schema.Kubernetes)
	e.configure("Mutating", "marks", newHook(t, patching(`[{"op": "add", "path": "/metadata/deletionTimestamp", "value": "2020-01-01T00:00:00Z"}]`)),
		`, failurePolicy: Fail, rules: [{apiGroups: [""], apiVersions: ["*"], resources: [secrets], operations: [CREATE]}]`)
	e.must("POST", "/api/v1/namespaces/"+e.namespace+"/secrets", `{apiVersion: v1, kind: Secret, metadata: {name: marked}}`)
	e.must("DELETE", "/api/v1/namespaces/"+e.namespace, "")
	e.eventually("the namespace goes", func() bool {
		return e.do("GET", "/api/v1/namespaces/"+e.namespace, "").code == http.StatusNotFound
	})
}
