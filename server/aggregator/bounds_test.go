package aggregator

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// repeated returns a JSON text of about a size that is full of empty objects.
func repeated(before, after string, size int) string {
	n := (size - len(before) - len(after)) / 3
	return before + strings.Repeat("{},", n-1) + "{}" + after
}

// allocated returns the bytes that a function allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestSmallObjects has servers whose documents are within the limits of their sizes, but have millions of
// objects, each of which would need hundreds of bytes. Other tests may not run at the same time.
func TestSmallObjects(t *testing.T) {
	if testing.Short() {
		t.Skip("allocates hundreds of megabytes")
	}
	const most = 400 << 20
	answer := ""
	o := newOthers(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/apis" {
			w.Header().Set("Content-Type", acceptV2)
		}
		_, _ = io.WriteString(w, answer)
	})
	gv := o.remote.Versions[0].GroupVersion
	b := o.table.backends[gv]
	fetchSwagger := func() error {
		if o.fetchSwagger(t.Context(), gv, b, swagger{}).part == nil {
			return errTooLarge
		}
		return nil
	}
	for _, c := range []struct {
		name, text string
		fetch      func() error
	}{
		{"discovery", repeated(`{"items":[`, `]}`, maxDiscovery), func() error {
			_, err := o.fetchResources(t.Context(), gv, b)
			return err
		}},
		{"parameters", repeated(`{"paths":{"/apis/g1.example.com/v1/things":{"get":{"parameters":[`, `]}}}}`, maxSwagger), fetchSwagger},
		{"schemas", repeated(`{"paths":{"/apis/g1.example.com/v1/things":{}},"definitions":{"x":{"allOf":[`, `]}}}`, maxSwagger), fetchSwagger},
		{"numbers", `{"paths":{"/apis/g1.example.com/v1/things":{}},"definitions":{"x":{"enum":[` + strings.Repeat("1,", maxSwagger/2-100) + `1]}}}`, fetchSwagger},
		{"finalizers", `{"items":[{"metadata":{"name":"a","finalizers":[` + strings.Repeat(`"",`, maxList/4) + `""]}}]}`, func() error {
			_, err := o.list(t.Context(), b, "/things")
			return err
		}},
	} {
		answer = c.text
		var err error
		if n := allocated(func() { err = c.fetch() }); err == nil || n > most {
			t.Errorf("%s: %v, %d MB were allocated", c.name, err, n>>20)
		}
	}
	answer = repeated(`{"items":[`, `]}`, maxList)
	n := allocated(func() {
		if list, err := o.list(t.Context(), b, "/things"); err != nil || len(list) != maxItems {
			t.Errorf("a list has %d objects: %v", len(list), err)
		}
	})
	if n > most {
		t.Errorf("a list: %d MB were allocated", n>>20)
	}
}

// TestManyFinalizers has objects with more finalizers than can be reported.
func TestManyFinalizers(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 2 * maxNames {
		fmt.Fprintf(&text, `{"metadata":{"name":"a","finalizers":["x/%d","x/0"]}},`, i)
	}
	o := newOthers(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"items":[%s]}`, strings.TrimSuffix(text.String(), ","))
	})
	o.serve(0, "list delete deletecollection", "things")
	left := o.Empty(t.Context(), "ns")
	if len(left.Finalizers) != maxNames || left.Finalizers["x/0"] != 2*maxNames+1 || left.Remaining["things.g1.example.com"] != 2*maxNames {
		t.Errorf("%d finalizers, %d objects with the first one, %v", len(left.Finalizers), left.Finalizers["x/0"], left.Remaining)
	}
}

// TestList reads lists in other forms.
func TestList(t *testing.T) {
	t.Parallel()
	answer := ""
	o := newOthers(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) })
	for text, want := range map[string]string{
		`{"kind":"List","metadata":{"items":[{}]},"items":[{"metadata":{"name":"a","finalizers":["x/y"]},"spec":{"items":1}}, {"metadata":{}}],"more":1}`: "[{{a [x/y]}} {{ []}}] true",
		`{"items":null}`:  "[] true",
		`{}`:              "[] true",
		`{"items":"a"}`:   "[] false",
		`{"items":[1]}`:   "[] false",
		`{"items":[{}`:    "[] false",
		`{"items":[{},]}`: "[] false",
		`<html>`:          "[] false",
	} {
		answer = text
		list, err := o.list(t.Context(), o.table.backends[o.remote.Versions[0].GroupVersion], "/things")
		if got := fmt.Sprint(list, err == nil); got != want {
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
		}
	}
}
