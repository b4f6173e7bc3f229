package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"

	"espalier.dev/kinds"
	"espalier.dev/kinds/cel"
	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/schemas"
)

// writes does the same writes as kinds.Offline with the strategy of the server.
type writes struct {
	*testing.T
	offline *kinds.Offline
	rules   func(*kinds.Resource) kind.Rules
	scheme  *kinds.Scheme
	// compared and rejected count writes.
	compared, rejected int
}

// answer is what a write does to an object, or why it is rejected.
type answer struct {
	object   string
	err      error
	warnings []string
}

// AddWarning implements warning.Recorder.
func (a *answer) AddWarning(_, text string) { a.warnings = append(a.warnings, text) }

// served does a write with the strategy of the server, and the steps of k8s.io/apiserver.
func (w *writes) served(o kinds.OfflineWrite) *answer {
	w.Helper()
	r := kinds.ByKind(o.Kind)
	rules := w.rules(r)
	write, ok := rules.Write(o.Subresource)
	if !ok {
		w.Fatalf("%s has no subresource %s", r.Plural, o.Subresource)
	}
	s := &strategy{ObjectTyper: w.scheme.Scheme, NameGenerator: nameGenerator(&rules, r, nil), resource: r, rules: &rules, write: &write}
	a := &answer{}
	ctx := apirequest.WithNamespace(context.Background(), o.Namespace)
	ctx = warning.WithWarningRecorder(ctx, a)
	ctx = apirequest.WithUser(ctx, &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}})
	obj := o.Object
	if o.Old == nil {
		rest.WipeObjectMetaSystemFields(obj)
	}
	expected := rest.ExpectedNamespaceForResource(o.Namespace, r.GroupVersionResource())
	if a.err = rest.EnsureObjectNamespaceMatchesRequestNamespace(expected, obj); a.err != nil {
		return a
	}
	if o.Old != nil {
		obj.SetResourceVersion(o.Old.GetResourceVersion()) // the store compares them
		a.err = rest.BeforeUpdate(s, ctx, obj, o.Old)
	} else {
		created, err := time.Parse(time.RFC3339, kinds.OfflineTime)
		if err != nil {
			w.Fatal(err)
		}
		obj.SetUID(kinds.OfflineUID)
		obj.SetCreationTimestamp(metav1.NewTime(created))
		a.err = rest.BeforeCreate(s, ctx, obj)
	}
	a.object = w.json(obj)
	return a
}

func (w *writes) json(obj any) string {
	w.Helper()
	data, err := json.Marshal(obj)
	if err != nil {
		w.Fatal(err)
	}
	return string(data)
}

// same does a write both ways.
func (w *writes) same(name string, o kinds.OfflineWrite) {
	w.Helper()
	clone := func() kinds.OfflineWrite {
		c := o
		c.Object = o.Object.DeepCopyObject().(kind.Object)
		if o.Old != nil {
			c.Old = o.Old.DeepCopyObject().(kind.Object)
			c.Object.SetResourceVersion(c.Old.GetResourceVersion())
		}
		return c
	}
	want := w.served(clone())
	mine, got := clone(), &answer{}
	got.warnings, got.err = w.offline.Write(mine)
	got.object = w.json(mine.Object)
	w.compared++
	if want.err != nil {
		w.rejected++
	}
	if fmt.Sprint(got.err) != fmt.Sprint(want.err) || !reflect.DeepEqual(got.warnings, want.warnings) {
		w.Errorf("%s: got %v %q, want %v %q", name, got.err, got.warnings, want.err, want.warnings)
	}
	random := kinds.ByKind(o.Kind).Plural == "limitranges" && o.Object.GetName() == "" // they get random names
	if want.err == nil && got.object != want.object && !random {
		w.Errorf("%s: got %s, want %s", name, got.object, want.object)
	}
}

