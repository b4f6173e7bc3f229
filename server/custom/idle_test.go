package custom

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	requestmetrics "k8s.io/apiserver/pkg/endpoints/handlers/metrics"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"espalier.dev/crd"
	"espalier.dev/schema"
)

// catalogSource has a catalog that can be replaced.
type catalogSource struct{ atomic.Pointer[crd.Catalog] }

func (s *catalogSource) Catalog() *crd.Catalog               { return s.Load() }
func (*catalogSource) Refresh(context.Context, string) error { return nil }

// TestIdle sweeps while requests and a watch use a CRD, and afterwards.
func TestIdle(t *testing.T) {
	t.Parallel()
	const path = "/apis/example.com/v1/namespaces/n/widgets"
	d := newWidgets(t, widgetCRD, schema.Kubernetes)
	own := newWriteHandler(t, fixedSource{crd.NewCatalog(d)}, nil, newPlainStorage(t))
	h := asTester(own)
	servings := func() int {
		own.mu.RLock()
		defer own.mu.RUnlock()
		return len(own.servings)
	}
	program := func() *schema.Program {
		p, err := d.Version("v1").Program()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	get := func() {
		if w := sendTo(h, http.MethodGet, path+"/a", "", ""); w.Code != http.StatusNotFound {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}

	get()
	first := program()
	own.sweep()
	if servings() != 1 || program() != first {
		t.Error("a serving that was used since the last sweep was dropped")
	}
	own.sweep()
	if servings() != 0 || program() == first {
		t.Error("an idle serving or its Program was kept")
	}

	s, err := own.acquire(d)
	if err != nil {
		t.Fatal(err)
	}
	ended := s.requests.Linger() // a watch
	s.requests.Release()
	own.sweep()
	own.sweep()
	if servings() != 1 || s.gone.Err() != nil {
		t.Error("a serving with a watch was dropped")
	}
	ended()
	own.sweep()
	if servings() != 0 || s.gone.Err() == nil {
		t.Error("a serving was kept after the end of its watch")
	}

	var users sync.WaitGroup
	for range 4 {
		users.Go(func() {
			for range 50 {
				get()
			}
		})
	}
	for range 200 {
		own.sweep()
	}
	users.Wait()
}

// TestNamedResources uses more resources than metrics name, and deletes their CRDs.
func TestNamedResources(t *testing.T) {
	const group = "series.example.com"
	metrics.Register()
	requestmetrics.Register()
	var definitions []*crd.Definition
	for i := range maxNamed + 2 {
		definitions = append(definitions, newWidgets(t, strings.NewReplacer("example.com", group, "widget", fmt.Sprint("widget", i)).Replace(widgetCRD), schema.Kubernetes))
	}
	source := &catalogSource{}
	source.Store(crd.NewCatalog(definitions...))
	own := newWriteHandler(t, source, nil, newPlainStorage(t))
	h := asTester(own)
	use := func(i int) {
		path := fmt.Sprintf("/apis/%s/v1/namespaces/n/widget%ds", group, i)
		body := fmt.Sprintf(`{"apiVersion":"%s/v1","kind":"Widget","metadata":{"name":"a"}}`, group)
		for _, r := range [][3]string{{http.MethodPost, path, body}, {http.MethodGet, path + "/a"}, {http.MethodDelete, path + "/a"}} {
			if w := sendTo(h, r[0], r[1], "application/json", r[2]); w.Code >= 300 {
				t.Fatalf("%s %s: %d %s", r[0], r[1], w.Code, w.Body)
			}
		}
	}
	for i := range definitions {
		use(i)
	}
	series := func(resource string) (n int) {
		families, err := legacyregistry.DefaultGatherer.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if l.GetName() == "resource" && l.GetValue() == resource {
						n++
					}
				}
			}
		}
		return n
	}
	if n := series("widget0s"); n < 6 {
		t.Errorf("%d series of the first resource", n)
	}
	if n := series(fmt.Sprintf("widget%ds", maxNamed)); n != 0 {
		t.Errorf("%d series of a resource beyond the limit", n)
	}
	if n := series(other); n < 6 {
		t.Errorf("%d series of all other resources", n)
	}

	remove := func(i int) {
		source.Store(source.Catalog().Without(definitions[i].Name()))
		own.Changed(source.Catalog(), definitions[i].Name())
	}
	remove(0)
	remove(maxNamed)
	if n := series("widget0s"); n != 0 {
		t.Errorf("%d series of a deleted resource", n)
	}
	// The room is for another resource, once it is served anew.
	own.sweep()
	own.sweep()
	use(maxNamed + 1)
	if n := series(fmt.Sprintf("widget%ds", maxNamed+1)); n < 6 {
		t.Errorf("%d series of a resource for which there is room", n)
	}
	for i := range definitions {
		remove(i)
	}
	for i := range definitions {
		if n := series(fmt.Sprintf("widget%ds", i)); n != 0 {
			t.Errorf("%d series of the deleted resource %d", n, i)
		}
	}
}
