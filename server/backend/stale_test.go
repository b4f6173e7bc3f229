package backend

import (
	"context"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/value"
)

// aging is a transformer whose values become stale.
type aging struct{ stale atomic.Bool }

func (a *aging) TransformFromStorage(_ context.Context, data []byte, _ value.Context) ([]byte, bool, error) {
	return data, a.stale.Load(), nil
}

func (*aging) TransformToStorage(_ context.Context, data []byte, _ value.Context) ([]byte, error) {
	return data, nil
}

// TestStaleIsCurrent writes an unchanged object again if it has become stale since it was read.
func TestStaleIsCurrent(t *testing.T) {
	a := &aging{}
	s := newSetupWith(t, onEtcd, a)
	pod := &example.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	if err := s.Create(s.ctx, "/pods/a", pod, pod, 0); err != nil {
		t.Fatal(err)
	}
	if err := s.RequestWatchProgress(s.ctx); err != nil {
		t.Fatal(err)
	}
	update := func() string {
		t.Helper()
		out := &example.Pod{}
		if err := s.GuaranteedUpdate(s.ctx, "/pods/a", out, false, nil,
			storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) { return obj, nil }), nil); err != nil {
			t.Fatal(err)
		}
		return out.ResourceVersion
	}
	if got := update(); got != pod.ResourceVersion {
		t.Errorf("an unchanged object was written at %s", got)
	}
	a.stale.Store(true)
	if got := update(); got == pod.ResourceVersion {
		t.Error("a stale object was not written")
	}
}
