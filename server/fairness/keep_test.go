package fairness

import (
	"testing"

	v1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"espalier.dev/kinds/kind"
)

// find returns the object that every server has with a name.
func find[T kind.Object](t *testing.T, name string) T {
	t.Helper()
	all, err := wanted()
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range all {
		if one, ok := obj.(T); ok && obj.GetName() == name {
			return one
		}
	}
	t.Fatalf("there is no %s", name)
	panic("unreachable")
}

// TestUpdate tests which stored objects the server brings up to date.
func TestUpdate(t *testing.T) {
	for _, c := range []struct {
		what, schema, annotation string
		generation               int64
		// changed, restored and after are the expected result: whether the object has changed, whether it
		// has the spec of the server again, and the annotation.
		changed, restored bool
		after             string
	}{
		{"managed by the server", "service-accounts", "true", 5, true, true, "true"},
		{"managed by a user", "service-accounts", "false", 5, false, false, "false"},
		{"never changed", "service-accounts", "", 1, true, true, "true"},
		{"changed by a user", "service-accounts", "", 2, true, false, "false"},
		{"mandatory", "catch-all", "false", 5, true, true, "true"},
	} {
		t.Run(c.what, func(t *testing.T) {
			want := find[*v1.FlowSchema](t, c.schema)
			have := want.DeepCopy()
			have.Spec.MatchingPrecedence++
			have.Generation = c.generation
			have.Annotations = map[string]string{"other": "stays"}
			if c.annotation != "" {
				have.Annotations[v1.AutoUpdateAnnotationKey] = c.annotation
			}
			if got := update(have, want); got != c.changed {
				t.Errorf("changed: %v", got)
			}
			if got := equality.Semantic.DeepEqual(have.Spec, want.Spec); got != c.restored {
				t.Errorf("restored: %v", got)
			}
			if got := have.Annotations[v1.AutoUpdateAnnotationKey]; got != c.after || have.Annotations["other"] != "stays" {
				t.Errorf("got the annotations %v", have.Annotations)
			}
			if update(have, want) {
				t.Error("it is not up to date afterwards")
			}
		})
	}

	t.Run("exempt", func(t *testing.T) {
		want := find[*v1.PriorityLevelConfiguration](t, "exempt")
		have := want.DeepCopy()
		have.Spec.Exempt.LendablePercent = new(int32(50))
		if update(have, want) || *have.Spec.Exempt.LendablePercent != 50 {
			t.Errorf("got %v", have.Spec)
		}
	})
}
