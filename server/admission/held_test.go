package admission_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"espalier.dev/schema"
)

// TestHeldServices checks that a webhook that takes long for one service does not hold up the
// writes of others, which may take the values of the first one.
func TestHeldServices(t *testing.T) {
	t.Parallel()
	e := newEnv(t, schema.Kubernetes)
	release := make(chan struct{})
	called := make(chan struct{}, 10)
	h := newHook(t, func(w http.ResponseWriter, r *http.Request, review *admissionv1.AdmissionReview) *admissionv1.AdmissionResponse {
		if strings.HasPrefix(review.Request.Name, "held") {
			called <- struct{}{}
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
		return allow(w, r, review)
	})
	e.configure("Validating", "services", h, `, timeoutSeconds: 30, rules: [{apiGroups: [""], apiVersions: [v1], resources: [services], operations: [CREATE, UPDATE]}]`)
	path := "/api/v1/namespaces/" + e.namespace + "/services"
	// The addresses are chosen here: two that the server picks at random can be the same one.
	addresses := map[string]string{"held-a": "10.0.0.201", "held-b": "10.0.0.202", "quick": "10.0.0.203"}
	create := func(name string, port int) answer {
		a, err := e.try("POST", path, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: %s}, spec: {type: NodePort, clusterIP: %s, ports: [{port: 80, nodePort: %d}]}}`,
			name, addresses[name], port))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return a
	}
	held := map[string]chan answer{"held-a": make(chan answer, 1), "held-b": make(chan answer, 1)}
	go func() { held["held-a"] <- create("held-a", 30123) }()
	go func() { held["held-b"] <- create("held-b", 30124) }()
	for range held {
		select {
		case <-called:
		case <-time.After(time.Minute):
			t.Fatal("the webhook was not called")
		}
	}
	if a := create("quick", 30123); a.code != http.StatusCreated {
		t.Error(a)
	}
	if a := e.do("PATCH", path+"/quick", `{metadata: {labels: {a: b}}}`); a.code != http.StatusOK {
		t.Error(a)
	}
	for name, c := range held {
		select {
		case a := <-c:
			t.Errorf("%s was not held until the others were written: %v", name, a)
			c <- a
		default:
		}
	}
	close(release)
	if a := <-held["held-a"]; a.code != http.StatusUnprocessableEntity || !strings.Contains(a.message(), "provided port is already allocated") {
		t.Error("a port was taken twice:", a)
	}
	if a := <-held["held-b"]; a.code != http.StatusCreated {
		t.Error(a)
	}
	calls := 0
	for _, r := range h.requests() {
		if r.Name == "held-b" {
			calls++
		}
	}
	if calls != 1 {
		t.Errorf("the webhook was called %d times for a service whose values were free all the time", calls)
	}
}
