package server

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// TestNamespaces checks the objects that every namespace has, and that a deleted namespace is
// emptied, while others create objects in it.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	g := newGarbage(t)
	g.namespace("one")
	path := "/api/v1/namespaces/one"
	has := func() {
		t.Helper()
		eventually(t, func() error {
			code, _, err := g.try(http.MethodGet, path+"/serviceaccounts/default", "")
			if code != http.StatusOK || err != nil {
				return fmt.Errorf("no service account: %d %w", code, err)
			}
			code, ca, err := g.try(http.MethodGet, path+"/configmaps/kube-root-ca.crt", "")
			if code != http.StatusOK || err != nil || ca.Data["ca.crt"] != string(g.server.identity.CurrentCABundleContent()) {
				return fmt.Errorf("no CA: %d %+v %w", code, ca, err)
			}
			return nil
		})
	}
	has()
	g.do(http.MethodDelete, path+"/serviceaccounts/default", "")
	g.do(http.MethodPatch, path+"/configmaps/kube-root-ca.crt", `{"data":{"ca.crt":"x"}}`)
	has()

	g.create(path+"/pods", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	custom := fmt.Sprintf(plots, "one")
	g.create(custom, `{"apiVersion":"garbage.example.com/v1","kind":"Plot","metadata":{"name":"held","finalizers":["example.com/hold"]}}`)
	var wait sync.WaitGroup
	stop := make(chan struct{})
	for writer := range 4 {
		collection, body := path+"/configmaps", `{"metadata":{"name":"w-%d-%d"}}`
		if writer%2 == 0 {
			collection, body = custom, `{"apiVersion":"garbage.example.com/v1","kind":"Plot","metadata":{"name":"w-%d-%d"}}`
		}
		wait.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				code, _, err := g.try(http.MethodPost, collection, fmt.Sprintf(body, writer, i))
				if err != nil {
					t.Error(err)
				}
				if code == http.StatusForbidden || code == http.StatusNotFound {
					return // the namespace is being deleted
				}
			}
		})
	}
	g.do(http.MethodDelete, path, "")
	eventually(t, func() error {
		_, ns, err := g.try(http.MethodGet, path, "")
		if err != nil {
			return err
		}
		for _, c := range ns.Status.Conditions {
			if c.Type == "NamespaceFinalizersRemaining" && c.Status == "True" && c.Reason == "SomeFinalizersRemain" &&
				c.Message == "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances" {
				return nil
			}
		}
		return fmt.Errorf("the finalizer is not reported: %+v", ns.Status)
	})
	g.restart()
	if code, _, err := g.try(http.MethodGet, custom+"/held", ""); code != http.StatusOK {
		t.Error("an object with a finalizer is gone:", code, err)
	}
	g.do(http.MethodPatch, custom+"/held", `{"metadata":{"finalizers":null}}`)
	g.gone(path)
	close(stop)
	wait.Wait()
	for _, entry := range []string{"configmaps/one/", "serviceaccounts/one/", "pods/one/", "garbage.example.com/plots/one/"} {
		if n := g.server.db.store.Snapshot().Count(g.server.db.store.Prefix()+entry, ""); n != 0 {
			t.Errorf("%d objects are left below %s", n, entry)
		}
	}
	g.namespace("one")
	has()
}

// TestNamespaceWithoutFinalizers checks that a namespace whose finalizers were removed before it was
// deleted is emptied and goes away, and that a finalizer of its metadata still keeps it.
func TestNamespaceWithoutFinalizers(t *testing.T) {
	t.Parallel()
	g := newGarbage(t)
	for _, finalizers := range []string{``, `"example.com/hold"`} {
		g.namespace("one")
		path := "/api/v1/namespaces/one"
		g.create(path+"/configmaps", `{"metadata":{"name":"a"}}`)
		g.do(http.MethodPut, path+"/finalize", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"one","finalizers":[`+finalizers+`]},"spec":{"finalizers":[]}}`)
		g.do(http.MethodDelete, path, "")
		g.gone(path + "/configmaps/a")
		if finalizers != "" {
			if code, _, err := g.try(http.MethodGet, path, ""); code != http.StatusOK {
				t.Error("a namespace with a finalizer is gone:", code, err)
			}
			g.do(http.MethodPatch, path, `{"metadata":{"finalizers":null}}`)
		}
		g.gone(path)
		if n := g.server.db.store.Snapshot().Count(g.server.db.store.Prefix()+"configmaps/one/", ""); n != 0 {
			t.Errorf("%d objects are left", n)
		}
	}
}

// TestControllerNames checks the switches of controllers.
func TestControllerNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flag     string
		runs     bool // the garbage collector
		unknowns int
	}{
		{"*", true, 0}, {"*,-garbagecollector", false, 0}, {"garbagecollector", true, 0}, {"namespace", false, 0}, {"-garbagecollector,*", false, 0}, {"*,-x,y", true, 2},
	} {
		o := NewOptions()
		o.Controllers = strings.Split(c.flag, ",")
		err := o.Validate()
		if got := strings.Count(fmt.Sprint(errors.Join(err)), "unknown controller"); got != c.unknowns {
			t.Errorf("%s: %v", c.flag, err)
		}
		if o.runs("garbagecollector") != c.runs {
			t.Errorf("%s: runs %v", c.flag, !c.runs)
		}
	}
}
