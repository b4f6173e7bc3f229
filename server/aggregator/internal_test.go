package aggregator

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"espalier.dev/server/publish"
)

// addresses has the addresses of services by their ports.
type addresses map[int32]string

func (a addresses) ResolveEndpoint(_, _ string, port int32) (*url.URL, error) {
	return url.Parse(a[port])
}

// others has the handlers of other servers. The first one serves g1.example.com/v1, and so on.
type others struct {
	*Aggregator
	remote publish.Remote
	table  *table

	mu       sync.Mutex
	requests []string
}

func newOthers(t *testing.T, handlers ...http.HandlerFunc) *others {
	t.Helper()
	services := addresses{}
	o := &others{Aggregator: New(Config{Services: services, Timeout: time.Minute}), table: &table{backends: map[runtimeschema.GroupVersion]*backend{}}}
	for i, h := range handlers {
		srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			o.mu.Lock()
			o.requests = append(o.requests, r.Method+" "+r.URL.Path)
			o.mu.Unlock()
			h(w, r)
		}))
		t.Cleanup(srv.Close)
		port := int32(i + 1)
		services[port] = srv.URL
		gv := runtimeschema.GroupVersion{Group: fmt.Sprintf("g%d.example.com", port), Version: "v1"}
		o.table.backends[gv] = &backend{available: true, transport: srv.Client().Transport, service: serviceOf(gv, port)}
		o.remote.Versions = append(o.remote.Versions, publish.RemoteVersion{GroupVersion: gv})
	}
	o.Aggregator.table.Store(o.table)
	o.Aggregator.remote.Store(&o.remote)
	return o
}

// received returns the requests that have reached the servers.
func (o *others) received() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.requests)
}

func serviceOf(gv runtimeschema.GroupVersion, port int32) *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{Spec: apiregistrationv1.APIServiceSpec{Group: gv.Group, Version: gv.Version,
		Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "other", Port: &port}}}
}

// serve gives a version resources with names and verbs.
func (o *others) serve(i int, verbs string, names ...string) {
	for _, name := range names {
		o.remote.Versions[i].Resources = append(o.remote.Versions[i].Resources, apidiscoveryv2.APIResourceDiscovery{Resource: name,
			Scope: apidiscoveryv2.ScopeNamespace, Verbs: strings.Fields(verbs)})
	}
}

// TestEmptyUnsupported has resources whose server rejects what its discovery document lists.
func TestEmptyUnsupported(t *testing.T) {
	t.Parallel()
	const prefix = "/apis/g1.example.com/v1/namespaces/ns/"
	var mu sync.Mutex
	objects := map[string][]string{"unlisted": {"a"}, "missing": {"a"}, "single": {"a", "b"}, "gone": {"a"}, "kept": {"a", "b"}}
	o := newOthers(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		resource, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, prefix), "/")
		code := http.StatusOK
		switch {
		case resource == "unlisted":
			code = http.StatusMethodNotAllowed
		case resource == "missing":
			code = http.StatusNotFound
		case resource == "broken":
			code = http.StatusInternalServerError
		case r.Method == http.MethodDelete && name == "":
			code = map[string]int{"single": http.StatusMethodNotAllowed, "gone": http.StatusNotFound, "kept": http.StatusMethodNotAllowed}[resource]
		case r.Method == http.MethodDelete && resource == "kept":
			code = http.StatusMethodNotAllowed
		case r.Method == http.MethodDelete:
			objects[resource] = slices.DeleteFunc(objects[resource], func(other string) bool { return name == other })
			if resource == "gone" {
				code = http.StatusNotFound
			}
		}
		w.WriteHeader(code)
		var items []string
		for _, name := range objects[resource] {
			items = append(items, fmt.Sprintf(`{"metadata":{"name":%q}}`, name))
		}
		_, _ = fmt.Fprintf(w, `{"items":[%s]}`, strings.Join(items, ","))
	})
	o.serve(0, "list delete deletecollection", "unlisted", "missing", "single", "gone", "kept")
	left := o.Empty(t.Context(), "ns")
	if len(left.Failures) > 0 || len(left.Undiscovered) > 0 || len(left.Remaining) != 1 || left.Remaining["kept.g1.example.com"] != 2 {
		t.Errorf("%+v", left)
	}
	for _, want := range []string{"DELETE " + prefix + "single/b", "DELETE " + prefix + "gone/a"} {
		if !slices.Contains(o.received(), want) {
			t.Errorf("no %s in %s", want, o.received())
		}
	}
	// Other errors are failures, and do not keep other resources from being emptied.
	o.remote.Versions[0].Resources = nil
	o.serve(0, "list delete", "broken", "single")
	objects["single"] = []string{"c"}
	if left = o.Empty(t.Context(), "ns"); len(left.Failures) != 1 || len(objects["single"]) != 0 ||
		!strings.Contains(left.Failures[0].Error(), "broken: 500 Internal Server Error") {
		t.Errorf("%+v %s", left, objects)
	}
}

