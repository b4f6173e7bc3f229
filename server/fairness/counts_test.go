package fairness

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/util/flowcontrol/request"

	"espalier.dev/server/etcd/memory"
	"espalier.dev/store"
)

// pods is a Reader with one resource.
type pods struct{}

func (pods) Has(gr schema.GroupResource) bool { return gr.String() == "pods" }

func (pods) StoredAs(gr schema.GroupResource) schema.GroupResource {
	if gr.String() == "pods.other.example.com" {
		return schema.GroupResource{Resource: "pods"}
	}
	return gr
}

func (pods) Decode(schema.GroupResource, *store.Entry) (runtime.Object, error) {
	return nil, errors.New("nothing is decoded")
}

// TestCounts tests the numbers and sizes of stored objects.
func TestCounts(t *testing.T) {
	db := memory.Open(memory.Config{})
	t.Cleanup(db.Close)
	put := func(prefix string, n, size int) {
		for i := range n {
			if _, err := db.Client().Put(t.Context(), fmt.Sprintf("%s%05d", prefix, i), strings.Repeat("x", size)); err != nil {
				t.Fatal(err)
			}
		}
	}
	put("/registry/pods/default/p", 5, 1000)
	put("/registry/stable.example.com/crontabs/default/c", 7, 200)
	put("/registry/example.com/larges/default/l", 3000, 1024)
	s, err := store.Open(store.Config{Client: db.Client(), Watcher: db.NewWatcher(), Prefix: "/registry/"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	<-s.Loaded()
	counts := NewCounts(s, pods{})
	for _, c := range []struct {
		resource    string
		count, size int64
	}{{"pods", 5, 1000}, {"pods.other.example.com", 5, 1000}, {"crontabs.stable.example.com", 7, 200}, {"larges.example.com", 2048, 1024}} {
		for range 2 { // the second time, the result may have been kept
			got, err := counts.Get(c.resource)
			if err != nil || got.ObjectCount != c.count || got.EstimatedAverageObjectSizeBytes != c.size {
				t.Errorf("%s: got %+v, %v", c.resource, got, err)
			}
		}
	}
	if _, err := counts.Get("missing.example.com"); !errors.Is(err, request.ObjectCountNotFoundErr) {
		t.Errorf("a resource that does not exist: %v", err)
	}
}
