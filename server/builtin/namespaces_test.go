package builtin_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"espalier.dev/server/servertest"
)

// TestNamespaces checks the objects that every namespace has, and that a deleted namespace is
// emptied, while others create objects in it.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	g := servertest.NewGarden(t)
	g.Namespace("one")
	path := "/api/v1/namespaces/one"
	want, err := os.ReadFile(filepath.Join(g.Options.DataDir, "pki", "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	has := func() {
		t.Helper()
		servertest.Eventually(t, func() error {
			code, _, err := g.Try(http.MethodGet, path+"/serviceaccounts/default", "")
			if code != http.StatusOK || err != nil {
				return fmt.Errorf("no service account: %d %w", code, err)
			}
			code, ca, err := g.Try(http.MethodGet, path+"/configmaps/kube-root-ca.crt", "")
			if code != http.StatusOK || err != nil || ca.Data["ca.crt"] != string(want) {
				return fmt.Errorf("no CA: %d %+v %w", code, ca, err)
			}
			return nil
		})
	}
	has()
	g.Do(http.MethodDelete, path+"/serviceaccounts/default", "")
	g.Do(http.MethodPatch, path+"/configmaps/kube-root-ca.crt", `{"data":{"ca.crt":"x"}}`)
	has()

	g.Create(path+"/pods", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	custom := fmt.Sprintf(servertest.Plots, "one")
	g.Create(custom, `{"apiVersion":"garbage.example.com/v1","kind":"Plot","metadata":{"name":"held","finalizers":["example.com/hold"]}}`)
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
				code, _, err := g.Try(http.MethodPost, collection, fmt.Sprintf(body, writer, i))
				if err != nil {
					t.Error(err)
				}
				if code == http.StatusForbidden || code == http.StatusNotFound {
					return // the namespace is being deleted
				}
			}
		})
	}
	g.Do(http.MethodDelete, path, "")
	servertest.Eventually(t, func() error {
		_, ns, err := g.Try(http.MethodGet, path, "")
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
	g.Restart()
	if code, _, err := g.Try(http.MethodGet, custom+"/held", ""); code != http.StatusOK {
		t.Error("an object with a finalizer is gone:", code, err)
	}
	g.Do(http.MethodPatch, custom+"/held", `{"metadata":{"finalizers":null}}`)
	g.Gone(path)
	close(stop)
	wait.Wait()
	for _, entry := range []string{"configmaps/one/", "serviceaccounts/one/", "pods/one/", "garbage.example.com/plots/one/"} {
		if n := g.Stored(entry); n != 0 {
			t.Errorf("%d objects are left below %s", n, entry)
		}
	}
	g.Namespace("one")
	has()
}

// TestNamespaceWithoutFinalizers checks that a namespace whose finalizers were removed before it was
// deleted is emptied and goes away, and that a finalizer of its metadata still keeps it.
func TestNamespaceWithoutFinalizers(t *testing.T) {
	t.Parallel()
	g := servertest.NewGarden(t)
	for _, finalizers := range []string{``, `"example.com/hold"`} {
		g.Namespace("one")
		path := "/api/v1/namespaces/one"
		g.Create(path+"/configmaps", `{"metadata":{"name":"a"}}`)
		g.Do(http.MethodPut, path+"/finalize", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"one","finalizers":[`+finalizers+`]},"spec":{"finalizers":[]}}`)
		g.Do(http.MethodDelete, path, "")
		g.Gone(path + "/configmaps/a")
		if finalizers != "" {
			if code, _, err := g.Try(http.MethodGet, path, ""); code != http.StatusOK {
				t.Error("a namespace with a finalizer is gone:", code, err)
			}
			g.Do(http.MethodPatch, path, `{"metadata":{"finalizers":null}}`)
		}
		g.Gone(path)
		if n := g.Stored("configmaps/one/"); n != 0 {
			t.Errorf("%d objects are left", n)
		}
	}
}
