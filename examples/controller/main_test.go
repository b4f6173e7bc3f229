package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"espalier.dev/espaliertest"
)

func TestMain(m *testing.M) {
	// Managers of a test may log after its end, so the log is not that of a test.
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	os.Exit(m.Run())
}

// timeout bounds a wait.
const timeout = time.Minute

// TestController drives a Website through its life, while two managers take turns: it is
// created, becomes ready, is changed and deleted.
func TestController(t *testing.T) {
	ctx := t.Context()
	s := newSession(t)
	stopFirst := s.startManager(t, "first")
	first := s.leader(t, "")
	s.startManager(t, "second")

	site := &Website{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hello"},
		Spec:       WebsiteSpec{Page: "<h1>Hello</h1>", Replicas: 2},
	}
	s.must(t, s.client.Create(ctx, site))

	// The objects, the finalizer, the entry in the directory, the status and the event.
	configMap, service, deployment := &corev1.ConfigMap{}, &corev1.Service{}, &appsv1.Deployment{}
	owned := []client.Object{configMap, service, deployment}
	for _, object := range owned {
		s.eventually(t, object, "hello", func() error {
			if owner := metav1.GetControllerOf(object); owner == nil || owner.UID != site.UID || owner.Kind != "Website" {
				return fmt.Errorf("its owner is %+v", owner)
			}
			return nil
		})
	}
	s.eventually(t, site, "hello", reports(site, metav1.ConditionFalse, "0 of 2 pods serve the page"))
	if !slices.Contains(site.Finalizers, finalizer) {
		t.Errorf("the finalizers are %q", site.Finalizers)
	}
	if got := configMap.Data["index.html"]; got != site.Spec.Page {
		t.Errorf("the page is %q", got)
	}
	if *deployment.Spec.Replicas != 2 || service.Spec.ClusterIP == "" {
		t.Errorf("replicas: %d, cluster IP: %q", *deployment.Spec.Replicas, service.Spec.ClusterIP)
	}
	s.directory(t, "hello", true)
	s.event(t, "Progressing", "0 of 2 pods serve the page")

	// No controller of Deployments runs here: the test reports the pods.
	s.deploy(t, 2)
	s.eventually(t, site, "hello", reports(site, metav1.ConditionTrue, "2 of 2 pods serve the page"))
	s.event(t, "Available", "2 of 2 pods serve the page")

	// A reconciliation that changes nothing writes nothing.
	s.must(t, s.client.Get(ctx, client.ObjectKeyFromObject(site), deployment))
	unchanged := deployment.ResourceVersion
	site.Annotations = map[string]string{"example.com/touched": "true"}
	s.must(t, s.client.Update(ctx, site))

	// An owned object that somebody deletes comes back.
	uid := configMap.UID
	s.must(t, s.client.Delete(ctx, configMap))
	s.eventually(t, configMap, "hello", func() error {
		if configMap.UID == uid || configMap.Data["index.html"] != site.Spec.Page {
			return fmt.Errorf("it is %+v", configMap)
		}
		return nil
	})
	s.must(t, s.client.Get(ctx, client.ObjectKeyFromObject(site), deployment))
	if deployment.ResourceVersion != unchanged {
		t.Errorf("an apply without changes wrote the deployment: %+v", deployment.ManagedFields)
	}

	// The second manager becomes the leader when the first one stops, and handles an update.
	stopFirst()
	if second := s.leader(t, first); second == first {
		t.Errorf("%s is still the leader", first)
	}
	s.must(t, s.client.Patch(ctx, site, client.RawPatch(types.MergePatchType, []byte(`{"spec": {"page": "<h1>Bye</h1>", "replicas": 3}}`))))
	s.eventually(t, site, "hello", reports(site, metav1.ConditionFalse, "2 of 3 pods serve the page"))
	s.eventually(t, configMap, "hello", func() error {
		if got := configMap.Data["index.html"]; got != "<h1>Bye</h1>" {
			return fmt.Errorf("the page is %q", got)
		}
		return nil
	})
	s.deploy(t, 3)
	s.eventually(t, site, "hello", reports(site, metav1.ConditionTrue, "3 of 3 pods serve the page"))
	if site.Generation != 2 {
		t.Errorf("the generation is %d", site.Generation)
	}

	// The finalizer runs before the Website is removed, and the garbage collector after it.
	s.must(t, s.client.Delete(ctx, site))
	for _, object := range append(owned, site) {
		s.gone(t, object, "hello")
	}
	s.directory(t, "hello", false)
	s.event(t, "Removed", "removed from the directory")
}

