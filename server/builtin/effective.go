package builtin

import (
	"context"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic/registry"

	"espalier.dev/kinds"
	"espalier.dev/store"
)

// effectTimeout limits the wait of a write for its effect.
const effectTimeout = 5 * time.Second

// appliesAtOnce reports whether the objects of a resource configure this server, which reads
// them from memory.
func appliesAtOnce(r *kinds.Resource) bool { return r.Group == "admissionregistration.k8s.io" }

// applyAtOnce makes writes return when the objects in memory have the change, so that it applies
// to the next request of the writer. The write has succeeded in any case: if memory is far
// behind, it returns earlier.
func applyAtOnce(s *registry.Store, objects *store.Store) {
	written := func(obj runtime.Object) {
		m, ok := obj.(metav1.Object)
		if !ok {
			return
		}
		revision, err := strconv.ParseInt(m.GetResourceVersion(), 10, 64)
		if err != nil {
			return // a dry run
		}
		ctx, cancel := context.WithTimeout(context.Background(), effectTimeout)
		defer cancel()
		_ = objects.Await(ctx, revision)
	}
	s.AfterCreate = func(obj runtime.Object, _ *metav1.CreateOptions) { written(obj) }
	s.AfterUpdate = func(obj runtime.Object, _ *metav1.UpdateOptions) { written(obj) }
	s.AfterDelete = func(runtime.Object, *metav1.DeleteOptions) {
		ctx, cancel := context.WithTimeout(context.Background(), effectTimeout)
		defer cancel()
		_, _ = objects.Sync(ctx)
	}
}
