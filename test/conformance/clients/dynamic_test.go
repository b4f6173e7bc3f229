package clients

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"espalier.dev/espaliertest"
)

func TestVerbs(t *testing.T) {
	t.Parallel()
	ctx, server := start(t)
	client := dynamicClient(t, server)

	t.Run("create", func(t *testing.T) {
		obj := must(client.Create(ctx, newBackup("new", "home"), metav1.CreateOptions{}))(t)
		equal(t, at(obj, "spec", "copies"), "1")
		equal(t, obj.GetGeneration(), 1)
		if obj.GetUID() == "" || obj.GetResourceVersion() == "" || at(obj, "metadata", "creationTimestamp") == "" {
			t.Errorf("the server has not set the metadata: %v", obj)
		}
		_, err := client.Create(ctx, newBackup("new", "home"), metav1.CreateOptions{})
		rejected(t, err, metav1.StatusReasonAlreadyExists)
		_, err = client.Create(ctx, newBackup("bad", "HOME"), metav1.CreateOptions{})
		rejected(t, err, metav1.StatusReasonInvalid)
		_, err = client.Create(ctx, newBackup("No Name", "home"), metav1.CreateOptions{})
		rejected(t, err, metav1.StatusReasonInvalid)
		generated := newBackup("", "home")
		generated.SetGenerateName("auto-")
		if obj := must(client.Create(ctx, generated, metav1.CreateOptions{}))(t); len(obj.GetName()) <= len("auto-") {
			t.Errorf("the name is %q", obj.GetName())
		}
	})
	t.Run("dry run", func(t *testing.T) {
		must(client.Create(ctx, newBackup("dry", "home"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}))(t)
		_, err := client.Get(ctx, "dry", metav1.GetOptions{})
		rejected(t, err, metav1.StatusReasonNotFound)
	})
	t.Run("update", func(t *testing.T) {
		create(ctx, t, client, "updated")
		old := must(client.Get(ctx, "updated", metav1.GetOptions{}))(t)
		changed := old.DeepCopy()
		_ = unstructured.SetNestedField(changed.Object, int64(3), "spec", "copies")
		got := must(client.Update(ctx, changed, metav1.UpdateOptions{}))(t)
		equal(t, got.GetGeneration(), 2)
		_, err := client.Update(ctx, old, metav1.UpdateOptions{})
		rejected(t, err, metav1.StatusReasonConflict)
		same := must(client.Update(ctx, got, metav1.UpdateOptions{}))(t)
		equal(t, same.GetResourceVersion(), got.GetResourceVersion()) // an update without changes is not written
	})
	t.Run("status", func(t *testing.T) {
		create(ctx, t, client, "reported")
		obj := must(client.Get(ctx, "reported", metav1.GetOptions{}))(t)
		_ = unstructured.SetNestedField(obj.Object, "Done", "status", "phase")
		_ = unstructured.SetNestedField(obj.Object, "elsewhere", "spec", "target")
		got := must(client.UpdateStatus(ctx, obj, metav1.UpdateOptions{}))(t)
		equal(t, at(got, "status", "phase")+" "+at(got, "spec", "target"), "Done reported")
		equal(t, got.GetGeneration(), 1)
	})
	t.Run("patch", func(t *testing.T) {
		create(ctx, t, client, "patched")
		for _, p := range []struct {
			kind types.PatchType
			body string
			want string // of spec.copies
		}{
			{types.MergePatchType, `{"spec":{"copies":2}}`, "2"},
			{types.JSONPatchType, `[{"op":"replace","path":"/spec/copies","value":3}]`, "3"},
			{types.ApplyYAMLPatchType, "apiVersion: storage.example.com/v1\nkind: Backup\nspec:\n  copies: 4\n", "4"},
		} {
			o := metav1.PatchOptions{FieldManager: "clients"}
			if p.kind == types.ApplyYAMLPatchType {
				o.Force = new(bool)
				*o.Force = true
			}
			got := must(client.Patch(ctx, "patched", p.kind, []byte(p.body), o))(t)
			equal(t, at(got, "spec", "copies"), p.want)
		}
		_, err := client.Patch(ctx, "patched", types.StrategicMergePatchType, []byte(`{}`), metav1.PatchOptions{})
		rejected(t, err, metav1.StatusReasonUnsupportedMediaType)
		got := must(client.Patch(ctx, "patched", types.MergePatchType, []byte(`{"status":{"phase":"Done"}}`), metav1.PatchOptions{}, "status"))(t)
		equal(t, at(got, "status", "phase"), "Done")
	})
	t.Run("apply", func(t *testing.T) {
		obj := newBackup("applied", "home")
		first := must(client.Apply(ctx, "applied", obj, metav1.ApplyOptions{FieldManager: "one"}))(t)
		again := must(client.Apply(ctx, "applied", obj, metav1.ApplyOptions{FieldManager: "one"}))(t)
		equal(t, again.GetResourceVersion(), first.GetResourceVersion())
		_, err := client.Apply(ctx, "applied", newBackup("applied", "mail"), metav1.ApplyOptions{FieldManager: "two"})
		rejected(t, err, metav1.StatusReasonConflict)
		forced := must(client.Apply(ctx, "applied", newBackup("applied", "mail"), metav1.ApplyOptions{FieldManager: "two", Force: true}))(t)
		equal(t, at(forced, "spec", "target"), "mail")
		status := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "storage.example.com/v1", "kind": "Backup", "metadata": map[string]any{"name": "applied"},
			"status": map[string]any{"phase": "Done"},
		}}
		equal(t, at(must(client.ApplyStatus(ctx, "applied", status, metav1.ApplyOptions{FieldManager: "three"}))(t), "status", "phase"), "Done")
	})
	t.Run("field validation", func(t *testing.T) {
		obj := newBackup("typo", "home")
		_ = unstructured.SetNestedField(obj.Object, "x", "spec", "tarjet")
		_, err := client.Create(ctx, obj, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		rejected(t, err, metav1.StatusReasonBadRequest)
		got := must(client.Create(ctx, obj, metav1.CreateOptions{FieldValidation: metav1.FieldValidationIgnore}))(t)
		equal(t, at(got, "spec", "tarjet"), "")
	})
	t.Run("delete", func(t *testing.T) {
		create(ctx, t, client, "deleted")
		obj := must(client.Get(ctx, "deleted", metav1.GetOptions{}))(t)
		wrong := types.UID("wrong")
		rejected(t, client.Delete(ctx, "deleted", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrong}}), metav1.StatusReasonConflict)
		uid, rv := obj.GetUID(), obj.GetResourceVersion()
		if err := client.Delete(ctx, "deleted", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &rv}}); err != nil {
			t.Error(err)
		}
		rejected(t, client.Delete(ctx, "deleted", metav1.DeleteOptions{}), metav1.StatusReasonNotFound)
	})
	t.Run("finalizers", func(t *testing.T) {
		obj := newBackup("held", "home")
		obj.SetFinalizers([]string{"example.com/hold"})
		must(client.Create(ctx, obj, metav1.CreateOptions{}))(t)
		if err := client.Delete(ctx, "held", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		held := must(client.Get(ctx, "held", metav1.GetOptions{}))(t)
		if held.GetDeletionTimestamp() == nil {
			t.Error("the object is not marked as deleted")
		}
		held.SetFinalizers(nil)
		must(client.Update(ctx, held, metav1.UpdateOptions{}))(t)
		_, err := client.Get(ctx, "held", metav1.GetOptions{})
		rejected(t, err, metav1.StatusReasonNotFound)
	})
	t.Run("deletecollection", func(t *testing.T) {
		create(ctx, t, client, "da", "db")
		if err := client.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "spec.target=da"}); err != nil {
			t.Fatal(err)
		}
		_, err := client.Get(ctx, "da", metav1.GetOptions{})
		rejected(t, err, metav1.StatusReasonNotFound)
		if err := client.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		sameNames(t, must(client.List(ctx, metav1.ListOptions{}))(t))
	})
}

