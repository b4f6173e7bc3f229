package custom_test

import (
	"net/http"
	"testing"

	"espalier.dev/schema"
	"espalier.dev/server/servertest"
)

// TestApplyScale checks that server-side apply of a Scale sets and owns the underlying field.
func TestApplyScale(t *testing.T) {
	t.Parallel()
	s := servertest.NewScript(t, servertest.Serve(t, schema.Kubernetes))
	for _, body := range []string{
		`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.scale.example.com"},
		"spec": {"group": "scale.example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"}, "versions": [{"name": "v1", "served": true, "storage": true,
			"subresources": {"scale": {"specReplicasPath": ".spec.count", "statusReplicasPath": ".status.count"}},
			"schema": {"openAPIV3Schema": {"type": "object", "properties": {
				"spec": {"type": "object", "properties": {"count": {"type": "integer"}}}, "status": {"type": "object", "properties": {"count": {"type": "integer"}}}}}}}]}}`,
		`{"apiVersion": "scale.example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"count": 3}}`,
	} {
		if err := s.Write("create", []byte(body), ""); err != nil || s.Last.Code != http.StatusCreated {
			t.Fatal(err, s.Last.Code, string(s.Last.Body))
		}
	}
	const path = "/apis/scale.example.com/v1/namespaces/default/things/a"
	scale := []byte(`{"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 7}}`)
	const apply = "application/apply-patch+yaml"
	if a := s.Do(http.MethodPatch, path+"/scale?fieldManager=scaler", scale, apply); a.Code != http.StatusConflict {
		t.Errorf("the creator of the object does not own the field: %d %s", a.Code, a.Body)
	}
	a := s.Do(http.MethodPatch, path+"/scale?fieldManager=scaler&force=true", scale, apply)
	if got, _ := servertest.Field(a.Object, "spec.replicas"); a.Code != http.StatusOK || got != float64(7) {
		t.Errorf("%d %s", a.Code, a.Body)
	}
	a = s.Do(http.MethodGet, path, nil, "")
	if got, _ := servertest.Field(a.Object, "spec.count"); got != float64(7) {
		t.Errorf("%s", a.Body)
	}
	if owner, _ := servertest.Field(a.Object, "metadata.managedFields.0.manager"); owner != "scaler" {
		t.Errorf("owned by %v: %s", owner, a.Body)
	}
}