// TestEmptyFails has a server that deletes nothing, and objects with long names: its errors stay short.
func TestEmptyFails(t *testing.T) {
	t.Parallel()
	const objects = 50
	var text strings.Builder
	for i := range objects {
		fmt.Fprintf(&text, `{"metadata":{"name":"%d-%s"}},`, i, strings.Repeat("x", 2*maxPath))
	}
	o := newOthers(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = fmt.Fprintf(w, `{"items":[%s]}`, strings.TrimSuffix(text.String(), ","))
	})
	o.serve(0, "list delete", "things")
	left := o.Empty(t.Context(), "ns")
	if len(left.Failures) != 1 {
		t.Fatal(len(left.Failures), "failures")
	}
	got := left.Failures[0].Error()
	for _, want := range []string{"DELETE /apis/g1.example.com/v1/namespaces/ns/things/0-x", "x: 500 Internal Server Error\n",
		fmt.Sprintf("%d more objects could not be deleted", objects-maxErrors)} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nlacks %s", got, want)
		}
	}
	if most := (maxErrors + 1) * (maxPath + 100); len(got) > most {
		t.Errorf("the error has %d bytes, more than %d", len(got), most)
	}
	if n := len(o.received()); n != objects+1 {
		t.Errorf("%d requests", n)
	}
}

// TestEmptyHangs has a server that does not answer: it is asked once, and others are emptied at the same time.
func TestEmptyHangs(t *testing.T) {
	t.Parallel()
	deleted := make(chan struct{})
	o := newOthers(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, func(w http.ResponseWriter, r *http.Request) {
		items := `{"metadata":{"name":"a"}}`
		if r.Method == http.MethodDelete {
			close(deleted)
		}
		select {
		case <-deleted:
			items = ""
		default:
		}
		_, _ = fmt.Fprintf(w, `{"items":[%s]}`, items)
	})
	for i := range 100 {
		o.serve(0, "list delete", fmt.Sprintf("hangs%d", i))
	}
	o.serve(1, "list delete", "things")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	done := make(chan []error)
	go func() { done <- o.Empty(ctx, "ns").Failures }()
	select {
	case <-deleted:
	case <-done:
		t.Fatal("the other server was not emptied")
	}
	cancel()
	// The other server may not yet have been asked for what is left.
	if failures := slices.DeleteFunc(<-done, func(err error) bool { return !strings.Contains(err.Error(), "hangs") }); len(failures) != 1 {
		t.Errorf("the failures %v", failures)
	}
	hung := slices.DeleteFunc(o.received(), func(r string) bool { return !strings.Contains(r, "hangs") })
	if len(hung) > 1 {
		t.Errorf("the server was asked %d times", len(hung))
	}
}

// TestLateAnswer has an answer that arrives after the API service was assigned to another server.
func TestLateAnswer(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}), make(chan struct{})
	o := newOthers(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis" {
			http.NotFound(w, r)
			return
		}
		close(asked)
		<-answer
		w.Header().Set("Content-Type", acceptV2)
		_ = json.NewEncoder(w).Encode(apidiscoveryv2.APIGroupDiscoveryList{Items: []apidiscoveryv2.APIGroupDiscovery{{
			ObjectMeta: metav1.ObjectMeta{Name: "g1.example.com"},
			Versions:   []apidiscoveryv2.APIVersionDiscovery{{Version: "v1", Resources: []apidiscoveryv2.APIResourceDiscovery{{Resource: "things"}}}}}}})
	})
	gv := o.remote.Versions[0].GroupVersion
	d := o.discovery
	d.update(o.table)
	due, _ := d.next(time.Now())
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.fetch(t.Context(), gv, due[gv])
	}()
	<-asked
	before := o.table.backends[gv]
	d.update(&table{backends: map[runtimeschema.GroupVersion]*backend{gv: {available: true, transport: before.transport, service: serviceOf(gv, 2)}}})
	close(answer)
	<-done
	if v := o.Remote().Versions[0]; !v.Stale {
		t.Errorf("the answer of the old server is that of the new one: %+v", v)
	}
	if due, _ = d.next(time.Now()); due[gv].of == nil {
		t.Error("the new server is not asked")
	}
}

// TestDocumentPath checks that nothing but the OpenAPI document is requested as the aggregator.
func TestDocumentPath(t *testing.T) {
	t.Parallel()
	o := newOthers(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Header.Get("X-Remote-User")) })
	h := o.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	for path, want := range map[string]int{
		"/openapi/v3/apis/g1.example.com/v1":         http.StatusOK,
		"/openapi/v3/apis/g1.example.com/v1?hash=A":  http.StatusOK,
		"/openapi/v3/apis/g1.example.com/v1/":        http.StatusNotFound,
		"/openapi/v3/apis/g1.example.com/v1/secrets": http.StatusNotFound,
		"/openapi/v3/apis/g2.example.com/v1":         http.StatusTeapot,
	} {
		for _, upgrade := range []bool{false, true} {
			ctx := apirequest.WithUser(t.Context(), &user.DefaultInfo{Name: "jane"})
			ctx = apirequest.WithRequestInfo(ctx, &apirequest.RequestInfo{Path: path, Verb: "get"})
			req := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
			want := want
			if upgrade {
				req.Header.Set("Connection", "Upgrade")
				req.Header.Set("Upgrade", "SPDY/3.1")
				if want == http.StatusOK {
					want = http.StatusBadRequest
				}
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			if w.Code != want || w.Code == http.StatusOK && w.Body.String() != aggregatorUser {
				t.Errorf("%s, upgrade %v: %d %s, want %d", path, upgrade, w.Code, w.Body, want)
			}
		}
	}
}
