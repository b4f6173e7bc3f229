package ids_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"espalier.dev/server/ids"
)

var pods, services = schema.GroupResource{Resource: "pods"}, schema.GroupResource{Resource: "services"}

func uid(s *ids.Source, r schema.GroupResource, namespace, name string) types.UID {
	obj := &metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "before"}
	s.SetUID(r, obj)
	return obj.UID
}

func TestUID(t *testing.T) {
	t.Parallel()
	a, b, other := ids.New(1), ids.New(1), ids.New(2)
	first := uid(a, pods, "x", "y")
	if id, err := uuid.Parse(string(first)); err != nil || id.Version() != 4 || id.Variant() != uuid.RFC4122 {
		t.Errorf("%s: %v", first, err)
	}
	seen := map[types.UID]bool{first: true}
	for _, next := range []types.UID{uid(a, pods, "x", "y"), uid(a, pods, "x", "z"), uid(a, pods, "z", "y"), uid(a, services, "x", "y"), uid(other, pods, "x", "y")} {
		if seen[next] {
			t.Errorf("%s twice", next)
		}
		seen[next] = true
	}
	// The order of requests for other objects does not matter.
	uid(b, services, "x", "y")
	if again := uid(b, pods, "x", "y"); again != first {
		t.Errorf("%s, and %s", first, again)
	}
	if got := uid(nil, pods, "x", "y"); got != "before" {
		t.Errorf("a source without a seed sets the UID %s", got)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	a, b := ids.New(1), ids.New(1)
	first, second := a.Names(pods).GenerateName("a-"), a.Names(pods).GenerateName("a-")
	if !regexp.MustCompile(`^a-[bcdfghjklmnpqrstvwxz2456789]{5}$`).MatchString(first) || first == second {
		t.Error(first, second)
	}
	if got := a.Names(services).GenerateName("a-"); got == first {
		t.Errorf("%s twice", got)
	}
	b.Names(pods).GenerateName("b-")
	if x, y := b.Names(pods).GenerateName("a-"), b.Names(pods).GenerateName("a-"); x != first || y != second {
		t.Errorf("%s %s, and %s %s", first, second, x, y)
	}
	if got := a.Names(pods).GenerateName(strings.Repeat("x", 80)); len(got) != 63 || !strings.HasPrefix(got, strings.Repeat("x", 58)) {
		t.Error(got)
	}
	var none *ids.Source
	if x, y := none.Names(pods).GenerateName("a-"), none.Names(pods).GenerateName("a-"); x == y {
		t.Errorf("%s twice", x)
	}
}

func TestUint64N(t *testing.T) {
	t.Parallel()
	a, b := ids.New(1), ids.New(1)
	seen := map[uint64]bool{}
	for range 100 {
		n := a.Uint64N("ip", 10)
		if n != b.Uint64N("ip", 10) || n >= 10 {
			t.Fatal(n)
		}
		seen[n] = true
	}
	if len(seen) != 10 {
		t.Error(seen)
	}
}

// TestAfter checks that a source for a state makes nothing that made the state, and the same again.
func TestAfter(t *testing.T) {
	t.Parallel()
	seen := map[types.UID]bool{}
	for _, s := range []*ids.Source{ids.New(1), ids.After(1, 7), ids.After(1, 8), ids.After(2, 7)} {
		id := uid(s, pods, "x", "y")
		if seen[id] {
			t.Errorf("%s twice", id)
		}
		seen[id] = true
	}
	if a, b := uid(ids.After(1, 7), pods, "x", "y"), uid(ids.After(1, 7), pods, "x", "y"); a != b {
		t.Errorf("%s, and %s", a, b)
	}
}
