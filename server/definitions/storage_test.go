package definitions

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/server/keys"
	"espalier.dev/store"
)

// TestWriteCondition checks that a condition is written to the CRD that it is about, and to no other
// state of it.
func TestWriteCondition(t *testing.T) {
	t.Parallel()
	u := newUnit(t, newDB(t), nil)
	of := func(change func(*api.CustomResourceDefinition)) *crd.Definition {
		d, err := crd.New(widgetsWith(change), crd.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	plain := encoded(t, widgetsWith(nil))
	now := metav1.Now()
	condition := api.CustomResourceDefinitionCondition{Type: api.Compliant, Status: api.ConditionFalse, Reason: "R", Message: "m"}
	anyError := func(err error) bool { return err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) }
	for name, test := range map[string]struct {
		stored string
		of     *crd.Definition
		fails  func(error) bool
	}{
		"the same":           {plain, of(nil), nil},
		"without a status":   {strings.Replace(plain, `"status":`, `"other":`, 1), of(nil), nil},
		"another UID":        {plain, of(func(c *api.CustomResourceDefinition) { c.UID = "w" }), apierrors.IsNotFound},
		"another generation": {plain, of(func(c *api.CustomResourceDefinition) { c.Generation++ }), apierrors.IsConflict},
		"deleted":            {encoded(t, widgetsWith(func(c *api.CustomResourceDefinition) { c.DeletionTimestamp = &now })), of(nil), apierrors.IsNotFound},
		"not stored":         {plain, of(func(c *api.CustomResourceDefinition) { c.Name = "others.example.com" }), apierrors.IsNotFound},
		"not decrypted":      {plain, of(func(c *api.CustomResourceDefinition) { c.Name = "closed.example.com" }), apierrors.IsNotFound},
		"unreadable":         {`{`, of(nil), anyError},
	} {
		u.put("closed.example.com", plain)
		u.put(widgets, test.stored)
		before := u.value(u.crds.Key("", widgets))
		err := u.WriteCondition(t.Context(), test.of, condition)
		if test.fails != nil {
			if !test.fails(err) || u.value(u.crds.Key("", widgets)) != before {
				t.Errorf("%s: got %v", name, err)
			}
			continue
		}
		if got := u.condition(widgets, api.Compliant); err != nil || got.Status != api.ConditionFalse || got.Reason != "R" || got.Message != "m" || got.ObservedGeneration != 1 || got.LastTransitionTime.IsZero() {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
		if u.fence("u") != "Active" {
			t.Errorf("%s: written without a fence", name)
		}
	}
	u.put(widgets, plain)
	u.handler.Close()
	if err := u.WriteCondition(t.Context(), of(nil), condition); !anyError(err) {
		t.Errorf("after the end: %v", err)
	}
}

// TestRefresh checks that a caller that asks for a CRD waits until the catalog has it, and that one that
// cannot be read is not one that does not exist.
func TestRefresh(t *testing.T) {
	t.Parallel()
	u := newUnit(t, newDB(t), nil)
	if err := u.Refresh(t.Context(), widgets); err != nil {
		t.Errorf("a CRD that does not exist: %v", err)
	}
	u.put(widgets, encoded(t, widgetsWith(nil)))
	reached := atomic.Bool{}
	done := make(chan error, 1)
	go func() {
		err := u.Refresh(t.Context(), widgets)
		if !reached.Load() {
			err = errors.New("it has not waited")
		}
		done <- err
	}()
	time.Sleep(20 * time.Millisecond)
	reached.Store(true)
	u.progress.Reach(uint64(u.store.Revision()))
	if err := <-done; err != nil {
		t.Error(err)
	}
	u.leftOut.Store(widgets, true)
	if err := u.Refresh(t.Context(), widgets); !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), u.crds.Key("", widgets)) {
		t.Errorf("a CRD that cannot be read: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := u.Refresh(ended, "others.example.com"); !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "others.example.com") {
		t.Errorf("an etcd that does not answer: %v", err)
	}
	if err := u.Await(ended, u.store.Revision()+1); !errors.Is(err, context.Canceled) {
		t.Errorf("a revision that is not reached: %v", err)
	}
	if err := u.Await(ended, u.store.Revision()); err != nil {
		t.Errorf("a revision that is reached: %v", err)
	}
}

// TestRunEnds checks which ends are errors.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newUnit(t, db, nil).Run(ended); err != nil {
		t.Errorf("stopped: %v", err)
	}
	u := newUnit(t, db, nil)
	u.handler.Close()
	if err := u.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "lost track of the CRDs") {
		t.Errorf("without a storage: %v", err)
	}
	u = newUnit(t, db, nil)
	done := make(chan error, 1)
	go func() { done <- u.Run(t.Context()) }()
	<-u.Ready()
	u.store.Close()
	if err := <-done; !errors.Is(err, store.ErrClosed) || !strings.Contains(err.Error(), "lost track of the CRDs") {
		t.Errorf("without a store: %v", err)
	}
}