// TestOffline does the writes of kinds.Offline, and of the strategies that the server gives to
// k8s.io/apiserver, for samples of all kinds: both do the same steps in the same order.
func TestOffline(t *testing.T) {
	t.Parallel()
	offline, err := kinds.NewOffline(cel.New())
	if err != nil {
		t.Fatal(err)
	}
	scheme, err := kinds.NewScheme(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &writes{T: t, offline: offline, rules: kinds.Rules(cel.New()), scheme: scheme}
	changes := map[string]func(kind.Object){
		"nothing":     func(kind.Object) {},
		"labels":      func(o kind.Object) { o.SetLabels(map[string]string{"a": "b"}) },
		"bad labels":  func(o kind.Object) { o.SetLabels(map[string]string{"-": "!"}) },
		"name":        func(o kind.Object) { o.SetName("a/b") },
		"no name":     func(o kind.Object) { o.SetName("") },
		"uid":         func(o kind.Object) { o.SetUID("other") },
		"namespace":   func(o kind.Object) { o.SetNamespace("other") },
		"finalizers":  func(o kind.Object) { o.SetFinalizers([]string{"x"}) },
		"generation":  func(o kind.Object) { o.SetGeneration(9) },
		"timestamps":  func(o kind.Object) { o.SetCreationTimestamp(metav1.Now()); o.SetDeletionTimestamp(new(metav1.Now())) },
		"grace":       func(o kind.Object) { o.SetDeletionGracePeriodSeconds(new(int64(1))) },
		"self link":   func(o kind.Object) { o.SetSelfLink("/x") },
		"empty spec":  func(o kind.Object) { empty(o, "Spec") },
		"empty state": func(o kind.Object) { empty(o, "Status") },
	}
	for _, k := range schemas.All() {
		for _, v := range k.Versions {
			sample, err := k.Sample(v.Name)
			if err != nil {
				t.Fatal(err)
			}
			w.sample(sample, changes)
		}
	}
	t.Logf("%d writes, %d of them rejected", w.compared, w.rejected)
	if w.rejected < w.compared/20 || w.rejected > w.compared*19/20 {
		t.Error("too few writes are rejected, or accepted")
	}
}

// empty removes a field of an object, if it has it.
func empty(o kind.Object, field string) {
	if part := kind.Part(o, field); part.IsValid() {
		part.SetZero()
	}
}

// sample writes a sample, with changes.
func (w *writes) sample(sample map[string]any, changes map[string]func(kind.Object)) {
	source := []byte(w.json(sample))
	gvk := metav1.TypeMeta{}
	if err := json.Unmarshal(source, &gvk); err != nil {
		w.Fatal(err)
	}
	r := kinds.ByKind(gvk.GroupVersionKind())
	if r == nil || r.CreateOnly {
		return // CRDs, and what is not stored
	}
	decode := func() kind.Object {
		obj, _, err := w.offline.Decode(gvk.GroupVersionKind(), source)
		if err != nil {
			w.Fatal(err)
		}
		return obj
	}
	namespace := ""
	if r.Namespaced {
		namespace = metav1.NamespaceDefault
	}
	old := decode()
	if old.GetName() == "" {
		old.SetName("a")
	}
	old.SetNamespace(namespace)
	old.SetUID("u")
	old.SetResourceVersion("1")
	for name, change := range changes {
		at := fmt.Sprintf("%s %s", gvk.Kind, name)
		obj := decode()
		change(obj)
		if obj.GetName() != "" || obj.GetGenerateName() == "" { // generated names are random
			w.same("create "+at, kinds.OfflineWrite{Kind: gvk.GroupVersionKind(), Namespace: namespace, Object: obj})
		}
		replaced := old.DeepCopyObject().(kind.Object)
		change(replaced)
		w.same("update "+at, kinds.OfflineWrite{Kind: gvk.GroupVersionKind(), Namespace: namespace, Object: replaced, Old: old})
		if w.rules(r).Status != nil {
			w.same("status of "+at, kinds.OfflineWrite{Kind: gvk.GroupVersionKind(), Subresource: "status", Namespace: namespace, Object: replaced, Old: old})
		}
	}
}
