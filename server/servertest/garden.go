package servertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"espalier.dev/server"
	"espalier.dev/server/keys"
)

// Garden is a server with custom resources, plots and gardens, whose objects own each other.
type Garden struct {
	testing.TB
	Options *server.Options
	// Server is nil if the server is another process.
	Server *server.Server
	URL    string
	Client *http.Client
	etcd   *clientv3.Client
}

// Plots is the path of the plots of a namespace, and Gardens that of the gardens, which are in none.
const (
	Plots   = "/apis/garbage.example.com/v1/namespaces/%s/plots"
	Gardens = "/apis/garbage.example.com/v1/gardens"
)

// NewGarden starts a server with the controllers, or with the default ones, and creates the CRDs.
func NewGarden(t testing.TB, controllers ...string) *Garden {
	t.Helper()
	o := Options(t)
	if len(controllers) > 0 {
		o.Controllers = controllers
	}
	g := StartGarden(t, o)
	g.Define()
	return g
}

// StartGarden starts a server without the CRDs. It stops at the end of the test.
func StartGarden(t testing.TB, o *server.Options) *Garden {
	t.Helper()
	g := &Garden{TB: t, Options: o}
	g.start()
	t.Cleanup(func() {
		if err := g.Server.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return g
}

// Define creates the CRDs.
func (g *Garden) Define() {
	g.Helper()
	for kind, scope := range map[string]string{"Plot": "Namespaced", "Garden": "Cluster"} {
		singular := strings.ToLower(kind)
		g.Create(CRDs, fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
			"metadata":{"name":"%[1]ss.garbage.example.com"},"spec":{"group":"garbage.example.com","scope":%[3]q,
			"names":{"kind":%[2]q,"plural":"%[1]ss","singular":%[1]q},
			"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`, singular, kind, scope))
	}
	Eventually(g, func() error {
		for _, path := range []string{fmt.Sprintf(Plots, "default"), Gardens} {
			if code, _, err := g.Try(http.MethodGet, path, ""); err != nil || code != http.StatusOK {
				return fmt.Errorf("%s: %d %w", path, code, err)
			}
		}
		return nil
	})
}

func (g *Garden) start() {
	g.Helper()
	var err error
	if g.Server, err = TryStart(g, g.Options); err != nil {
		g.Fatal(err)
	}
	g.URL, g.Client, g.etcd = g.Server.URL(), Client(g, g.Server, nil), nil
}

// Restart stops the server and starts it again.
func (g *Garden) Restart() {
	g.Helper()
	if err := g.Server.Stop(); err != nil {
		g.Fatal(err)
	}
	g.start()
}

// Object is the part of an object that the tests look at.
type Object struct {
	Metadata struct {
		Name, UID         string
		Finalizers        []string
		DeletionTimestamp *string
		OwnerReferences   []any
	}
	Spec   struct{ Finalizers []string }
	Status struct {
		Phase      string
		Conditions []struct{ Type, Status, Reason, Message string }
	}
	Items []Object
	Data  map[string]string
}

// Try sends a request. Responses other than a success, 403, 404 and 409 are errors. It is safe for
// concurrent use.
func (g *Garden) Try(method, path, body string) (int, *Object, error) {
	req, err := http.NewRequestWithContext(context.Background(), method, g.URL+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := g.Client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	data, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return 0, nil, err
	}
	obj := &Object{}
	if resp.StatusCode < 300 {
		if bytes.Contains(data, []byte(`"kind":"Status"`)) {
			return resp.StatusCode, obj, nil // its status is a text
		}
		if err := json.Unmarshal(data, obj); err != nil {
			return 0, nil, fmt.Errorf("%s: %w", bytes.TrimSpace(data), err)
		}
		return resp.StatusCode, obj, nil
	}
	if resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusConflict {
		err = fmt.Errorf("%s %s: %d %s", method, path, resp.StatusCode, data)
	}
	return resp.StatusCode, obj, err
}

// Do sends a request, and expects a success or one of the codes.
func (g *Garden) Do(method, path, body string, codes ...int) *Object {
	g.Helper()
	code, obj, err := g.Try(method, path, body)
	if err != nil {
		g.Fatal(err)
	}
	for _, want := range append(codes, http.StatusOK, http.StatusCreated, http.StatusAccepted) {
		if code == want {
			return obj
		}
	}
	g.Fatalf("%s %s: %d", method, path, code)
	return nil
}

// Create creates an object in a collection.
func (g *Garden) Create(path, body string) *Object {
	g.Helper()
	return g.Do(http.MethodPost, path, body)
}

// Namespace creates a namespace.
func (g *Garden) Namespace(name string) {
	g.Helper()
	g.Create("/api/v1/namespaces", fmt.Sprintf(`{"metadata":{"name":%q}}`, name))
}

// Gone waits until an object is gone.
func (g *Garden) Gone(path string) {
	g.Helper()
	Eventually(g, func() error {
		code, obj, err := g.Try(http.MethodGet, path, "")
		if code == http.StatusNotFound {
			return nil
		}
		return fmt.Errorf("%s is there: %+v %w", path, obj, err)
	})
}

// Stored returns the number of keys in etcd below a path, such as "configmaps/default/".
func (g *Garden) Stored(path string) int64 {
	g.Helper()
	key := keys.NewRoot(g.Options.EtcdPrefix).Join(path)
	if g.etcd == nil {
		g.etcd = Etcd(g, g.Options)
	}
	resp, err := g.etcd.Get(g.Context(), key, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		g.Fatal(err)
	}
	return resp.Count
}
