package custom

import (
	"bytes"
	"net/http"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"espalier.dev/schema"
	"espalier.dev/store"
)

// TestWrittenViews checks that the view of a value that was just written is not made again, and that
// no other view is taken for it.
func TestWrittenViews(t *testing.T) {
	t.Parallel()
	k := testKind(t, newWidgets(t, widgetCRD, schema.KEP))("v1")
	written := newWrittenViews()
	codec := &storageCodec{kind: k, memory: toV1, stored: toV1, written: written}
	encode := func(name string) (value []byte, tree *storedTree) {
		obj, err := k.DecodeStored([]byte(stored(name, "")))
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		tree = &storedTree{Unstructured: obj.(*unstructured.Unstructured)}
		if err := codec.Encode(tree, &b); err != nil || tree.view == nil {
			t.Fatal(tree.view, err)
		}
		return bytes.Clone(b.Bytes()), tree
	}
	value, tree := encode("a")
	tree.view.before, tree.view.after = true, true // as no view is made
	if v := written.take(new(viewID), value); v != nil {
		t.Error("the view of another version is taken")
	}
	if v := written.take(k.id, []byte(strings.Replace(string(value), `"a"`, `"b"`, 1))); v != nil {
		t.Error("the view of another value is taken")
	}
	s := &views{kind: k, kept: true, written: written}
	v, err := s.of(&store.Entry{Key: "k", Value: value})
	if err != nil || !v.before || !v.after || v.at != tree.view.at || v.of != k.id || string(v.text) != strings.TrimSuffix(string(value), "\n") {
		t.Fatalf("the view of what was written is not used: %v, %v", v, err)
	}
	if unsafe.SliceData(v.text) != unsafe.SliceData(value) {
		t.Error("the view keeps the text of the write in memory")
	}
	if v, err := s.of(&store.Entry{Key: "k", Value: value}); err != nil || v.before && v.after {
		t.Errorf("the view is held after it was taken: %v, %v", v, err)
	}

	large, _ := encode(strings.Repeat("a", maxWritten))
	if written.take(k.id, large) != nil {
		t.Error("the view of a large value is held")
	}
	if none := (*writtenViews)(nil); none.take(k.id, value) != nil {
		t.Error("there is a view in nothing")
	} else {
		none.add(tree.view)
	}
}

// TestWrittenViewsTogether takes views while others are added.
func TestWrittenViewsTogether(t *testing.T) {
	t.Parallel()
	written, id := newWrittenViews(), new(viewID)
	var tasks sync.WaitGroup
	for i := range 8 {
		tasks.Go(func() {
			for n := range 2000 {
				text := []byte(strings.Repeat(string(rune('a'+(n+i)%26)), n%100))
				written.add(&view{of: id, text: text, at: int32(len(text))})
				if v := written.take(id, append(text, '\n')); v != nil && (int(v.at) != len(text) || !bytes.Equal(v.text, text)) {
					t.Errorf("the view of %q for %q", v.text, text)
				}
			}
		})
	}
	tasks.Wait()
}

// TestWrittenViewsOfRequests checks that reads use the views of writes.
func TestWrittenViewsOfRequests(t *testing.T) {
	t.Parallel()
	s := newWidgetServer(t, widgetCRD, schema.KEP)
	held := func() (n int) {
		for i := range s.handler.reads.written.slots {
			if s.handler.reads.written.slots[i].Load() != nil {
				n++
			}
		}
		return n
	}
	w := sendTo(s, http.MethodPost, widgetPath, "application/json", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"name":"n","size":1}}`)
	if w.Code != http.StatusCreated || held() != 0 { // a read adds the default of the status
		t.Fatalf("%d %s: %d views are held", w.Code, w.Body, held())
	}
	w = sendTo(s, http.MethodPatch, widgetPath+"/a", "application/merge-patch+json", `{"spec":{"size":2}}`)
	if w.Code != http.StatusOK || held() != 1 {
		t.Fatalf("%d %s: %d views are held", w.Code, w.Body, held())
	}
	got := sendTo(s, http.MethodGet, widgetPath+"/a", "", "")
	if got.Code != http.StatusOK || got.Body.String() != w.Body.String() || held() != 0 {
		t.Errorf("%d %s, want %s: %d views are held", got.Code, got.Body, w.Body, held())
	}
}
