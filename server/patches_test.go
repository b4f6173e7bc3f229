package server_test

import (
	"net/http"
	"strings"
	"testing"

	"espalier.dev/espaliertest"
	"espalier.dev/schema"
	"espalier.dev/server/servertest"
)

// TestPatchesThatDoNotFit sends patches that do not fit the type of the object. The error is the
// client's, but kube-apiserver, and kubernetes semantics, answer many of them with an internal
// error.
func TestPatchesThatDoNotFit(t *testing.T) {
	if testing.Short() {
		t.Skip("sends large patches")
	}
	t.Parallel()
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		t.Run(sem.String(), func(t *testing.T) {
			t.Parallel()
			s := espaliertest.Start(t, servertest.Store(), espaliertest.WithSemantics(sem), espaliertest.WithCRDs([]byte(hostileDefinition)))
			h := newHostile(t, s)
			const deployments = "/apis/apps/v1/namespaces/default/deployments"
			for path, body := range map[string]string{
				hostileThings:    hostileThing("seen", `"spec":{}`),
				memoryConfigMaps: memoryConfigMap + `}}`,
				memoryPods:       memoryContainer + `"command":["a"]}]}}`,
				deployments: `{"apiVersion":"apps/v1","kind":"Deployment",` + memoryMeta + `},"spec":{"selector":{"matchLabels":{"a":"b"}},` +
					`"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"a","image":"a"}]}}}}`,
			} {
				h.send(hostileRequest{method: http.MethodPost, path: path, body: body, code: http.StatusCreated})
			}
			for _, r := range []struct{ path, body string }{
				{memoryPods + "/a", `{"spec":{"containers":[{"image":"b"}]}}`},
				{memoryPods + "/a", `{"spec":{"containers":[1]}}`},
				{memoryPods + "/a", `{"spec":{"containers":[[]]}}`},
				{memoryPods + "/a", `{"spec":{"containers":{}}}`},
				{memoryPods + "/a", `{"spec":{"containers":"a"}}`},
				{memoryPods + "/a", `{"spec":{"containers":[{"name":"a","$patch":"b"}]}}`},
				{memoryPods + "/a", `{"spec":{"containers":[{"name":"a","$patch":1}]}}`},
				{memoryPods + "/a", `{"spec":{"$setElementOrder/containers":[{"name":"b"}],"containers":[{"name":"c"}]}}`},
				{memoryPods + "/a", `{"spec":{"$setElementOrder/containers":[1]}}`},
				{memoryPods + "/a", `{"spec":{"$setElementOrder/containers":1}}`},
				{memoryPods + "/a", `{"spec":{"$retainKeys":1}}`},
				{memoryPods + "/a", `{"spec":1}`},
				{memoryPods + "/a/status", `{"status":{"conditions":[{"status":"a"}]}}`},
				{memoryPods + "/a/ephemeralcontainers", `{"spec":{"ephemeralContainers":[{}]}}`},
				{memoryConfigMaps + "/a", `{"metadata":1}`},
				{memoryConfigMaps + "/a", `{"metadata":{"finalizers":[{}]}}`},
				{memoryConfigMaps + "/a", `{"metadata":{"ownerReferences":[{}]}}`},
				{memoryConfigMaps + "/a", `{"data":{"a":1}}`},
				{memoryConfigMaps + "/a", `{"data":[]}`},
				{deployments + "/a/scale", `{"spec":{"replicas":"a"}}`},
				{deployments + "/a/scale", `{"spec":1}`},
			} {
				h.rejects(sem, r.path, "application/strategic-merge-patch+json", r.body)
			}
			pod, configMap := strings.TrimSuffix(memoryPod, `"spec":{`), memoryConfigMap+`},`
			scale := `{"apiVersion":"autoscaling/v1","kind":"Scale",` + memoryMeta + `},`
			for _, r := range []struct{ path, body string }{
				{memoryPods + "/a", pod + `"spec":{"containers":[{"image":"b"}]}}`},
				{memoryPods + "/a", pod + `"spec":{"containers":[{"name":"b"},{"name":"b"}]}}`},
				{memoryPods + "/a", pod + `"spec":{"containers":[1]}}`},
				{memoryPods + "/a", pod + `"spec":{"containers":{}}}`},
				{memoryPods + "/a", pod + `"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":"b"}}}]}}`},
				{memoryPods + "/a", pod + `"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":{}}}}]}}`},
				{memoryPods + "/a", pod + `"spec":{"activeDeadlineSeconds":1e30}}`},
				{memoryPods + "/a", pod + `"spec":{"unknown":1}}`},
				{memoryPods + "/a/status", pod + `"status":{"startTime":"a"}}`},
				{memoryPods + "/a/status", pod + `"status":{"conditions":[{"status":"a"}]}}`},
				{memoryPods + "/new", pod + `"spec":{"containers":[1]}}`},
				{memoryConfigMaps + "/a", configMap + `"data":{"a":1}}`},
				{memoryConfigMaps + "/a", configMap + `"data":[]}`},
				{memoryConfigMaps + "/a", configMap + `"binaryData":{"a":"-"}}`},
				{memoryConfigMaps + "/a", configMap + `"immutable":"a"}`},
				{memoryConfigMaps + "/a", `{"apiVersion":"v1","kind":"ConfigMap","metadata":1}`},
				{memoryConfigMaps + "/a", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":1}}`},
				{memoryConfigMaps + "/a", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","creationTimestamp":"a"}}`},
				{memoryConfigMaps + "/a", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","managedFields":1}}`},
				{memoryConfigMaps + "/a", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}`},
				{memoryConfigMaps + "/a", `{"apiVersion":"v1","kind":"Unknown","metadata":{"name":"a"}}`},
				{memoryConfigMaps + "/a", `{"apiVersion":"v1","metadata":{"name":"a"}}`},
				{memoryConfigMaps + "/a", `{"apiVersion":1,"kind":"ConfigMap","metadata":{"name":"a"}}`},
				{memoryConfigMaps + "/a", `[]`},
				{deployments + "/a/scale", scale + `"spec":{"replicas":"a"}}`},
				{deployments + "/a/scale", scale + `"spec":1}`},
				{hostileThings + "/seen", hostileThing("seen", `"spec":1`)},
				{hostileThings + "/seen", hostileThing("seen", `"spec":[]`)},
				{hostileThings + "/seen", `{"apiVersion":"hostile.example.com/v1","kind":"Thing","metadata":{"name":"seen","labels":1}}`},
				{hostileThings + "/new", hostileThing("new", `"spec":1`)},
			} {
				h.rejects(sem, r.path+"?fieldManager=m&force=true", "application/apply-patch+yaml", r.body)
			}
			many := pod + `"spec":{"containers":[{"name":"a","ports":[` + strings.Repeat(`{"containerPort":80},`, 5000) + `{"containerPort":80}]}]}}`
			code := http.StatusBadRequest
			if sem == schema.Kubernetes {
				code = http.StatusInternalServerError
			}
			text := h.send(hostileRequest{name: "many", method: http.MethodPatch, path: memoryPods + "/a?fieldManager=m", contentType: "application/apply-patch+yaml", body: many,
				code: code, says: "duplicate entries for key"})
			if len(text) > 40_000 || !strings.Contains(text, " bytes are not shown)") {
				t.Errorf("the error has %d bytes: %.1000s", len(text), text)
			}
			// References with the same UID count once.
			owners := shape{before: `{"apiVersion":"hostile.example.com/v1","kind":"Thing","metadata":{"name":"NAME","ownerReferences":[`, item: `{"uid":"%"}`, after: `]}}`}.text(1 << 20)
			h.send(hostileRequest{name: "a create with many owners", method: http.MethodPost, path: hostileThings, body: strings.Replace(owners, "NAME", "new", 1),
				code: http.StatusUnprocessableEntity, says: "must have at most 65536 items"})
			h.send(hostileRequest{name: "a patch with many owners", method: http.MethodPatch, path: hostileThings + "/seen", contentType: "application/merge-patch+json", body: strings.Replace(owners, "NAME", "seen", 1),
				code: http.StatusUnprocessableEntity, says: "must have at most 65536 items"})
		})
	}
}

// rejects expects a patch to be rejected, with a reason if the error is the client's.
func (h *hostile) rejects(sem schema.Semantics, path, contentType, body string) {
	h.Helper()
	code, text := h.answer(hostileRequest{name: path, method: http.MethodPatch, path: path, contentType: contentType, body: body})
	internal := sem == schema.Kubernetes && code == http.StatusInternalServerError
	if !internal && (code != http.StatusBadRequest && code != http.StatusUnprocessableEntity || !strings.Contains(text, `"reason":"`)) {
		h.Errorf("%s %s: the answer is %d: %.600s", path, body, code, text)
	}
}
