package definitions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"espalier.dev/api"
	"espalier.dev/store"
)

// admitted is the admission of a deletion that is allowed.
func admitted(context.Context, runtime.Object) error { return nil }

// TestDelete checks what a deletion writes, and which deletions are rejected.
func TestDelete(t *testing.T) {
	t.Parallel()
	u := newUnit(t, newDB(t), nil)
	s := u.internal()
	text := encoded(t, widgetsWith(func(c *api.CustomResourceDefinition) { c.Finalizers = []string{"example.com/other"} }))
	u.put(widgets, text)
	u.progress.Reach(1 << 40) // nothing waits for a reconciler
	uid, other := types.UID("u"), types.UID("w")
	read, err := s.Get(t.Context(), widgets, &metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	current, outdated := read.(metav1.Object).GetResourceVersion(), "1"
	denied := errors.New("denied")
	for name, test := range map[string]struct {
		validate func(context.Context, runtime.Object) error
		options  metav1.DeleteOptions
		fails    func(error) bool
	}{
		"another UID":       {admitted, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}}, apierrors.IsConflict},
		"another revision":  {admitted, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &outdated}}, apierrors.IsConflict},
		"not admitted":      {func(context.Context, runtime.Object) error { return denied }, metav1.DeleteOptions{}, func(err error) bool { return err != nil }},
		"only a try":        {admitted, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}, nil},
		"a try, not denied": {admitted, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}, Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &current}}, nil},
	} {
		out, done, err := s.Delete(t.Context(), widgets, test.validate, &test.options)
		if test.fails != nil && (!test.fails(err) || out != nil) || test.fails == nil && (err != nil || out.(metav1.Object).GetDeletionTimestamp() == nil) || done {
			t.Errorf("%s: %v, %v, %v", name, out, done, err)
		}
		if got := u.value(u.crds.Key("", widgets)); got != text {
			t.Fatalf("%s: the CRD has changed: %s", name, got)
		}
	}
	if _, _, err := s.Delete(t.Context(), "others.example.com", admitted, &metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a CRD that does not exist: %v", err)
	}
	out, done, err := s.Delete(t.Context(), widgets, admitted, &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &current}})
	if err != nil || done || out.(metav1.Object).GetDeletionTimestamp() == nil {
		t.Errorf("%v, %v, %v", out, done, err)
	}
	c := u.stored(widgets)
	if !slices.Equal(c.Finalizers, []string{"example.com/other", api.CustomResourceCleanupFinalizer}) || c.DeletionTimestamp == nil || u.fence("u") != "Terminating" {
		t.Errorf("got %v, fence %q", c.ObjectMeta, u.fence("u"))
	}
	if got := u.condition(widgets, api.Terminating); got.Status != api.ConditionTrue || got.Reason != api.ReasonInstanceDeletionPending || got.Message == "" {
		t.Errorf("got %v", got)
	}
	// It is being deleted: it still waits for its finalizers.
	if _, done, err := s.Delete(t.Context(), widgets, admitted, &metav1.DeleteOptions{}); err != nil || done {
		t.Errorf("deleted twice: %v, %v", done, err)
	}
	if again := u.stored(widgets); !again.DeletionTimestamp.Equal(c.DeletionTimestamp) || !slices.Equal(again.Finalizers, c.Finalizers) {
		t.Errorf("got %v", again.ObjectMeta)
	}
	// A deletion that has deleted the objects does not begin again.
	u.put(widgets, encoded(t, widgetsWith(func(c *api.CustomResourceDefinition) {
		c.DeletionTimestamp, c.Finalizers = new(metav1.Now()), []string{"example.com/other"}
	})))
	if _, done, err := s.Delete(t.Context(), widgets, admitted, &metav1.DeleteOptions{}); err != nil || done || !slices.Equal(u.stored(widgets).Finalizers, []string{"example.com/other"}) {
		t.Errorf("%v, %v, finalizers %v", done, err, u.stored(widgets).Finalizers)
	}
}