// initial is a Compliance that knows the conditions of CRDs without objects.
type initial struct {
	condition *api.CustomResourceDefinitionCondition
}

func (i initial) Initial(*crd.Definition) *api.CustomResourceDefinitionCondition { return i.condition }

func (initial) Warnings(_ context.Context, old, next *api.CustomResourceDefinition) []string {
	return []string{old.Name + " becomes " + next.Name}
}

// TestReconcile checks what happens to CRDs that another program stores, changes and removes.
func TestReconcile(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	u := newUnit(t, db, func(c *Config) {
		c.Compliance = initial{&api.CustomResourceDefinitionCondition{Type: api.Compliant, Status: api.ConditionTrue, Reason: "R"}}
	})
	var changes atomic.Int64
	u.Subscribe(func(_ *crd.Catalog, names ...string) {
		if slices.Contains(names, widgets) {
			changes.Add(1)
		}
	})
	stop := u.run()
	u.put(widgets, encoded(t, widgetsWith(nil)))
	u.eventually("it is established", func() bool { return u.condition(widgets, api.Established).Status == api.ConditionTrue })
	if got := u.condition(widgets, api.Compliant); got.Status != api.ConditionTrue || got.Reason != "R" {
		t.Errorf("the condition of a CRD without objects: %v", got)
	}
	if u.fence("u") != "Active" || u.Catalog().Get(widgets) == nil || changes.Load() == 0 || u.Progress() == 0 {
		t.Errorf("fence %q, %d changes, progress %d", u.fence("u"), changes.Load(), u.Progress())
	}
	if err := u.Catalog().Get(widgets).Load(); err != nil || u.Loaded() == 0 {
		t.Errorf("%v, loaded %d times", err, u.Loaded())
	}

	// Another server has written a CRD with its status: only its fence is missing.
	final := u.value(u.crds.Key("", widgets))
	gadgets := strings.NewReplacer("widget", "gadget", "Widget", "Gadget", `"uid":"u"`, `"uid":"g"`).Replace(final)
	u.put("gadgets.example.com", gadgets)
	u.eventually("it has a fence", func() bool { return u.fence("g") == "Active" })
	if got := u.value(u.crds.Key("", "gadgets.example.com")); got != gadgets {
		t.Errorf("the CRD has changed: %s", got)
	}

	// A value that cannot be read is left out until it is repaired.
	u.put(widgets, `{"apiVersion":`)
	u.eventually("it is left out", func() bool { return u.Catalog().Get(widgets) == nil })
	if err := u.Refresh(t.Context(), widgets); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a CRD that is left out: %v", err)
	}
	u.put(widgets, final)
	u.eventually("it is back", func() bool { return u.Catalog().Get(widgets) != nil })
	if err := u.Refresh(t.Context(), widgets); err != nil {
		t.Errorf("a repaired CRD: %v", err)
	}

	// A new one of the same name has another fence.
	u.put(widgets, strings.Replace(final, `"uid":"u"`, `"uid":"v"`, 1))
	u.eventually("the new one has a fence", func() bool { return u.fence("v") == "Active" })

	// Fences that are missing at the start are created.
	stop()
	if !u.fenced["g"] || !u.fenced["v"] || u.fenced["u"] {
		t.Errorf("fences %v", u.fenced)
	}
	if _, err := u.client.Delete(t.Context(), keys.Root("/registry/").Fences(), clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	now := metav1.Now()
	u.put("olds.example.com", encoded(t, widgetsWith(func(c *api.CustomResourceDefinition) {
		c.Name, c.UID, c.DeletionTimestamp, c.Finalizers = "olds.example.com", "o", &now, []string{"example.com/other"}
	})))
	u.put("bads.example.com", `{`)
	next := newUnit(t, db, nil)
	stop = next.run()
	if next.fence("v") != "Active" || next.fence("g") != "Active" || next.fence("o") == "Active" {
		t.Errorf("fences %q, %q, %q", next.fence("v"), next.fence("g"), next.fence("o"))
	}
	if next.Progress() < 4+3 {
		t.Errorf("4 CRDs were read and 3 reconciled, but the progress is %d", next.Progress())
	}
	if err := next.Refresh(t.Context(), "bads.example.com"); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a CRD that cannot be read at the start: %v", err)
	}
	if _, err := next.client.Delete(t.Context(), next.crds.Key("", "bads.example.com")); err != nil {
		t.Fatal(err)
	}
	next.eventually("it is gone", func() bool { return next.Refresh(t.Context(), "bads.example.com") == nil })
	stop()
	if !next.fenced["v"] || !next.fenced["g"] {
		t.Errorf("fences %v", next.fenced)
	}
}