func TestList(t *testing.T) {
	t.Parallel()
	ctx, server := start(t)
	client := dynamicClient(t, server)
	create(ctx, t, client, "a", "b", "c", "d")
	before := must(client.List(ctx, metav1.ListOptions{}))(t).GetResourceVersion()
	create(ctx, t, client, "e")
	must(client.Patch(ctx, "c", types.MergePatchType, []byte(`{"metadata":{"labels":{"tier":"gold"}}}`), metav1.PatchOptions{}))(t)

	t.Run("chunks", func(t *testing.T) {
		var got []string
		o := metav1.ListOptions{Limit: 2}
		first := ""
		for range 3 {
			list := must(client.List(ctx, o))(t)
			got = append(got, names(list)...)
			if first == "" {
				first = list.GetResourceVersion()
				equal(t, *list.GetRemainingItemCount(), 3)
				create(ctx, t, client, "f") // too late for this list
			}
			equal(t, list.GetResourceVersion(), first)
			o.Continue = list.GetContinue()
		}
		if o.Continue != "" || !equality.Semantic.DeepEqual(got, []string{"a", "b", "c", "d", "e"}) {
			t.Errorf("got %q, then continue with %q", got, o.Continue)
		}
		if err := client.Delete(ctx, "f", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err := client.List(ctx, metav1.ListOptions{Limit: 2, Continue: "nonsense"})
		rejected(t, err, metav1.StatusReasonBadRequest)
	})
	t.Run("resource version", func(t *testing.T) {
		exact := metav1.ListOptions{ResourceVersion: before, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
		sameNames(t, must(client.List(ctx, exact))(t), "a", "b", "c", "d")
		newer := metav1.ListOptions{ResourceVersion: before, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}
		must(client.List(ctx, newer))(t)
		sameNames(t, must(client.List(ctx, metav1.ListOptions{}))(t), "a", "b", "c", "d", "e")
		must(client.List(ctx, metav1.ListOptions{ResourceVersion: "0"}))(t)
		_, err := client.List(ctx, metav1.ListOptions{ResourceVersionMatch: metav1.ResourceVersionMatchExact})
		rejected(t, err, metav1.StatusReasonInvalid)
		_, err = client.List(ctx, metav1.ListOptions{ResourceVersion: "x"})
		rejected(t, err, metav1.StatusReasonBadRequest)
	})
	t.Run("selectors", func(t *testing.T) {
		sameNames(t, must(client.List(ctx, metav1.ListOptions{LabelSelector: "tier in (gold,tin)"}))(t), "c")
		sameNames(t, must(client.List(ctx, metav1.ListOptions{FieldSelector: "spec.target=b"}))(t), "b")
		sameNames(t, must(client.List(ctx, metav1.ListOptions{FieldSelector: "spec.target!=b,metadata.name!=a"}))(t), "c", "d", "e")
		_, err := client.List(ctx, metav1.ListOptions{FieldSelector: "spec.copies=1"})
		rejected(t, err, metav1.StatusReasonBadRequest)
		_, err = client.List(ctx, metav1.ListOptions{LabelSelector: "a=b=c"})
		rejected(t, err, metav1.StatusReasonBadRequest)
	})
}

// TestExpired lists in chunks, after the history has been compacted.
func TestExpired(t *testing.T) {
	t.Parallel()
	ctx, server := start(t, espaliertest.WithFlags("--etcd-compaction-interval=500ms"))
	client := dynamicClient(t, server)
	create(ctx, t, client, "a", "b", "c")
	list := must(client.List(ctx, metav1.ListOptions{Limit: 1}))(t)
	var err error
	for err == nil && ctx.Err() == nil {
		// Without writes there is nothing to compact.
		must(client.Patch(ctx, "c", types.MergePatchType, []byte(`{"metadata":{"annotations":{"at":"`+time.Now().String()+`"}}}`), metav1.PatchOptions{}))(t)
		_, err = client.List(ctx, metav1.ListOptions{Limit: 1, Continue: list.GetContinue()})
		time.Sleep(50 * time.Millisecond)
	}
	rejected(t, err, metav1.StatusReasonExpired)
	status, ok := err.(apierrors.APIStatus)
	if !ok || status.Status().Code != 410 || status.Status().Continue == "" {
		t.Fatalf("got %v, want a status with a continue token", err)
	}
	// A client that accepts an inconsistent list continues with this token.
	rest := must(client.List(ctx, metav1.ListOptions{Continue: status.Status().Continue}))(t)
	sameNames(t, rest, "b", "c")

	_, err = client.List(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion(), ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	rejected(t, err, metav1.StatusReasonExpired)
}

func TestWatch(t *testing.T) {
	t.Parallel()
	ctx, server := start(t)
	client := dynamicClient(t, server)
	create(ctx, t, client, "a", "b")
	rv := must(client.List(ctx, metav1.ListOptions{}))(t).GetResourceVersion()
	open := func(t *testing.T, o metav1.ListOptions) (context.Context, watch.Interface) {
		t.Helper()
		w := must(client.Watch(ctx, o))(t)
		t.Cleanup(w.Stop)
		return ctx, w
	}

	t.Run("from a version", func(t *testing.T) {
		ctx, w := open(t, metav1.ListOptions{ResourceVersion: rv})
		create(ctx, t, client, "c")
		next(ctx, t, w, watch.Added, "c")
		must(client.Patch(ctx, "c", types.MergePatchType, []byte(`{"spec":{"copies":2}}`), metav1.PatchOptions{}))(t)
		equal(t, at(next(ctx, t, w, watch.Modified, "c").(*unstructured.Unstructured), "spec", "copies"), "2")
		if err := client.Delete(ctx, "c", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		next(ctx, t, w, watch.Deleted, "c")
	})
	t.Run("selected", func(t *testing.T) {
		rv := must(client.List(ctx, metav1.ListOptions{}))(t).GetResourceVersion()
		ctx, w := open(t, metav1.ListOptions{ResourceVersion: rv, FieldSelector: "spec.target=chosen"})
		change := func(target string) {
			must(client.Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"target":"`+target+`"}}`), metav1.PatchOptions{}))(t)
		}
		change("chosen")
		next(ctx, t, w, watch.Added, "a")
		change("other")
		next(ctx, t, w, watch.Deleted, "a")
	})
	t.Run("initial events", func(t *testing.T) {
		yes := true
		ctx, w := open(t, metav1.ListOptions{SendInitialEvents: &yes, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
		next(ctx, t, w, watch.Added, "a")
		next(ctx, t, w, watch.Added, "b")
		mark := next(ctx, t, w, watch.Bookmark, "").(*unstructured.Unstructured)
		equal(t, mark.GetAnnotations()[metav1.InitialEventsAnnotationKey], "true")
		equal(t, mark.GetKind(), "Backup")
		// A watch can continue from the bookmark.
		ctx, w = open(t, metav1.ListOptions{ResourceVersion: mark.GetResourceVersion()})
		create(ctx, t, client, "after")
		next(ctx, t, w, watch.Added, "after")
	})
	t.Run("bookmarks", func(t *testing.T) {
		// A bookmark arrives shortly before a watch ends, if there were events that it
		// filtered out.
		seconds := int64(5)
		rv := must(client.List(ctx, metav1.ListOptions{}))(t).GetResourceVersion()
		ctx, w := open(t, metav1.ListOptions{ResourceVersion: rv, AllowWatchBookmarks: true, TimeoutSeconds: &seconds})
		hidden := must(must(dynamic.NewForConfig(server.Config()))(t).Resource(backups).Namespace("kube-public").
			Create(ctx, newBackup("hidden", "home"), metav1.CreateOptions{}))(t)
		mark := next(ctx, t, w, watch.Bookmark, "").(*unstructured.Unstructured)
		equal(t, mark.GetResourceVersion(), hidden.GetResourceVersion())
		equal(t, mark.GetKind(), "Backup")
		for range w.ResultChan() { // until it ends after the timeout
		}
	})
	t.Run("no version", func(t *testing.T) {
		_, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: "x"})
		rejected(t, err, metav1.StatusReasonBadRequest)
	})
}
