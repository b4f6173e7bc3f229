package upstream_test

import (
	"maps"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"espalier.dev/internal/upstream"
)

// TestScheme compares the types with those of client-go.
func TestScheme(t *testing.T) {
	own, reference := upstream.Scheme().AllKnownTypes(), scheme.Scheme.AllKnownTypes()
	if !maps.Equal(own, reference) {
		missing := func(a, b map[schema.GroupVersionKind]reflect.Type, what string) {
			for gvk, t1 := range a {
				if b[gvk] != t1 {
					t.Errorf("%s: %s", what, gvk)
				}
			}
		}
		missing(reference, own, "only client-go has")
		missing(own, reference, "client-go does not have")
	}
	for _, gv := range scheme.Scheme.PrioritizedVersionsAllGroups() {
		if !upstream.Scheme().IsVersionRegistered(gv) {
			t.Errorf("%s is missing", gv)
		}
	}
	for gvk := range reference {
		if a, b := upstream.Scheme().VersionsForGroupKind(gvk.GroupKind()), scheme.Scheme.VersionsForGroupKind(gvk.GroupKind()); !reflect.DeepEqual(a, b) {
			t.Errorf("%s: versions %v, client-go %v", gvk.GroupKind(), a, b)
		}
	}
}