// TestNoCompliance checks that a CRD that is being deleted, or whose condition is not known, gets none.
func TestNoCompliance(t *testing.T) {
	t.Parallel()
	known := &api.CustomResourceDefinitionCondition{Type: api.Compliant, Status: api.ConditionTrue, Reason: "R"}
	now := metav1.Now()
	for name, test := range map[string]struct {
		compliance Compliance
		deleted    *metav1.Time
		want       int
	}{
		"not checked": {nil, nil, 0}, "not known": {initial{}, nil, 0}, "known": {initial{known}, nil, 1}, "deleted": {initial{known}, &now, 0},
	} {
		d, err := crd.New(widgetsWith(func(c *api.CustomResourceDefinition) { c.DeletionTimestamp = test.deleted }), crd.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := (&Definitions{config: Config{Compliance: test.compliance}}).withCompliance(api.CustomResourceDefinitionStatus{}, d)
		if len(got.Conditions) != test.want || test.want > 0 && (got.Conditions[0].Reason != "R" || got.Conditions[0].ObservedGeneration != 1) {
			t.Errorf("%s: got %v", name, got.Conditions)
		}
	}
}

// waiting are other servers that reach a revision when the test says so.
type waiting struct {
	ready   chan struct{}
	reached atomic.Int64
}

func (w *waiting) Reach(revision int64) { w.reached.Store(revision) }

func (w *waiting) Reached(context.Context, int64) (bool, error) { return false, nil }

func (w *waiting) Await(ctx context.Context, _ int64) error {
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestOtherServers checks that a CRD becomes established when other servers can serve it.
func TestOtherServers(t *testing.T) {
	t.Parallel()
	peers := &waiting{ready: make(chan struct{})}
	u := newUnit(t, newDB(t), func(c *Config) { c.Peers = peers })
	u.run()
	u.put(widgets, encoded(t, widgetsWith(nil)))
	u.eventually("it is served here", func() bool { return u.Catalog().Get(widgets) != nil })
	u.eventually("the others know", func() bool { return peers.reached.Load() >= u.store.Revision() })
	if got := u.condition(widgets, api.Established); got.Status == api.ConditionTrue {
		t.Errorf("established before others can serve it: %v", got)
	}
	close(peers.ready)
	u.eventually("it is established", func() bool { return u.condition(widgets, api.Established).Status == api.ConditionTrue })
}

// TestDeletionSteps takes the steps of the deletion of a CRD one by one.
func TestDeletionSteps(t *testing.T) {
	t.Parallel()
	u := newUnit(t, newDB(t), nil)
	s := u.internal()
	now := metav1.Now()
	put := func(name string, established bool, finalizers ...string) *api.CustomResourceDefinition {
		t.Helper()
		c := widgetsWith(func(c *api.CustomResourceDefinition) {
			c.Name, c.DeletionTimestamp, c.Finalizers = name, &now, finalizers
			if established {
				c.Status.Conditions = []api.CustomResourceDefinitionCondition{{Type: api.Established, Status: api.ConditionTrue}}
			}
		})
		u.put(name, encoded(t, c))
		return c
	}
	c := put(widgets, true, api.CustomResourceCleanupFinalizer, "example.com/other")
	if err := s.close(t.Context(), widgets, "w"); !apierrors.IsNotFound(err) || u.fence("u") != "" {
		t.Errorf("another UID: %v, fence %q", err, u.fence("u"))
	}
	if err := s.close(t.Context(), "others.example.com", "u"); !apierrors.IsNotFound(err) {
		t.Errorf("another name: %v", err)
	}
	if err := s.close(t.Context(), widgets, "u"); err != nil || u.fence("u") != "Terminating" {
		t.Errorf("%v, fence %q", err, u.fence("u"))
	}
	for why, want := range map[error]string{errRemaining: api.ReasonInstanceDeletionCheck, errors.New("broken"): api.ReasonInstanceDeletionFailed} {
		u.report(t.Context(), c, why)
		if got := u.condition(widgets, api.Terminating); got.Status != api.ConditionTrue || got.Reason != want || got.Message != why.Error() {
			t.Errorf("%v: got %v", why, got)
		}
	}
	other := c.DeepCopy()
	other.UID = "w"
	before := u.value(u.crds.Key("", widgets))
	u.report(t.Context(), other, errRemaining)
	if err := s.release(t.Context(), widgets, "w"); err == nil || u.value(u.crds.Key("", widgets)) != before {
		t.Errorf("a CRD with another UID has changed: %v", err)
	}

	for _, test := range []struct {
		name        string
		established bool
		want        string
	}{
		{widgets, true, api.ReasonInstanceDeletionCompleted}, {widgets, false, "NeverEstablished"}, {Name, true, api.ReasonOverlappingBuiltIn},
	} {
		put(test.name, test.established, api.CustomResourceCleanupFinalizer, "example.com/other")
		if err := s.release(t.Context(), test.name, "u"); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		got := u.condition(test.name, api.Terminating)
		if c := u.stored(test.name); c == nil || !slices.Equal(c.Finalizers, []string{"example.com/other"}) || got.Status != api.ConditionFalse || got.Reason != test.want || got.Message == "" {
			t.Errorf("%s: got %v", test.name, got)
		}
	}
	put(widgets, true, api.CustomResourceCleanupFinalizer)
	if err := s.release(t.Context(), widgets, "u"); err != nil || u.stored(widgets) != nil || u.fence("u") != "" {
		t.Errorf("it is not deleted: %v, fence %q", err, u.fence("u"))
	}
	if err := s.release(t.Context(), widgets, "u"); !apierrors.IsNotFound(err) {
		t.Errorf("it is deleted twice: %v", err)
	}
	// The cleanup of a CRD that is gone ends.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	u.cleanUp(ctx, c)
	if u.cleanups.Wait(); ctx.Err() != nil {
		t.Error("the cleanup of a CRD that is gone goes on")
	}
	// The objects of the CRD of CRDs would be all CRDs.
	if err := u.deleteObjects(t.Context(), put(Name, true)); err != nil || u.stored(Name) == nil {
		t.Errorf("the CRDs are deleted: %v", err)
	}
	u.handler.Close()
	if err := u.finish(t.Context(), c); err == nil {
		t.Error("a deletion ends without a storage")
	}
	u.report(t.Context(), c, errRemaining) // it does nothing
}

// TestSetTerminating checks that a condition is replaced, and that its time is that of its last
// change.
func TestSetTerminating(t *testing.T) {
	t.Parallel()
	c := definitionOf()
	c.Status.Conditions = []api.CustomResourceDefinitionCondition{{Type: api.Established, Status: api.ConditionTrue}}
	if !established(c) {
		t.Error("not established")
	}
	setTerminating(c, api.ConditionTrue, "R", "m")
	if len(c.Status.Conditions) != 2 || c.Status.Conditions[1].Reason != "R" || c.Status.Conditions[1].Message != "m" || c.Status.Conditions[1].ObservedGeneration != 2 {
		t.Fatalf("got %v", c.Status.Conditions)
	}
	before := metav1.NewTime(time.Unix(1000, 0))
	c.Status.Conditions[1].LastTransitionTime = before
	setTerminating(c, api.ConditionTrue, "S", "n")
	if got := c.Status.Conditions[1]; len(c.Status.Conditions) != 2 || got.Reason != "S" || !got.LastTransitionTime.Equal(&before) {
		t.Errorf("got %v", c.Status.Conditions)
	}
	setTerminating(c, api.ConditionFalse, "S", "n")
	if got := c.Status.Conditions[1]; len(c.Status.Conditions) != 2 || got.Status != api.ConditionFalse || got.LastTransitionTime.Equal(&before) {
		t.Errorf("got %v", c.Status.Conditions)
	}
	c.Status.Conditions = []api.CustomResourceDefinitionCondition{{Type: api.Established, Status: api.ConditionFalse}, {Type: api.NamesAccepted, Status: api.ConditionTrue}}
	if established(c) {
		t.Error("established")
	}
}
