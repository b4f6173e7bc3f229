package publish

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/internal/testcase"
	"espalier.dev/openapi"
)

func newPublisher(src Source) *Publisher {
	return New(Config{Source: src, Codecs: serializer.NewCodecFactory(runtime.NewScheme())})
}

// TestParts compares the document of parts with the merged document of all CRDs, byte by byte.
func TestParts(t *testing.T) {
	t.Run("raw", func(t *testing.T) { testParts(t, packFrom) })
	t.Run("packed", func(t *testing.T) { testParts(t, 0) })
}

func testParts(t *testing.T, packFrom int) {
	awkward := func(c *api.CustomResourceDefinition) {
		c.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = "<a> & \"b\"\u2028 \\ é"
		addVersion("v2", true)(c)
	}
	src := &source{}
	p := newPublisher(src)
	p.packFrom = packFrom
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
		compareV2(t, p, all)
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
			doc, err := p.newV3(gv, "").json.write()
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
	if err != nil || !bytes.Equal(got.frame[0], want) {
		t.Errorf("no CRDs: %s, %v", got.frame[0], err)
	}
}

// TestSharedNames checks that a CRD whose definition has the name of a type that all CRDs share has its own
// schema, and that the others keep theirs, whichever is described first.
func TestSharedNames(t *testing.T) {
	const shared = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
	impostor := define(t, "objectmetas.meta.apis.pkg.apimachinery.k8s.io", func(c *api.CustomResourceDefinition) {
		c.Status.AcceptedNames.Kind = "ObjectMeta"
		c.Spec.Names.Kind = "ObjectMeta"
		c.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = "of the impostor"
	})
	honest := define(t, "things.example.com")
	paths := []string{"/openapi/v3/apis/meta.apis.pkg.apimachinery.k8s.io/v1", "/openapi/v3/apis/example.com/v1"}
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		src := &source{}
		src.set(impostor, honest)
		p := newPublisher(src)
		for _, i := range order {
			w := httptest.NewRecorder()
			p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, paths[i], nil))
			var doc struct {
				Components struct {
					Schemas map[string]struct{ Description string }
				}
			}
			if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
				t.Fatalf("%s: %d %v", paths[i], w.Code, err)
			}
			got := doc.Components.Schemas[shared].Description
			if isOwn := got == "of the impostor"; got == "" || isOwn != (i == 0) {
				t.Errorf("%s, order %v: %s is described as %q", paths[i], order, shared, got)
			}
		}
	}
}

