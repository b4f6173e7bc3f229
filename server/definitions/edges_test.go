package definitions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/server/keys"
)

var errBroken = errors.New("broken")

// add stores a CRD of a name and returns it as it is read.
func (u *unit) add(name string, change func(*api.CustomResourceDefinition)) *stored {
	u.t.Helper()
	u.put(name, encoded(u.t, widgetsWith(func(c *api.CustomResourceDefinition) {
		plural, _, _ := strings.Cut(name, ".")
		c.Name, c.UID = name, types.UID(plural)
		c.Spec.Names = api.CustomResourceDefinitionNames{Plural: plural, Singular: plural, Kind: strings.ToUpper(plural), ListKind: strings.ToUpper(plural) + "List"}
		if change != nil {
			change(c)
		}
	})))
	found := u.read(u.store.Get(u.crds.Key("", name)), nil)
	if found == nil {
		u.t.Fatalf("%s cannot be read", name)
	}
	return found
}

// TestAdoptAll checks which CRDs get a fence at the start.
func TestAdoptAll(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	fill := func(u *unit) []*stored {
		changed := u.add("changed.example.com", nil)
		u.add("changed.example.com", func(c *api.CustomResourceDefinition) { c.Labels = map[string]string{"a": "b"} })
		return []*stored{nil, u.add("a.example.com", nil), changed,
			u.add("deleting.example.com", func(c *api.CustomResourceDefinition) { c.DeletionTimestamp = &now }), u.add("b.example.com", nil)}
	}
	u := newUnit(t, newDB(t), nil)
	if err := u.adoptAll(t.Context(), fill(u)); err != nil || !maps.Equal(u.fenced, map[types.UID]bool{"a": true, "b": true}) {
		t.Errorf("%v, fences %v", err, u.fenced)
	}
	if u.fence("a") != "Active" || u.fence("b") != "Active" || u.fence("changed")+u.fence("deleting") != "" {
		t.Errorf("%q, %q, %q, %q", u.fence("a"), u.fence("b"), u.fence("changed"), u.fence("deleting"))
	}
	// A full etcd is no reason not to serve CRDs, and any other failure is.
	for failure, fails := range map[error]bool{rpctypes.ErrNoSpace: false, errBroken: true} {
		u := newUnit(t, newDB(t), nil)
		list := fill(u)
		u.kv.err = failure
		if err := u.adoptAll(t.Context(), list); (err != nil) != fails || fails && !errors.Is(err, failure) || len(u.fenced) != 0 {
			t.Errorf("%v: %v, fences %v", failure, err, u.fenced)
		}
		if err := u.replace(t.Context(), u.internal(), u.store.Snapshot()); (err != nil) != fails || (len(u.known) == 0) != fails {
			t.Errorf("%v: %v, %d are known", failure, err, len(u.known))
		}
		for _, r := range u.retries {
			r.timer.Stop()
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	before := u.fenced
	if err := u.adoptAll(ended, nil); !errors.Is(err, context.Canceled) || len(u.fenced) != len(before) {
		t.Errorf("after the end: %v", err)
	}
	if names, _, err := u.readAll(ended, u.store.Snapshot()); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v, %v", names, err)
	}
	// A single CRD is tried again, unless this is the end.
	u.kv.err = errBroken
	late := u.add("late.example.com", nil)
	if u.adopt(ended, late.crd); len(u.retries) != 0 || u.fenced["late"] {
		t.Errorf("retries %v, fences %v", u.retries, u.fenced)
	}
	if u.adopt(t.Context(), late.crd); u.retries["late.example.com"] == nil || u.fenced["late"] {
		t.Errorf("retries %v, fences %v", u.retries, u.fenced)
	} else {
		u.retries["late.example.com"].timer.Stop()
	}
	u.kv.err = nil
	if u.adopt(t.Context(), late.crd); !u.fenced["late"] || u.fence("late") != "Active" {
		t.Errorf("fences %v", u.fenced)
	}
}

// TestReconcileOnce checks what a reconciliation writes.
func TestReconcileOnce(t *testing.T) {
	t.Parallel()
	u := newUnit(t, newDB(t), nil)
	s := u.internal()
	u.reconcile(t.Context(), s, "unknown.example.com") // it does nothing
	now := metav1.Now()
	for name, deleting := range map[string]bool{"a.example.com": false, "b.example.com": true} {
		change := func(c *api.CustomResourceDefinition) {
			if deleting {
				c.DeletionTimestamp, c.Finalizers = &now, []string{"example.com/other"}
			}
		}
		u.known[name] = u.add(name, change)
		u.reconcile(t.Context(), s, name)
		u.sync()
		entry := u.store.Get(u.crds.Key("", name))
		if u.known[name] = u.read(entry, u.known[name]); u.known[name].crd.Status.ObservedGeneration != 1 && len(u.known[name].crd.Status.Conditions) == 0 {
			t.Fatalf("%s: no status is written: %s", name, entry.Value)
		}
		// The status is as it should be: only the fence of what is not being deleted may be missing.
		uid := u.known[name].crd.UID
		if _, err := u.client.Delete(t.Context(), keys.Root("/registry/").Fences()+string(uid)); err != nil {
			t.Fatal(err)
		}
		clear(u.fenced)
		u.reconcile(t.Context(), s, name)
		want := map[bool]string{true: "", false: "Active"}[deleting]
		if got := u.fence(string(uid)); got != want || u.fenced[uid] == deleting {
			t.Errorf("%s: fence %q, want %q", name, got, want)
		}
		u.sync()
		if again := u.store.Get(u.crds.Key("", name)); again.Revision != entry.Revision {
			t.Errorf("%s: the same status is written again", name)
		}
	}
	// A CRD that is gone is not tried again.
	known := u.known["a.example.com"]
	if _, err := u.client.Delete(t.Context(), u.crds.Key("", "a.example.com")); err != nil {
		t.Fatal(err)
	}
	if u.writeStatus(t.Context(), s, known.crd, known.crd.Status); len(u.retries) != 0 {
		t.Errorf("retries %v", u.retries)
	}
}

// lines are the lines of a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestFinish checks that a deletion stops at the first step that fails.
func TestFinish(t *testing.T) {
	t.Parallel()
	u := newUnit(t, newDB(t), nil)
	s := u.internal()
	now := metav1.Now()
	deleting := func(c *api.CustomResourceDefinition) {
		c.DeletionTimestamp, c.Finalizers = &now, []string{api.CustomResourceCleanupFinalizer}
	}
	c := u.add(widgets, deleting).crd
	other := c.DeepCopy()
	other.UID = "w"
	if err := u.finish(t.Context(), other); !apierrors.IsNotFound(err) {
		t.Errorf("another UID: %v", err)
	}
	if _, err := u.client.Put(t.Context(), "/registry/example.com/widgets/default/a", `{"metadata":{"finalizers":["example.com/wait"]}}`); err != nil {
		t.Fatal(err)
	}
	if err := u.finish(t.Context(), c); !errors.Is(err, errRemaining) || u.stored(widgets) == nil {
		t.Errorf("an object is left: %v", err)
	}
	for i, logged := range []bool{false, true} {
		log, verbosity := &lines{}, i+1
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(log), textlogger.Verbosity(verbosity)))))
		revision := u.store.Revision()
		u.cleanUp(ctx, c)
		u.eventually("it reports what is left", func() bool {
			u.sync()
			return u.store.Get(u.crds.Key("", widgets)).Revision > revision || log.String() != "" // the report changes nothing the second time
		})
		cancel()
		u.cleanups.Wait()
		if got := log.String(); strings.Contains(got, "is not complete") != logged {
			t.Errorf("verbosity %d: logged %q", verbosity, got)
		}
	}
	u.kv.err = errBroken
	if _, err := u.client.Put(t.Context(), "/registry/example.com/widgets/default/a", `{}`); err != nil {
		t.Fatal(err)
	}
	if err := u.deleteObjects(t.Context(), c); !errors.Is(err, errBroken) {
		t.Errorf("an object that cannot be deleted: %v", err)
	}
	u.kv.err = nil
	// The CRD changes while it is read.
	u.kv.before = func() {
		u.kv.before = nil
		u.add(widgets, func(c *api.CustomResourceDefinition) { deleting(c); c.Labels = map[string]string{"a": "b"} })
	}
	if err := s.close(t.Context(), widgets, c.UID); !errors.Is(err, errChanged) {
		t.Errorf("a CRD that changes: %v", err)
	}
	u.sync()
	u.kv.err = errBroken
	other.Name, other.UID = "open.example.com", "open"
	u.add("open.example.com", deleting)
	if err := s.close(t.Context(), "open.example.com", "open"); !errors.Is(err, errBroken) {
		t.Errorf("a fence that cannot be written: %v", err)
	}
	u.kv.err = nil

	// A deletion that is running is not started again.
	u.cleaning.Store(c.UID, true)
	u.cleanUp(t.Context(), c)
	if u.cleanups.Wait(); u.stored(widgets) == nil {
		t.Error("the deletion has two goroutines")
	}
	u.cleaning.Delete(c.UID)
	u.cleanUp(t.Context(), c)
	if u.cleanups.Wait(); u.stored(widgets) != nil {
		t.Error("the CRD is left")
	}

	// The other finalizers disappear between the steps.
	u.add(widgets, func(c *api.CustomResourceDefinition) {
		deleting(c)
		c.Finalizers = append(c.Finalizers, "example.com/other")
	})
	racing := *s.Store
	calls := 0
	racing.NewFunc = func() runtime.Object {
		if calls++; calls == 2 {
			u.add(widgets, deleting)
		}
		return s.NewFunc()
	}
	if err := (&crdStorage{Store: &racing, definitions: u.Definitions}).release(t.Context(), widgets, "widgets"); err == nil || !strings.Contains(err.Error(), "the other finalizers are gone") ||
		!slices.Equal(u.stored(widgets).Finalizers, []string{api.CustomResourceCleanupFinalizer}) {
		t.Errorf("%v, finalizers %v", err, u.stored(widgets).Finalizers)
	}
	for pause, want := range map[time.Duration]time.Duration{50 * time.Millisecond: 100 * time.Millisecond, 4 * time.Second: 5 * time.Second} {
		if got := longer(pause); got != want {
			t.Errorf("a pause of %v after %v", got, pause)
		}
	}
}

