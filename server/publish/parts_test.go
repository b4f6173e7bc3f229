package publish

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/kube-openapi/pkg/spec3"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/openapi"
)

func newPublisher(src Source) *Publisher {
	return New(Config{Source: src, Codecs: serializer.NewCodecFactory(runtime.NewScheme())})
}

// TestParts compares the document of parts with the merged document of all CRDs, byte by byte.
func TestParts(t *testing.T) {
	awkward := func(c *api.CustomResourceDefinition) {
		c.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = "<a> & \"b\"\u2028 \\ é"
		addVersion("v2", true)(c)
	}
	src := &source{}
	p := newPublisher(src)
	for n := range 4 {
		var all []*crd.Definition
		for i := range n {
			all = append(all, define(t, fmt.Sprintf("things%d.example.com", i), awkward))
		}
		if n == 3 {
			// Two CRDs of one kind: the first one wins.
			all = append(all, define(t, "xthings.example.com", func(c *api.CustomResourceDefinition) { c.Status.AcceptedNames.Kind = all[0].Names().Kind }))
		}
		src.set(all...)
		s := p.snapshot()
		for _, version := range []string{"v1", "v2"} {
			gv := s.byName[runtimeschema.GroupVersion{Group: "example.com", Version: version}]
			if gv == nil {
				continue
			}
			var docs []*spec3.OpenAPI
			for _, v := range gv.served {
				doc, err := v.OpenAPI.V3(p.builder())
				if err != nil {
					t.Fatal(err)
				}
				docs = append(docs, doc)
			}
			want, err := json.Marshal(openapi.MergeV3(docs...))
			if err != nil {
				t.Fatal(err)
			}
			doc, err := p.newV3(gv, "").json()
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(doc.reader())
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d CRDs, %s: %v, got\n%s\nwant\n%s", n, version, err, got, want)
			}
		}
	}
	got, err := joinV3(nil)
	want, _ := json.Marshal(openapi.MergeV3())
	if err != nil || !bytes.Equal(bytes.Join(got, nil), want) {
		t.Errorf("no CRDs: %s, %v", got, err)
	}
}

// TestPartsAfterChange checks that a change of one CRD describes that one again, and nothing
// else.
func TestPartsAfterChange(t *testing.T) {
	src := &source{}
	p := newPublisher(src)
	catalog := crd.NewCatalog(define(t, "as.example.com"), define(t, "bs.example.com"), define(t, "cs.other.example.com"))
	get := func() {
		t.Helper()
		src.catalog.Store(catalog)
		for _, path := range []string{"/openapi/v3/apis/example.com/v1", "/openapi/v3/apis/other.example.com/v1"} {
			w := httptest.NewRecorder()
			p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			if w.Code != http.StatusOK {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
	}
	get()
	before := p.snapshot()
	kept := p.parts.cache.Len()
	catalog = catalog.With(define(t, "bs.example.com", func(c *api.CustomResourceDefinition) { c.Generation = 2 }))
	get()
	after := p.snapshot()
	if before.group("other.example.com") != after.group("other.example.com") || before.group("example.com") == after.group("example.com") {
		t.Error("the groups that changed are others")
	}
	if all := p.parts.cache.Len(); kept != 3 || all != 4 {
		t.Errorf("%d of %d parts are new", all-kept, all)
	}
}

// TestResourcesNeedNoSnapshot checks that requests for resources do not build what is
// published.
func TestResourcesNeedNoSnapshot(t *testing.T) {
	src := &source{}
	src.set(define(t, "things.example.com"))
	p := newPublisher(src)
	for _, path := range []string{"/apis/example.com/v1/things", "/apis/example.com/v1/namespaces/a/things/b", "/api/v1/namespaces/a"} {
		if p.handler(path) != nil || p.current.Load() != nil {
			t.Errorf("%s: built a snapshot", path)
		}
	}
	if p.handler("/apis/example.com/v1") == nil || p.current.Load() == nil {
		t.Error("discovery built no snapshot")
	}
}

// discard is a response that counts its bytes.
type discard struct {
	header http.Header
	size   int
}

func (d *discard) Header() http.Header { return d.header }
func (d *discard) WriteHeader(int)     {}
func (d *discard) Write(data []byte) (int, error) {
	d.size += len(data)
	return len(data), nil
}

// BenchmarkOpenAPIAfterChange measures the OpenAPI v3 document of a group of 500 CRDs after a
// change of one.
func BenchmarkOpenAPIAfterChange(b *testing.B) {
	src := &source{}
	p := newPublisher(src)
	catalog := crd.NewCatalog()
	for i := range 500 {
		catalog = catalog.With(define(b, fmt.Sprintf("things%d.example.com", i)))
	}
	generation := int64(1)
	get := func() {
		src.catalog.Store(catalog)
		w := &discard{header: http.Header{}}
		p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/openapi/v3/apis/example.com/v1", nil))
		b.SetBytes(int64(w.size))
	}
	get()
	for b.Loop() {
		b.StopTimer()
		generation++
		catalog = catalog.With(define(b, "things7.example.com", func(c *api.CustomResourceDefinition) { c.Generation = generation }))
		b.StartTimer()
		get()
	}
}