// TestDeleteSeveral checks that each CRD of a collection is deleted like a single one.
func TestDeleteSeveral(t *testing.T) {
	t.Parallel()
	u := newUnit(t, newDB(t), nil)
	s := u.internal()
	u.progress.Reach(1 << 40)
	for i := range 3 {
		name := fmt.Sprintf("%ds.example.com", i)
		u.put(name, encoded(t, widgetsWith(func(c *api.CustomResourceDefinition) { c.Name, c.UID = name, types.UID(name) })))
	}
	failed := errors.New("denied")
	list, err := s.DeleteCollection(t.Context(), func(_ context.Context, obj runtime.Object) error {
		if obj.(metav1.Object).GetName() == "1s.example.com" {
			return failed
		}
		return nil
	}, &metav1.DeleteOptions{}, &metainternalversion.ListOptions{})
	if err == nil || list == nil || len(list.(*api.CustomResourceDefinitionList).Items) != 3 {
		t.Errorf("got %v, %v", list, err)
	}
	for i, deleted := range []bool{true, false, false} {
		if c := u.stored(fmt.Sprintf("%ds.example.com", i)); (c.DeletionTimestamp != nil) != deleted {
			t.Errorf("%s: deleted at %v", c.Name, c.DeletionTimestamp)
		}
	}
	// A CRD that is gone meanwhile is no error.
	if _, err := s.DeleteCollection(t.Context(), func(_ context.Context, obj runtime.Object) error {
		if obj.(metav1.Object).GetName() == "1s.example.com" {
			return apierrors.NewNotFound(s.DefaultQualifiedResource, "1s.example.com")
		}
		return nil
	}, &metav1.DeleteOptions{}, &metainternalversion.ListOptions{}); err != nil || u.stored("2s.example.com").DeletionTimestamp == nil {
		t.Errorf("one is gone: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if list, err := s.DeleteCollection(ended, admitted, &metav1.DeleteOptions{}, &metainternalversion.ListOptions{}); err == nil {
		t.Errorf("a list that fails: %v", list)
	}
}

// TestDeleteUnreadable checks the deletion of a CRD whose schema cannot be decoded.
func TestDeleteUnreadable(t *testing.T) {
	t.Parallel()
	u := newUnit(t, newDB(t), nil)
	s := u.internal()
	good := encoded(t, widgetsWith(nil))
	bad := strings.Replace(good, `"type":"object"`, `"type":"object","description":5`, 1)
	key := u.crds.Key("", widgets)
	remove := func(validate func(context.Context, runtime.Object) error, o metav1.DeleteOptions) (runtime.Object, bool, error) {
		u.sync()
		return s.Delete(t.Context(), widgets, validate, &o)
	}
	other := types.UID("w")
	denied := errors.New("denied")
	finalizers := strings.Replace(bad, `"uid":"u"`, `"uid":"u","finalizers":["example.com/other"]`, 1)
	deleting := strings.Replace(bad, `"uid":"u"`, `"uid":"u","deletionTimestamp":"2020-01-01T00:00:00Z","finalizers":["example.com/other"]`, 1)
	for name, test := range map[string]struct {
		stored   string
		validate func(context.Context, runtime.Object) error
		options  metav1.DeleteOptions
		fails    func(error) bool
	}{
		"finalizers":       {finalizers, admitted, metav1.DeleteOptions{}, apierrors.IsServiceUnavailable},
		"another UID":      {bad, admitted, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}}, apierrors.IsConflict},
		"not admitted":     {bad, func(context.Context, runtime.Object) error { return denied }, metav1.DeleteOptions{}, func(err error) bool { return errors.Is(err, denied) }},
		"only a try":       {bad, admitted, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}, nil},
		"already deleting": {deleting, func(context.Context, runtime.Object) error { return denied }, metav1.DeleteOptions{}, nil},
	} {
		u.put(widgets, test.stored)
		out, done, err := remove(test.validate, test.options)
		if (err == nil) != (test.fails == nil) || test.fails != nil && !test.fails(err) || err == nil && out.(metav1.Object).GetName() != widgets || done {
			t.Errorf("%s: %v, %v, %v", name, out, done, err)
		}
		if got := u.value(key); got != test.stored {
			t.Errorf("%s: the CRD has changed: %s", name, got)
		}
	}
	u.put(widgets, bad)
	if out, done, err := remove(admitted, metav1.DeleteOptions{}); err != nil || done || out.(metav1.Object).GetName() != widgets {
		t.Errorf("%v, %v, %v", out, done, err)
	}
	if got := u.value(key); !strings.Contains(got, `"description":5`) || !strings.Contains(got, `"deletionTimestamp":"`) || !strings.Contains(got, api.CustomResourceCleanupFinalizer) || u.fence("u") != "Terminating" {
		t.Errorf("got %s, fence %q", got, u.fence("u"))
	}
	// Nobody knows the objects of a CRD without a group.
	u.put(widgets, strings.Replace(bad, `"group":"example.com"`, `"group":5`, 1))
	if _, done, err := remove(admitted, metav1.DeleteOptions{}); err != nil || !done || u.value(key) != "" {
		t.Errorf("%v, %v, stored %s", done, err, u.value(key))
	}
	// The CRD has changed since it was read.
	c := widgetsWith(func(c *api.CustomResourceDefinition) { c.ResourceVersion = "1" })
	for _, stored := range []string{"", bad} {
		if stored != "" {
			u.put(widgets, stored)
		}
		u.sync()
		if out, done, err := s.deleteUnreadable(t.Context(), c, c, admitted, &metav1.DeleteOptions{}); !apierrors.IsConflict(err) || done || out != nil {
			t.Errorf("%q: %v, %v, %v", stored, out, done, err)
		}
	}
	if _, err := s.rewrite(t.Context(), widgets, only("u", formatRevision(u.store.Get(key).Revision)), false, func(*api.CustomResourceDefinition, runtime.Object) error { return nil }); !apierrors.IsServiceUnavailable(err) || u.value(key) != bad {
		t.Errorf("an unreadable CRD is rewritten: %v", err)
	}
}

