package admission_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

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
		return &admissionv1.AdmissionResponse{Allowed: allowed.Load() || strings.HasPrefix(review.Request.Name, "owner")}
	})
	e.configure("Validating", "deletions", h, `, failurePolicy: Fail, rules: [{apiGroups: ["", tests.example.com], apiVersions: ["*"], resources: [configmaps, widgets], operations: [DELETE]}]`)
	maps := "/api/v1/namespaces/" + e.namespace + "/configmaps"
	called := func(name, account string) func() bool {
		return func() bool {
			for _, r := range h.requests() {
				if r.Name == name && r.Operation == admissionv1.Delete && r.Namespace == e.namespace && r.UserInfo.Username == "system:serviceaccount:kube-system:"+account {
					return true
				}
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
