package backend

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"espalier.dev/store"
)

func TestFailureOfStore(t *testing.T) {
	for _, cause := range []error{store.ErrClosed, store.ErrReplaced} {
		err := Failure(fmt.Errorf("read: %w", cause))
		if seconds, ok := apierrors.SuggestsClientDelay(err); !apierrors.IsServiceUnavailable(err) || !ok || seconds != retrySeconds {
			t.Errorf("%v becomes %v", cause, err)
		}
	}
}

// TestHugeResourceVersion reads at resource versions that are not those of any etcd.
func TestHugeResourceVersion(t *testing.T) {
	s := newSetup(t)
	const huge = "18446744073709551615"
	if err := s.Get(s.ctx, "/pods/a", storage.GetOptions{ResourceVersion: huge}, &example.Pod{}); !storage.IsTooLargeResourceVersion(err) {
		t.Error(err)
	}
	for _, match := range []metav1.ResourceVersionMatch{metav1.ResourceVersionMatchExact, metav1.ResourceVersionMatchNotOlderThan} {
		opts := storage.ListOptions{ResourceVersion: huge, ResourceVersionMatch: match, Recursive: true, Predicate: storage.Everything}
		if err := s.GetList(s.ctx, "/pods/", opts, &example.PodList{}); !storage.IsTooLargeResourceVersion(err) {
			t.Errorf("%s: %v", match, err)
		}
	}
}

// TestLeaseWaits waits for a lease no longer than the context.
func TestLeaseWaits(t *testing.T) {
	l := &leases{turn: make(chan struct{}, 1)}
	l.turn <- struct{}{} // another write waits for etcd
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.get(ctx, 60); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