// TestPartsAfterChange checks that a change of one CRD describes that one again, and nothing
// else, and that no part of an old state or of a CRD that is gone is kept.
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
	parts := func() map[partKey]*part {
		out := map[partKey]*part{}
		p.v3parts.cache.Retain(func(key partKey) bool { out[key] = nil; return true })
		for key := range out {
			out[key], _ = p.v3parts.cache.Get(key, func() (*part, error) { return nil, errors.New("gone") })
		}
		return out
	}
	old := parts()
	catalog = catalog.With(define(t, "bs.example.com", func(c *api.CustomResourceDefinition) { c.Generation = 2 }))
	get()
	after := p.snapshot()
	if before.group("other.example.com") != after.group("other.example.com") || before.group("example.com") == after.group("example.com") {
		t.Error("the groups that changed are others")
	}
	now := parts()
	if len(old) != 3 || len(now) != 3 {
		t.Errorf("%d and then %d parts are kept", len(old), len(now))
	}
	for key, part := range now {
		if isNew := part != old[key]; isNew != (key.crd == "bs.example.com") {
			t.Errorf("%v: new %v", key, isNew)
		}
	}
	catalog = catalog.Without("bs.example.com")
	get()
	if p.v3parts.cache.Len() != 2 {
		t.Errorf("%d parts are kept after a deletion", p.v3parts.cache.Len())
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

// compareV2 compares the OpenAPI v2 document of parts with the merged document of all CRDs.
func compareV2(t *testing.T, p *Publisher, all []*crd.Definition) {
	t.Helper()
	var docs []*spec.Swagger
	for _, d := range all {
		for _, v := range d.Versions() {
			doc, err := p.describe(v).OpenAPI.V2(p.builder())
			if err != nil {
				t.Fatal(err)
			}
			docs = append(docs, doc)
		}
	}
	merged := openapi.MergeV2(docs...)
	want, err := json.Marshal(struct {
		Swagger     string                    `json:"swagger"`
		Info        *spec.Info                `json:"info"`
		Paths       map[string]spec.PathItem  `json:"paths"`
		Definitions spec.Definitions          `json:"definitions"`
		Parameters  map[string]spec.Parameter `json:"parameters,omitempty"`
	}{merged.Swagger, merged.Info, merged.Paths.Paths, handler.PruneDefaults(merged.Definitions), merged.Parameters})
	if err != nil {
		t.Fatal(err)
	}
	for encoding, read := range map[string]func(io.Reader) (io.Reader, error){
		"identity":  func(r io.Reader) (io.Reader, error) { return r, nil },
		"gzip;q=.5": func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/openapi/v2", nil)
		r.Header.Set("Accept-Encoding", encoding)
		p.ServeHTTP(w, r)
		if wants := encoding != "identity" && len(want) > 1400; wants != (w.Header().Get("Content-Encoding") == "gzip") {
			t.Errorf("%s: Content-Encoding %q", encoding, w.Header().Get("Content-Encoding"))
			continue
		}
		if w.Header().Get("Content-Encoding") == "" {
			read = func(r io.Reader) (io.Reader, error) { return r, nil }
		}
		body, err := read(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(body)
		if err != nil || w.Code != http.StatusOK || !bytes.Equal(got, want) {
			t.Errorf("%d CRDs, %s: %d, %v, got\n%.2000s\nwant\n%.2000s", len(all), encoding, w.Code, err, got, want)
		}
	}
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/openapi/v2", nil)
	r.Header.Set("Range", "bytes=5-90")
	if p.ServeHTTP(w, r); w.Code != http.StatusPartialContent || w.Body.String() != string(want[5:91]) {
		t.Errorf("a range: %d %s", w.Code, w.Body)
	}
}

// TestJoinCRC compares the CRC of texts that are joined with that of the whole.
func TestJoinCRC(t *testing.T) {
	whole := bytes.Repeat([]byte("0123456789abcdef"), 5000)
	for _, n := range []int{0, 1, 15, 1000, 65535, 65536, len(whole)} {
		if got := joinCRC(crc32.ChecksumIEEE(whole[:n]), crc32.ChecksumIEEE(whole[n:]), len(whole)-n); got != crc32.ChecksumIEEE(whole) {
			t.Errorf("after %d bytes: %x", n, got)
		}
	}
}

// defineMedium returns the definition of a resource with a schema of usual size.
func defineMedium(t testing.TB, name string, change ...func(*api.CustomResourceDefinition)) *crd.Definition {
	t.Helper()
	return define(t, name, append([]func(*api.CustomResourceDefinition){func(c *api.CustomResourceDefinition) {
		s := &api.JSONSchemaProps{}
		if err := json.Unmarshal(testcase.Medium().Schema, s); err != nil {
			t.Fatal(err)
		}
		c.Spec.Versions[0].Schema.OpenAPIV3Schema = s
	}}, change...)...)
}

// TestProtoChunks compares documents that are converted to protobuf in chunks with those that are
// converted at once.
func TestProtoChunks(t *testing.T) {
	var all []*crd.Definition
	for i := range 30 {
		all = append(all, defineMedium(t, fmt.Sprintf("things%d.example.com", i)))
	}
	src := &source{}
	src.set(all...)
	p := newPublisher(src)
	p.packFrom = 0
	v2, err := joinV2(allParts(all, p.swaggerOf, (*crd.Definition).Name))
	if err != nil {
		t.Fatal(err)
	}
	v3, err := joinV3(allParts(all, func(d *crd.Definition) (*part, error) { return p.partOf(p.describe(d.Versions()[0])) }, (*crd.Definition).Name))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		doc       *joined
		convert   func([]byte) ([]byte, error)
		got, want proto.Message
	}{
		{v2, handler.ToProtoBinary, &openapi_v2.Document{}, &openapi_v2.Document{}},
		{v3, handler3.ToV3ProtoBinary, &openapi_v3.Document{}, &openapi_v3.Document{}},
	} {
		whole, err := io.ReadAll(tc.doc.text().reader())
		if err != nil {
			t.Fatal(err)
		}
		want, err := tc.convert(whole)
		if err != nil {
			t.Fatal(err)
		}
		chunks, err := tc.doc.proto(tc.convert, p.v2parts.packer.pack)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(chunks.reader())
		if err != nil || len(chunks) < 2 {
			t.Fatalf("%d chunks of %d bytes, %v", len(chunks), len(whole), err)
		}
		if err := errors.Join(proto.Unmarshal(got, tc.got), proto.Unmarshal(want, tc.want)); err != nil || !proto.Equal(tc.got, tc.want) {
			t.Errorf("the document in %d chunks is another one: %v", len(chunks), err)
		}
	}
}
