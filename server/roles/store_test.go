package roles_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"espalier.dev/server/etcd/etcdtest"
	"espalier.dev/server/roles"
	"espalier.dev/store"
)

// world is a store with an authorizer.
type world struct {
	t          testing.TB
	store      *store.Store
	authorizer *roles.Authorizer
}

func newWorld(t testing.TB) *world { return newWorldWith(t, store.Config{}) }

func newWorldWith(t testing.TB, c store.Config) *world {
	t.Helper()
	db := etcdtest.Open(t)
	c.Client, c.Watcher, c.Prefix = db.Client, db.NewWatcher(), "/registry/"
	s, err := store.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	<-s.Loaded()
	return &world{t: t, store: s, authorizer: roles.New(s)}
}

// stored is what roles and bindings have in common.
type stored interface {
	runtime.Object
	metav1.Object
	Marshal() ([]byte, error)
}

func key(obj stored) (key, kind string) {
	switch obj.(type) {
	case *rbacv1.Role:
		return "/registry/roles/" + obj.GetNamespace() + "/" + obj.GetName(), "Role"
	case *rbacv1.RoleBinding:
		return "/registry/rolebindings/" + obj.GetNamespace() + "/" + obj.GetName(), "RoleBinding"
	case *rbacv1.ClusterRole:
		return "/registry/clusterroles/" + obj.GetName(), "ClusterRole"
	}
	return "/registry/clusterrolebindings/" + obj.GetName(), "ClusterRoleBinding"
}

// put stores objects, waits until the store has them, and returns the authorizer.
func (w *world) put(list ...stored) *roles.Authorizer {
	w.t.Helper()
	for _, obj := range list {
		w.encode(obj)
	}
	w.sync()
	return w.authorizer
}

// encode stores an object as protobuf, and returns its revision.
func (w *world) encode(obj stored) int64 {
	w.t.Helper()
	key, kind := key(obj)
	raw, err := obj.Marshal()
	if err != nil {
		w.t.Fatal(err)
	}
	value, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: kind}, Raw: raw}).Marshal()
	if err != nil {
		w.t.Fatal(err)
	}
	return w.write(key, append([]byte("k8s\x00"), value...))
}

// write writes to etcd, and returns the revision.
func (w *world) write(key string, value []byte) int64 {
	w.t.Helper()
	resp, err := w.store.Client().Put(context.Background(), key, string(value))
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.Header.Revision
}

func (w *world) remove(list ...stored) {
	w.t.Helper()
	for _, obj := range list {
		key, _ := key(obj)
		if _, err := w.store.Client().Delete(context.Background(), key); err != nil {
			w.t.Fatal(err)
		}
	}
	w.sync()
}

func (w *world) sync() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := w.store.Sync(ctx); err != nil {
		w.t.Fatal(err)
	}
}

func TestStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	who := &user.DefaultInfo{Name: "u"}
	check := func(namespace, request string, want bool) {
		t.Helper()
		if ok, reason := ask(t, w.authorizer, who, namespace, request); ok != want {
			t.Errorf("%s in %q: %v %s", request, namespace, ok, reason)
		}
	}
	get := clusterRole("r", resourceRule("get", "core", "pods", ""))
	check("", "get core pods", false)
	bound := clusterBinding("b", "r", userSubject("u"))
	w.put(bound)
	check("", "get core pods", false)
	w.put(get)
	check("", "get core pods", true)
	w.put(clusterRole("r", resourceRule("list", "core", "pods", "")))
	check("", "get core pods", false)
	check("", "list core pods", true)
	w.remove(get)
	check("", "list core pods", false)
	w.put(get, clusterBinding("b", "r", userSubject("v")))
	check("", "get core pods", false)
	w.put(clusterBinding("b", "r", userSubject("v"), userSubject("u")))
	check("", "get core pods", true)
	w.remove(bound)
	check("", "get core pods", false)
	local := role("ns", "r", resourceRule("get", "core", "pods", ""))
	binding := roleBinding("ns", "b", "Role", "r", userSubject("u"))
	w.put(local, binding)
	check("ns", "get core pods", true)
	check("", "get core pods", false)
	w.remove(local)
	check("ns", "get core pods", false)
	w.put(local)
	check("ns", "get core pods", true)
	w.remove(binding)
	check("ns", "get core pods", false)

	// Objects in JSON count, and those that cannot be read grant nothing.
	w.write("/registry/clusterrolebindings/json", []byte(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"json"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"r"},"subjects":[{"kind":"User","name":"u"}]}`))
	w.sync()
	check("", "get core pods", true)
	w.write("/registry/clusterroles/r", []byte(`{"apiVersion":"v1","kind":"ClusterRole"}`))
	w.sync()
	if ok, reason := ask(t, w.authorizer, who, "", "get core pods"); ok || reason != "RBAC: /registry/clusterroles/r: unexpected v1 ClusterRole" {
		t.Errorf("%v %s", ok, reason)
	}
	w.put(get)
	w.write("/registry/clusterrolebindings/json", []byte(`k8s`+"\x00"+`x`))
	w.sync()
	check("", "get core pods", false)
}

// TestLoading checks that there is no answer before the store is loaded.
func TestLoading(t *testing.T) {
	t.Parallel()
	client := etcdtest.Start(t)
	_ = client.Close()
	s, err := store.Open(store.Config{Client: client, Prefix: "/registry/"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	decision, _, err := roles.New(s).Authorize(context.Background(), authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "u"}, Verb: "get", Path: "/"})
	if decision != authorizer.DecisionNoOpinion || !errors.Is(err, roles.ErrLoading) {
		t.Errorf("%v %v", decision, err)
	}
}

// TestIncremental checks that an index that follows random changes answers as one that is read
// anew, also after events are lost, while others ask all the time.
func TestIncremental(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, store.Config{MaxQueue: 50})
	rng := rand.New(rand.NewPCG(1, 2))
	namespaces := []string{"", "a", "b"}
	pick := func(from ...string) string { return from[rng.IntN(len(from))] }
	who := func(rng *rand.Rand) user.Info {
		pick := func(from ...string) string { return from[rng.IntN(len(from))] }
		info := &user.DefaultInfo{Name: pick("u", "v", "system:serviceaccount:a:s", "system:serviceaccount:b:s")}
		for range rng.IntN(3) {
			info.Groups = append(info.Groups, pick("g", "h"))
		}
		return info
	}
	requests := []string{"get core pods", "list core pods", "get apps deployments/scale n", "get /x"}
	attributes := func(rng *rand.Rand) (user.Info, string, string) {
		return who(rng), namespaces[rng.IntN(3)], requests[rng.IntN(len(requests))]
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for i := range 4 {
		readers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 3))
			for {
				select {
				case <-done:
					return
				default:
				}
				u, namespace, request := attributes(rng)
				ask(t, w.authorizer, u, namespace, request)
				time.Sleep(time.Millisecond)
			}
		})
	}
	random := func() stored {
		ns := pick("a", "b")
		rules := []rbacv1.PolicyRule{
			resourceRule(pick("get", "list", "*"), pick("core", "apps", "*"), pick("pods", "*/scale", "deployments/scale", "*"), pick("", "n")),
			pathRule("get", pick("/x", "/y", "*")),
		}[:rng.IntN(3)]
		var subjects []rbacv1.Subject
		for range rng.IntN(4) {
			subjects = append(subjects, []rbacv1.Subject{userSubject(pick("u", "v")), groupSubject(pick("g", "h")), accountSubject(pick("a", "b"), "s")}[rng.IntN(3)])
		}
		name := fmt.Sprint(rng.IntN(6))
		switch rng.IntN(4) {
		case 0:
			return role(ns, name, rules...)
		case 1:
			return clusterRole(name, rules...)
		case 2:
			return clusterBinding(name, fmt.Sprint(rng.IntN(6)), subjects...)
		}
		return roleBinding(ns, name, pick("Role", "ClusterRole"), fmt.Sprint(rng.IntN(6)), subjects...)
	}
	for range 60 {
		var puts, deletes []stored
		for range rng.IntN(8) {
			puts = append(puts, random())
		}
		for range rng.IntN(4) {
			deletes = append(deletes, random())
		}
		if rng.IntN(20) == 0 {
			for range 100 { // more than a watcher keeps
				puts = append(puts, random())
			}
		}
		w.put(puts...)
		w.remove(deletes...)
		fresh := roles.New(w.store)
		for range 200 {
			u, namespace, request := attributes(rng)
			ok, reason := ask(t, w.authorizer, u, namespace, request)
			if want, because := ask(t, fresh, u, namespace, request); ok != want || reason != because {
				t.Fatalf("%v %q %s: %v %s; anew: %v %s", u, namespace, request, ok, reason, want, because)
			}
		}
	}
	close(done)
	readers.Wait()
}

// TestNoAllocations checks that an allowed request does not allocate.
func TestNoAllocations(t *testing.T) {
	a := newWorld(t).put(clusterRole("r", resourceRule("get", "core", "pods", "")), clusterRole("s", resourceRule("get", "core", "secrets", "")),
		clusterBinding("a", "s", groupSubject("g")), clusterBinding("b", "s", userSubject("u")),
		roleBinding("ns", "c", "ClusterRole", "r", groupSubject("h")))
	attributes := authorizer.Attributes(&authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: "u", Groups: []string{"g", "h", "i"}}, Verb: "get", Namespace: "ns", Resource: "pods", Name: "x", ResourceRequest: true,
	})
	allocs := testing.AllocsPerRun(100, func() {
		if decision, _, err := a.Authorize(context.Background(), attributes); decision != authorizer.DecisionAllow || err != nil {
			t.Fatal(decision, err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
