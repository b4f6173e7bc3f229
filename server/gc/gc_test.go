package gc

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/schema"
	"espalier.dev/server/etcd/etcdtest"
	"espalier.dev/server/objects"
	"espalier.dev/store"
)

const prefix = "/registry/"

// definition returns a CRD.
func definition(t *testing.T, group, kind string, scope api.ResourceScope) *crd.Definition {
	t.Helper()
	names := api.CustomResourceDefinitionNames{Plural: kind + "s", Singular: kind, Kind: kind, ListKind: kind + "List"}
	d, err := crd.New(&api.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: names.Plural + "." + group},
		Spec: api.CustomResourceDefinitionSpec{
			Group: group, Scope: scope, Names: names,
			Versions: []api.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true}},
		},
		Status: api.CustomResourceDefinitionStatus{
			AcceptedNames: names, StoredVersions: []string{"v1"},
			Conditions: []api.CustomResourceDefinitionCondition{{Type: api.NamesAccepted, Status: api.ConditionTrue}, {Type: api.Established, Status: api.ConditionTrue}},
		},
	}, crd.Options{Semantics: schema.Kubernetes})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// collection is a collector of objects in etcd, which does not run.
type collection struct {
	*testing.T
	*Collector
	client *clientv3.Client
}

func newCollection(t *testing.T) *collection {
	t.Helper()
	db := etcdtest.Open(t)
	st, err := store.Open(store.Config{Client: db.Client, Watcher: db.NewWatcher(), Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	<-st.Loaded()
	catalog := crd.NewCatalog().With(definition(t, "example.com", "plot", api.NamespaceScoped)).
		With(definition(t, "remote.example.com", "plot", api.NamespaceScoped))
	c := New(objects.New(objects.Config{
		Store: st, Definition: definition(t, "apiextensions.k8s.io", "customresourcedefinition", api.ClusterScoped),
		Catalog: func() *crd.Catalog { return catalog },
		Remote:  func(gv runtimeschema.GroupVersion) bool { return gv.Group == "remote.example.com" },
	}), nil)
	c.reset(st.Snapshot())
	return &collection{t, c, db.Client}
}

// put stores an object, and takes it in.
func (c *collection) put(key, metadata string) {
	c.Helper()
	if _, err := c.client.Put(c.Context(), prefix+key, `{"metadata":{`+metadata+`}}`); err != nil {
		c.Fatal(err)
	}
	if _, err := c.objects.Store.Sync(c.Context()); err != nil {
		c.Fatal(err)
	}
	c.Collector.put(c.objects.Store.Get(prefix + key))
}

func owned(uids ...string) string {
	refs := ""
	for i, uid := range uids {
		if i > 0 {
			refs += ","
		}
		refs += fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","name":%q,"uid":%q}`, uid, uid)
	}
	return `"ownerReferences":[` + refs + `]`
}

// TestStates checks when an owner counts as absent: never because something is unknown.
func TestStates(t *testing.T) {
	t.Parallel()
	c := newCollection(t)
	c.put("configmaps/a/here", `"name":"here","uid":"1"`)
	c.put("example.com/plots/a/here", `"name":"here","uid":"2"`)
	c.put("configmaps/a/dying", `"name":"dying","uid":"3","deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["foregroundDeletion"]`)
	c.put("configmaps/a/orphaning", `"name":"orphaning","uid":"4","deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["orphan"]`)
	c.put("configmaps/a/broken", `"name":1`)
	namespaced := c.objects.Kind(metav1.SchemeGroupVersion.WithKind("x"))
	if namespaced != nil {
		t.Fatal("an unknown kind is known")
	}
	namespaced, _, _ = c.objects.Locate(prefix + "configmaps/a/here")
	cluster, _, _ := c.objects.Locate(prefix + "namespaces/a")
	broken := errors.New("any")
	for _, tc := range []struct {
		name, apiVersion, kind, owner, uid string
		cluster                            bool
		want                               state
		err                                error
	}{
		{name: "exists", apiVersion: "v1", kind: "ConfigMap", owner: "here", uid: "1", want: exists},
		{name: "custom", apiVersion: "example.com/v1", kind: "plot", owner: "here", uid: "2", want: exists},
		{name: "absent", apiVersion: "v1", kind: "ConfigMap", owner: "there", uid: "1", want: absent},
		{name: "absent custom", apiVersion: "example.com/v1", kind: "plot", owner: "there", uid: "2", want: absent},
		{name: "replaced", apiVersion: "v1", kind: "ConfigMap", owner: "here", uid: "9", want: absent},
		{name: "waits", apiVersion: "v1", kind: "ConfigMap", owner: "dying", uid: "3", want: waits},
		{name: "orphans", apiVersion: "v1", kind: "ConfigMap", owner: "orphaning", uid: "4", want: exists},
		{name: "unknown kind", apiVersion: "other.example.com/v1", kind: "Other", owner: "here", uid: "1", err: objects.ErrUnknown},
		{name: "unknown version", apiVersion: "example.com/v2", kind: "plot", owner: "here", uid: "2", err: objects.ErrUnknown},
		{name: "on another server", apiVersion: "remote.example.com/v1", kind: "plot", owner: "there", uid: "2", err: objects.ErrUnknown},
		{name: "unreadable", apiVersion: "v1", kind: "ConfigMap", owner: "broken", uid: "1", err: broken},
		{name: "namespaced owner", apiVersion: "v1", kind: "ConfigMap", owner: "there", uid: "1", cluster: true, err: errScope},
	} {
		r, namespace := namespaced, "a"
		if tc.cluster {
			r, namespace = cluster, ""
		}
		got, err := c.stateOf(r, &metav1.ObjectMeta{Namespace: namespace, Name: "x"}, metav1.OwnerReference{
			APIVersion: tc.apiVersion, Kind: tc.kind, Name: tc.owner, UID: types.UID(tc.uid),
		})
		if got != tc.want || (err == nil) != (tc.err == nil) || tc.err != nil && tc.err != broken && !errors.Is(err, tc.err) {
			t.Errorf("%s: %v %v", tc.name, got, err)
		}
	}
}

// TestIndex checks the index of dependents, and of the owners that wait for the collector.
func TestIndex(t *testing.T) {
	t.Parallel()
	c := newCollection(t)
	dependents := func(uid types.UID) string {
		return fmt.Sprint(slices.Sorted(maps.Keys(c.dependents[uid])))
	}
	expect := func(uid types.UID, want ...string) {
		t.Helper()
		for i := range want {
			want[i] = prefix + want[i]
		}
		if got := dependents(uid); got != fmt.Sprint(want) {
			t.Errorf("the dependents of %s are %s, want %v", uid, got, want)
		}
	}
	c.put("configmaps/a/x", `"name":"x","uid":"x",`+owned("1", "2"))
	c.put("configmaps/a/y", `"name":"y","uid":"y",`+owned("1"))
	c.put("events/a/e", `"name":"e","uid":"e",`+owned("1")) // expire by themselves
	expect("1", "configmaps/a/x", "configmaps/a/y")
	expect("2", "configmaps/a/x")
	c.put("configmaps/a/x", `"name":"x","uid":"x",`+owned("2"))
	expect("1", "configmaps/a/y")
	c.put("configmaps/a/y", `"name":"y","uid":"y"`)
	expect("1")

	c.put("configmaps/a/1", `"name":"1","uid":"1","deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["foregroundDeletion"]`)
	if w := c.waiting["1"]; w == nil || !w.foreground || w.key != prefix+"configmaps/a/1" {
		t.Errorf("the owner does not wait: %+v", w)
	}
	old := c.objects.Store.Get(prefix + "configmaps/a/x")
	c.take(&store.Event{Old: old})
	expect("2")
	c.put("configmaps/a/1", `"name":"1","uid":"1","deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["example.com/other"]`)
	if len(c.waiting) != 0 || len(c.owned) != 0 || len(c.dependents) != 0 {
		t.Errorf("something is left: %v %v %v", c.waiting, c.owned, c.dependents)
	}
	// A new catalog makes it look again at what it has skipped.
	c.skip("a")
	c.Changed(nil)
	if len(c.unknown) != 0 {
		t.Error("an object was forgotten")
	}
}
