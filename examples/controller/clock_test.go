package main

import (
	"flag"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var leaderTime = flag.Duration("leader-time", 5*time.Minute, "how long TestLeaderForMinutes lets the leader renew its lease, in the time of the bubble")

// inBubble calls test in a bubble of testing/synctest, where the controller runs and has handled a Website.
func inBubble(t *testing.T, newManager func(*rest.Config, ctrl.Options) (ctrl.Manager, error), test func(*testing.T, *session)) {
	t.Helper()
	t.Parallel()
	begin := time.Now()
	synctest.Test(t, func(t *testing.T) {
		s := newSession(t)
		o, never := options(), 1000*time.Hour
		o.Cache.SyncPeriod = &never // otherwise all Websites are reconciled every 10 hours
		mgr, err := newManager(s.config(), o)
		s.must(t, err)
		runManager(t, mgr, "bubble")
		s.handled(t, s.create(t, "hello"))
		time.Sleep(time.Minute) // until the controller has seen what it has written
		test(t, s)
	})
	t.Logf("it took %v", time.Since(begin))
}

// TestDay waits until the controller reconciles a Website that has not changed: it does not watch the
// directory, and notices a lost entry after a day.
func TestDay(t *testing.T) {
	inBubble(t, newSingleManager, func(t *testing.T, s *session) {
		begin, entries := time.Now(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: directory}}
		s.must(t, s.client.Delete(t.Context(), entries))
		time.Sleep(resync - 2*time.Minute)
		if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(entries), entries); !apierrors.IsNotFound(err) {
			t.Fatalf("the directory exists before a day has passed, or cannot be read: %v", err)
		}
		time.Sleep(2 * time.Minute)
		s.directory(t, "hello", true)
		s.must(t, s.client.Get(t.Context(), client.ObjectKeyFromObject(entries), entries))
		if after := entries.CreationTimestamp.Sub(begin); after < resync-2*time.Minute {
			t.Errorf("it was made after %v", after)
		}
	})
}

// TestLeaderForMinutes waits while the controller renews its lease.
func TestLeaderForMinutes(t *testing.T) {
	inBubble(t, newManager, func(t *testing.T, s *session) {
		leader := s.leader(t, "")
		time.Sleep(*leaderTime)
		lease := &coordinationv1.Lease{}
		s.must(t, s.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: leaseName}, lease))
		if *lease.Spec.HolderIdentity != leader || time.Since(lease.Spec.RenewTime.Time) > 2*time.Second {
			t.Errorf("%+v", lease.Spec)
		}
	})
}
