package espalier

import (
	"strings"
	"testing"
)

// TestWithoutKinds checks what programs that do not import package kinds are told. It is not parallel:
// it takes the kinds away from other tests.
func TestWithoutKinds(t *testing.T) {
	defer RegisterKinds(kinds)
	RegisterKinds(nil)
	set, err := NewSet()
	if err != nil {
		t.Fatal(err)
	}
	_, ofKind := Kind("apps/v1", "Deployment")
	_, ofSet := set.Admitter("apps/v1", "Deployment")
	for _, err := range []error{ofKind, ofSet} {
		if err == nil || !strings.Contains(err.Error(), `import _ "espalier.dev/kinds"`) {
			t.Errorf("got %v", err)
		}
	}
	if _, err := set.Admitter("example.com/v1", "CronTab"); err == nil || err.Error() != "no CRD serves example.com/v1 CronTab" {
		t.Errorf("got %v", err)
	}
}
