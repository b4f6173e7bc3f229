package definitions_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/schema"
	"espalier.dev/server/servertest"
)

// TestManagedFields checks that the fields of CRDs have managers, and that
// another manager cannot take them over unnoticed.
func TestManagedFields(t *testing.T) {
	t.Parallel()
	s := servertest.NewScript(t, servertest.Serve(t, schema.Kubernetes))
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	const name = "examples.mygroup.example.com"
	definition := func(description string) []byte {
		return fmt.Appendf(nil, plainDefinition, "Example", fmt.Sprintf(`{"type": "object", "description": %q}`, description))
	}
	if got := s.Do(http.MethodPost, path+"?fieldManager=author", definition("first"), "application/json"); got.Code != http.StatusCreated {
		t.Fatalf("%d %.300s", got.Code, got.Body)
	}
	var stored metav1.PartialObjectMetadata
	if err := json.Unmarshal(s.Do(http.MethodGet, path+"/"+name, nil, "").Body, &stored); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, m := range stored.ManagedFields {
		var fields map[string]any
		if m.Manager == "author" && m.Operation == metav1.ManagedFieldsOperationUpdate {
			found = json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields) == nil && fields["f:spec"] != nil
		}
	}
	if !found {
		t.Errorf("the author manages no fields: %v", stored.ManagedFields)
	}
	apply := path + "/" + name + "?fieldManager=other"
	if got := s.Do(http.MethodPatch, apply, definition("second"), "application/apply-patch+yaml"); got.Code != http.StatusConflict {
		t.Errorf("apply without force: %d %.300s", got.Code, got.Body)
	}
	if got := s.Do(http.MethodPatch, apply+"&force=true", definition("second"), "application/apply-patch+yaml"); got.Code != http.StatusOK {
		t.Errorf("apply with force: %d %.300s", got.Code, got.Body)
	}
}
