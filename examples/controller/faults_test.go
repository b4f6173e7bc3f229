package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"espalier.dev/espaliertest"
)

// create creates a Website.
func (s *session) create(t *testing.T, name string) *Website {
	t.Helper()
	site := &Website{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       WebsiteSpec{Page: "<h1>" + name + "</h1>", Replicas: 1},
	}
	s.must(t, s.client.Create(t.Context(), site))
	return site
}

// handled waits until the controller has made everything for a Website.
func (s *session) handled(t *testing.T, site *Website) {
	t.Helper()
	s.eventually(t, site, site.Name, reports(site, metav1.ConditionFalse, "0 of 1 pods serve the page"))
	for _, object := range []client.Object{&corev1.ConfigMap{}, &corev1.Service{}, &appsv1.Deployment{}} {
		s.eventually(t, object, site.Name, func() error { return nil })
	}
	s.directory(t, site.Name, true)
}

// await waits for a condition.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, timeout, true,
		func(context.Context) (bool, error) { return done(), nil }); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// TestConflict makes writes of the controller fail because of conflicts: it repeats them.
func TestConflict(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	faults := s.server.Inject(t,
		espaliertest.Rule{Fault: espaliertest.Conflict, User: user, Resource: "websites.example.com", First: 2, Strict: true},
		espaliertest.Rule{Fault: espaliertest.Conflict, User: user, Resource: "websites.example.com/status", First: 1, Strict: true},
		espaliertest.Rule{Fault: espaliertest.Conflict, User: user, Resource: "deployments.apps", Name: "hello", First: 1, Strict: true})
	s.startManager(t, "first")
	s.handled(t, s.create(t, "hello"))
	if faults.Hits() != 4 {
		t.Errorf("%+v", faults.Counts())
	}
}

// TestLostAnswer loses the answers of creates. The controller cannot know that they were stored, and must not
// create the objects again.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.server.Inject(t,
		espaliertest.Rule{Fault: espaliertest.LostAnswer, User: user, Verbs: []string{"create"}, Resource: "configmaps", Name: directory, First: 1, Strict: true},
		espaliertest.Rule{Fault: espaliertest.CloseAfter, User: user, Verbs: []string{"patch"}, Resource: "deployments", First: 1, Strict: true})
	s.startManager(t, "first")
	s.handled(t, s.create(t, "hello"))
	deployments := &appsv1.DeploymentList{}
	s.must(t, s.client.List(t.Context(), deployments, client.InNamespace("default")))
	if len(deployments.Items) != 1 {
		t.Errorf("%d deployments", len(deployments.Items))
	}
}

// TestStaleCache holds back the events of ConfigMaps: the controller does not see the entry that it has
// added to the directory, and must not remove it when it adds another one.
func TestStaleCache(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.startManager(t, "first")
	s.handled(t, s.create(t, "one"))

	held := s.server.Inject(t, espaliertest.Rule{Fault: espaliertest.HoldEvents, User: user, Resource: "configmaps", Strict: true})
	// A short delay changes nothing, and counts.
	updates := s.server.Inject(t, espaliertest.Rule{Fault: espaliertest.Delay, Delay: 1, User: user, Verbs: []string{"update"},
		Resource: "configmaps", Name: directory, Strict: true})
	s.handled(t, s.create(t, "two"))
	three := s.create(t, "three")
	// The controller updates the directory as it was before the second Website, again and again.
	await(t, "updates that fail", func() bool { return updates.Hits() > 2 })
	held.Remove()
	s.handled(t, three)
	for _, name := range []string{"one", "two"} {
		s.directory(t, name, true)
	}
}

// TestEndedWatches ends the watches of the controller, and one of them cannot be resumed. The controller learns
// what has changed meanwhile.
func TestEndedWatches(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	s.startManager(t, "first")
	site := s.create(t, "hello")
	s.handled(t, site)

	// Nothing can be watched or listed until the Website has changed.
	down := s.server.Inject(t, espaliertest.Rule{Fault: espaliertest.Unavailable, User: user, Verbs: []string{"list", "watch"}, Strict: true})
	s.server.Inject(t, espaliertest.Rule{Fault: espaliertest.EndWatch, User: user, Resource: "websites", First: 1, Strict: true},
		espaliertest.Rule{Fault: espaliertest.Expired, User: user, Resource: "configmaps", First: 1, Strict: true})
	site.Spec.Replicas = 2
	s.must(t, s.client.Update(t.Context(), site))
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hello"}}
	s.must(t, s.client.Delete(t.Context(), configMap))
	await(t, "a watch that is rejected", func() bool { return down.Hits() > 1 })
	down.Remove()
	s.eventually(t, site, "hello", reports(site, metav1.ConditionFalse, "0 of 2 pods serve the page"))
	s.eventually(t, configMap, "hello", func() error { return nil })
}

// TestLostLease keeps the leader from renewing its lease: it stops, and the other manager takes over.
func TestLostLease(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	duration, deadline := 2500*time.Millisecond, 1500*time.Millisecond
	o := options()
	o.LeaseDuration, o.RenewDeadline = &duration, &deadline
	mgr, err := newManager(s.config(), o)
	s.must(t, err)
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(t.Context()) }()
	first := s.leader(t, "")
	s.handled(t, s.create(t, "one"))

	outage := s.server.Inject(t, espaliertest.Rule{Fault: espaliertest.Unavailable, User: user, Resource: "leases", Verbs: []string{"update"}, Strict: true})
	select {
	case err := <-stopped:
		if err == nil {
			t.Error("the leader stopped without an error")
		}
	case <-time.After(timeout):
		t.Fatal("the leader goes on without its lease")
	}
	outage.Remove()
	s.startManager(t, "second")
	s.leader(t, first)
	s.handled(t, s.create(t, "two"))
}

// TestChaos runs the controller while everything fails now and then.
func TestChaos(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s := newSession(t)
			for _, p := range espaliertest.Profiles() {
				if p.Name == "everything" {
					p.User = user
					s.server.Inject(t, espaliertest.Chaos(seed, p)...)
				}
			}
			s.startManager(t, "first")
			site := s.create(t, "hello")
			s.handled(t, site)
			s.must(t, s.client.Delete(t.Context(), site))
			s.gone(t, site, "hello")
			s.directory(t, "hello", false)
		})
	}
}