// TestDeleteUnreadableRace checks that a CRD that changes while it is marked as deleted stays, and that
// one that waits for nothing is deleted at once.
func TestDeleteUnreadableRace(t *testing.T) {
	t.Parallel()
	u := newUnit(t, newDB(t), nil)
	s := u.internal()
	bad := strings.Replace(encoded(t, widgetsWith(nil)), `"type":"object"`, `"type":"object","description":5`, 1)
	u.put(widgets, bad)
	changed := strings.Replace(bad, `"description":5`, `"description":6`, 1)
	u.kv.before = func() {
		u.kv.before = nil
		u.put(widgets, changed)
	}
	if out, done, err := s.Delete(t.Context(), widgets, admitted, &metav1.DeleteOptions{}); err == nil || out != nil || done || u.value(u.crds.Key("", widgets)) != changed {
		t.Errorf("%v, %v, %v", out, done, err)
	}
	u.put(widgets, strings.NewReplacer(`"group":"example.com"`, `"group":5`, `"uid":"u"`, `"uid":"u","deletionTimestamp":"2020-01-01T00:00:00Z"`).Replace(bad))
	if _, done, err := s.Delete(t.Context(), widgets, admitted, &metav1.DeleteOptions{}); err != nil || !done || u.value(u.crds.Key("", widgets)) != "" {
		t.Errorf("%v, %v", done, err)
	}
}

