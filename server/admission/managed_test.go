package admission_test

import (
	"strings"
	"testing"

	"espalier.dev/schema"
)

// TestManagedFields checks that managed fields that a webhook makes invalid are restored, with a
// warning, and that valid changes are kept.
func TestManagedFields(t *testing.T) {
	t.Parallel()
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		t.Run(sem.String(), func(t *testing.T) {
			e := newEnv(t, sem)
			manager := func(a answer) (name, operation any) {
				t.Helper()
				entries, _ := a.at("metadata.managedFields").([]any)
				if len(entries) != 1 {
					t.Fatal(a)
				}
				entry := entries[0].(map[string]any)
				return entry["manager"], entry["operation"]
			}
			e.configure("Mutating", "m", newHook(t, patching(`[{"op": "replace", "path": "/metadata/managedFields/0/operation", "value": "Guess"}]`)), "")
			a := e.must("POST", e.widgets("v1"), widget("v1", "a", "{}"))
			if _, operation := manager(a); operation != "Update" || len(a.warnings) != 1 || !strings.Contains(a.warnings[0], "managedFields was in an invalid state after admission") {
				t.Error(operation, a.warnings)
			}
			e.must("DELETE", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/"+e.namespace+"-m", "")
			e.configure("Mutating", "n", newHook(t, patching(`[{"op": "replace", "path": "/metadata/managedFields/0/manager", "value": "hook"}]`)), "")
			a = e.must("POST", e.widgets("v1"), widget("v1", "b", "{}"))
			if name, _ := manager(a); name != "hook" || len(a.warnings) != 0 {
				t.Error(name, a.warnings)
			}
		})
	}
}