// TestDeletion deletes Websites in other ways: in the foreground, with their namespace, and
// without their objects.
func TestDeletion(t *testing.T) {
	ctx := t.Context()
	s := newSession(t)
	stop := s.startManager(t, "first")
	create := func(namespace, name string) (*Website, *appsv1.Deployment) {
		site := &Website{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: WebsiteSpec{Page: "x"}}
		s.must(t, s.client.Create(ctx, site))
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}
		s.eventually(t, deployment, name, func() error { return nil })
		return site, deployment
	}
	site, deployment := create("default", "foreground")
	s.must(t, s.client.Delete(ctx, site, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	s.gone(t, site, "foreground")
	s.gone(t, deployment, "foreground")

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}
	s.must(t, s.client.Create(ctx, namespace))
	site, deployment = create("team", "whole")
	s.must(t, s.client.Delete(ctx, namespace))
	s.gone(t, namespace, "team")
	s.gone(t, site, "whole")
	s.gone(t, deployment, "whole")

	// No controller runs while the objects lose their owner: one that does not know of the
	// deletion yet would apply the owner again.
	site, deployment = create("default", "orphan")
	stop()
	s.must(t, s.client.Delete(ctx, site, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	s.eventually(t, deployment, "orphan", func() error {
		if owners := deployment.OwnerReferences; len(owners) != 0 {
			return fmt.Errorf("it has owners: %+v", owners)
		}
		return nil
	})
	s.eventually(t, site, "orphan", func() error {
		if want := []string{finalizer}; !slices.Equal(site.Finalizers, want) {
			return fmt.Errorf("it has the finalizers %q", site.Finalizers)
		}
		return nil
	})
	s.startManager(t, "second")
	s.gone(t, site, "orphan")
	s.must(t, s.client.Get(ctx, client.ObjectKeyFromObject(deployment), deployment))
}

// reports returns a check that a Website's status describes its spec, with the condition Ready.
func reports(site *Website, status metav1.ConditionStatus, message string) func() error {
	return func() error {
		c := meta.FindStatusCondition(site.Status.Conditions, ready)
		if c == nil || c.Status != status || c.Message != message || c.ObservedGeneration != site.Generation || site.Status.ObservedGeneration != site.Generation {
			return fmt.Errorf("generation %d has the status %+v", site.Generation, site.Status)
		}
		return nil
	}
}

// session is a server with the CRD.
type session struct {
	server *espaliertest.Server
	client client.Client
}

func newSession(t *testing.T) *session {
	t.Helper()
	return newSessionOn(t, espaliertest.Start(t, espaliertest.WithCRDs("crd.yaml")))
}

// newSessionOn returns a session on a server with the CRD.
func newSessionOn(t *testing.T, server *espaliertest.Server) *session {
	t.Helper()
	s := &session{server: server}
	mgr, err := s.manager()
	if err != nil {
		t.Fatal(err)
	}
	s.client, err = client.New(s.server.Config(), client.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		t.Fatal(err)
	}
	s.createAll(t, "rbac.yaml")
	return s
}

// createAll creates the objects in a file.
func (s *session) createAll(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	s.must(t, err)
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), len(data))
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		s.must(t, s.client.Create(t.Context(), object))
	}
}

// user is the name of the controller's service account.
const user = "system:serviceaccount:default:" + leaseName

// config returns a client configuration with the access that rbac.yaml gives to the controller.
func (s *session) config() *rest.Config {
	config := s.server.Config()
	config.Impersonate.UserName = user
	config.Impersonate.Groups = []string{"system:serviceaccounts", "system:authenticated"}
	return config
}