// TestCleanUp checks that the objects of a deleted CRD are deleted, and then the CRD.
func TestCleanUp(t *testing.T) {
	t.Parallel()
	u := newUnit(t, newDB(t), nil)
	u.run()
	now := metav1.Now()
	object := func(name, metadata string) string {
		t.Helper()
		key := "/registry/example.com/widgets/default/" + name
		if _, err := u.client.Put(t.Context(), key, `{"metadata":{"name":"`+name+`"`+metadata+`}}`); err != nil {
			t.Fatal(err)
		}
		return key
	}
	plain, kept := object("a", ""), object("b", `,"finalizers":["example.com/wait"]`)
	u.put(widgets, encoded(t, widgetsWith(func(c *api.CustomResourceDefinition) {
		c.DeletionTimestamp, c.Finalizers = &now, []string{api.CustomResourceCleanupFinalizer}
	})))
	u.eventually("it reports what is left", func() bool {
		got := u.condition(widgets, api.Terminating)
		return got.Reason == api.ReasonInstanceDeletionCheck && strings.Contains(got.Message, "1 left, the first is default/b")
	})
	if u.value(plain) != "" || !strings.Contains(u.value(kept), "deletionTimestamp") {
		t.Errorf("left: %s, %s", u.value(plain), u.value(kept))
	}
	if _, err := u.client.Delete(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	u.eventually("it is gone", func() bool { return u.stored(widgets) == nil && u.fence("u") == "" && u.Catalog().Get(widgets) == nil })
	u.eventually("nothing is left to do", func() bool { _, busy := u.cleaning.Load(types.UID("u")); return !busy })
}

// TestReadAgain checks that all CRDs are read again after events were lost.
func TestReadAgain(t *testing.T) {
	t.Parallel()
	u := newUnit(t, newDB(t), nil)
	s := u.internal()
	u.put(widgets, encoded(t, widgetsWith(nil)))
	snapshot := u.store.Snapshot()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := u.replace(ended, s, snapshot); err == nil || len(u.known) != 0 || u.Catalog().Get(widgets) != nil {
		t.Errorf("read after the end: %v", err)
	}
	u.leftOut.Store(widgets, true)
	u.leftOut.Store("gone.example.com", true)
	u.put("bads.example.com", "{")
	u.known["gone.example.com"] = &stored{crd: widgetsWith(nil)}
	if err := u.replace(t.Context(), s, u.store.Snapshot()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{widgets: false, "gone.example.com": false, "bads.example.com": true} {
		if _, ok := u.leftOut.Load(name); ok != want {
			t.Errorf("%s: left out is %v", name, ok)
		}
	}
	if u.known[widgets] == nil || u.known["gone.example.com"] != nil || u.Catalog().Get(widgets) == nil {
		t.Error("what is known is not what is stored")
	}
	expired := (*store.ExpiredError)(nil)
	if err := u.followFrom(t.Context(), s, &store.Snapshot{Revision: -1}); !errors.As(err, &expired) {
		t.Errorf("events that are lost: %v", err)
	}
}