// TestSettle checks that a write waits until the catalog has it.
func TestSettle(t *testing.T) {
	t.Parallel()
	u := newUnit(t, newDB(t), nil)
	u.settle(t.Context(), nil) // a write that has failed waits for nothing
	done := make(chan struct{})
	go func() {
		defer close(done)
		u.settle(t.Context(), widgetsWith(func(c *api.CustomResourceDefinition) { c.ResourceVersion = "7" }))
	}()
	select {
	case <-done:
		t.Error("it has not waited")
	case <-time.After(20 * time.Millisecond):
	}
	u.progress.Reach(7)
	<-done
}

// TestSlow checks that CRDs are read again after the reconciler was too slow for all events, and that
// events that come together are all taken in.
func TestSlow(t *testing.T) {
	t.Parallel()
	for _, events := range []int{3, 100} { // the store keeps 64
		u := newUnit(t, newDB(t), nil)
		log := &lines{}
		entered, leave := make(chan struct{}), make(chan struct{})
		once := sync.OnceFunc(func() { close(entered); <-leave })
		u.Subscribe(func(_ *crd.Catalog, names ...string) {
			if slices.Contains(names, widgets) {
				once()
			}
		})
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(log)))))
		done := make(chan error, 1)
		go func() { done <- u.Run(ctx) }()
		<-u.Ready()
		u.put(widgets, encoded(t, widgetsWith(nil)))
		<-entered
		for i := range events {
			u.add(fmt.Sprintf("x%d.example.com", i), nil)
		}
		close(leave)
		last := fmt.Sprintf("x%d.example.com", events-1)
		u.eventually("the last one is served", func() bool { return u.Catalog().Get(last) != nil })
		if err := u.Await(t.Context(), u.store.Get(u.crds.Key("", last)).Revision); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := log.String(); strings.Contains(got, "Reading all CRDs again") != (events > 64) {
			t.Errorf("%d events: logged %s", events, got)
		}
	}
}