// options returns the options of a manager.
func options() ctrl.Options {
	several := true // several managers run in this process
	return ctrl.Options{
		LeaderElectionNamespace: "default",
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		Controller:              ctrlconfig.Controller{SkipNameValidation: &several},
	}
}

// manager returns a manager with the access that rbac.yaml gives it.
func (s *session) manager() (ctrl.Manager, error) { return newManager(s.config(), options()) }

// startManager runs a manager until the returned function is called or the test ends.
func (s *session) startManager(t *testing.T, name string) (stop func()) {
	t.Helper()
	mgr, err := s.manager()
	if err != nil {
		t.Fatal(err)
	}
	return runManager(t, mgr, name)
}

// runManager runs a manager until the returned function is called or the test ends.
func runManager(t *testing.T, mgr ctrl.Manager, name string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("manager %s: %v", name, err)
		}
	}
	t.Cleanup(stop)
	return stop
}

func (s *session) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually reads an object until check succeeds. The namespace is that of the object, or
// default.
func (s *session) eventually(t *testing.T, object client.Object, name string, check func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		if last = s.client.Get(ctx, key(object, name), object); last == nil {
			last = check()
		}
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%T %s: %v", object, name, errors.Join(err, last))
	}
}

// gone waits until an object does not exist.
func (s *session) gone(t *testing.T, object client.Object, name string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		err := s.client.Get(ctx, key(object, name), object)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if err != nil {
		t.Fatalf("%T %s: %v; it is %+v", object, name, err, object)
	}
}

func key(object client.Object, name string) client.ObjectKey {
	if _, ok := object.(*corev1.Namespace); ok {
		return client.ObjectKey{Name: name}
	}
	namespace := object.GetNamespace()
	if namespace == "" {
		namespace = "default"
	}
	return client.ObjectKey{Namespace: namespace, Name: name}
}

// leader waits until a manager other than before is the leader, and returns its identity.
func (s *session) leader(t *testing.T, before string) (identity string) {
	t.Helper()
	lease := &coordinationv1.Lease{}
	s.eventually(t, lease, leaseName, func() error {
		if holder := lease.Spec.HolderIdentity; holder == nil || *holder == "" || *holder == before {
			return fmt.Errorf("the lease is %+v", lease.Spec)
		}
		identity = *lease.Spec.HolderIdentity
		return nil
	})
	return identity
}

// deploy writes the status of the Deployment hello, as the controller of Deployments would.
func (s *session) deploy(t *testing.T, available int32) {
	t.Helper()
	deployment := &appsv1.Deployment{}
	s.eventually(t, deployment, "hello", func() error {
		if *deployment.Spec.Replicas != available {
			return fmt.Errorf("it has %d replicas", *deployment.Spec.Replicas)
		}
		deployment.Status = appsv1.DeploymentStatus{
			ObservedGeneration: deployment.Generation,
			Replicas:           available, UpdatedReplicas: available, ReadyReplicas: available, AvailableReplicas: available,
		}
		return s.client.Status().Update(t.Context(), deployment)
	})
}

// directory checks whether the directory has a Website.
func (s *session) directory(t *testing.T, name string, want bool) {
	t.Helper()
	entries := &corev1.ConfigMap{}
	s.must(t, s.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: directory}, entries))
	if _, ok := entries.Data[name]; ok != want {
		t.Errorf("the directory is %q", entries.Data)
	}
}

// event waits for an event about the Website hello, which both APIs of events serve.
func (s *session) event(t *testing.T, reason, note string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		var list eventsv1.EventList
		if err := s.client.List(ctx, &list, client.InNamespace("default")); err != nil {
			return false, err
		}
		var core corev1.EventList
		err := s.client.List(ctx, &core, client.InNamespace("default"), client.MatchingFields{"involvedObject.kind": "Website", "reason": reason})
		return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Name == "hello" && e.Reason == reason && e.Note == note && e.ReportingController == leaseName
		}) && slices.ContainsFunc(core.Items, func(e corev1.Event) bool { return e.Message == note }), err
	})
	if err != nil {
		t.Fatalf("event %s %q: %v", reason, note, err)
	}
}
