package publish

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"

	"espalier.dev/api"
	"espalier.dev/crd"
)

// TestAggregatedText compares the aggregated list that is joined from the texts of groups with that of the
// encoder, byte by byte, for few and for many groups, before and after a change.
func TestAggregatedText(t *testing.T) {
	for _, groups := range []int{0, 1, 300} {
		src := &source{}
		p := newPublisher(src)
		catalog := crd.NewCatalog()
		for i := range groups {
			catalog = catalog.With(define(t, fmt.Sprintf("things.g%03d.example.com", i), addVersion("v2", i%2 == 0)))
		}
		tags := map[string]bool{}
		for change := range 3 {
			if change > 0 && groups > 0 {
				catalog = catalog.With(define(t, "things.g000.example.com", func(c *api.CustomResourceDefinition) {
					c.Generation = int64(change + 1)
					c.Status.AcceptedNames.ShortNames = []string{"<&>", fmt.Sprint(change)}
				}))
			}
			src.catalog.Store(catalog)
			before := p.current.Load()
			s := p.snapshot()
			if before != nil && groups > 1 && before.group("g001.example.com") != s.group("g001.example.com") {
				t.Error("a group that has not changed is made again")
			}
			list := &apidiscoveryv2.APIGroupDiscoveryList{Items: []apidiscoveryv2.APIGroupDiscovery{}}
			for _, g := range s.groups {
				list.Items = append(list.Items, g.aggregated())
			}
			for _, encoding := range []string{"", "gzip"} {
				got, want := httptest.NewRecorder(), httptest.NewRecorder()
				r := httptest.NewRequest(http.MethodGet, "/apis", nil)
				r.Header.Set("Accept", aggregatedJSON)
				r.Header.Set("Accept-Encoding", encoding)
				p.ServeHTTP(got, r)
				tag := got.Header().Get("ETag")
				tags[tag] = true
				aggregated.ServeHTTPWithETag(list, tag[1:len(tag)-1], apidiscoveryv2.SchemeGroupVersion, p.codecs.aggregated, want, r)
				if isPacked := want.Header().Get("Content-Encoding") == "gzip"; isPacked != (groups > 100 && encoding == "gzip") {
					t.Errorf("%d groups, %q: packed %v", groups, encoding, isPacked)
				}
				if fmt.Sprint(got.Header()) != fmt.Sprint(want.Header()) || !bytes.Equal(unpacked(t, got), unpacked(t, want)) {
					t.Errorf("%d groups, %q: got\n%v\n%.1000s\nwant\n%v\n%.1000s", groups, encoding, got.Header(), unpacked(t, got), want.Header(), unpacked(t, want))
				}
			}
		}
		if want := min(3, 1+2*groups); len(tags) != want {
			t.Errorf("%d groups: %d tags, want %d", groups, len(tags), want)
		}
	}
}

// unpacked returns the content of a response.
func unpacked(t *testing.T, w *httptest.ResponseRecorder) []byte {
	t.Helper()
	if w.Header().Get("Content-Encoding") != "gzip" {
		return w.Body.Bytes()
	}
	r, err := gzip.NewReader(bytes.NewReader(w.Body.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
