package espaliertest

import (
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// watcher is a watch of ConfigMaps and trees, with all that differs: encodings, and handlers.
type watcher struct {
	name, resource string
	watch          func(t *testing.T, s *Server, o metav1.ListOptions) (watch.Interface, error)
	write          func(t *testing.T, s *Server, name string)
}

func watchers() []watcher {
	writeMap := func(t *testing.T, s *Server, name string) {
		t.Helper()
		if _, err := protobuf(t, s.Config()).CoreV1().ConfigMaps("default").Create(t.Context(), configMap(name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return []watcher{
		{"custom", "trees.example.com", func(t *testing.T, s *Server, o metav1.ListOptions) (watch.Interface, error) {
			return trees(t, s.Config()).Watch(t.Context(), o)
		}, func(t *testing.T, s *Server, name string) {
			t.Helper()
			if _, err := trees(t, s.Config()).Create(t.Context(), tree(name), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}},
		{"protobuf", "configmaps", func(t *testing.T, s *Server, o metav1.ListOptions) (watch.Interface, error) {
			return protobuf(t, s.Config()).CoreV1().ConfigMaps("default").Watch(t.Context(), o)
		}, writeMap},
		{"json", "configmaps", func(t *testing.T, s *Server, o metav1.ListOptions) (watch.Interface, error) {
			config := s.Config()
			config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				return nil, err
			}
			return client.CoreV1().ConfigMaps("default").Watch(t.Context(), o)
		}, writeMap},
	}
}

// next returns the next event of a watch as text, or how it has ended.
func next(t *testing.T, w watch.Interface) string {
	t.Helper()
	select {
	case e, ok := <-w.ResultChan():
		if !ok {
			return "end"
		}
		if e.Type == watch.Error {
			return fmt.Sprint("error ", apierrors.ReasonForError(apierrors.FromObject(e.Object)))
		}
		object, err := metaOf(e)
		if err != nil {
			t.Fatal(err)
		}
		return string(e.Type) + " " + object.GetName()
	case <-time.After(patience):
		t.Fatal("no event")
	}
	return ""
}

func metaOf(e watch.Event) (metav1.Object, error) {
	object, ok := e.Object.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("a %s has the object %T", e.Type, e.Object)
	}
	return object, nil
}

// quiet checks that a watch sends nothing for a moment.
func quiet(t *testing.T, w watch.Interface) {
	t.Helper()
	select {
	case e, ok := <-w.ResultChan():
		t.Fatalf("got %+v, %v", e, ok)
	case <-time.After(50 * time.Millisecond):
	}
}

// expect checks the next events of a watch.
func expect(t *testing.T, w watch.Interface, want ...string) {
	t.Helper()
	for _, event := range want {
		if got := next(t, w); got != event {
			t.Fatalf("got %q, want %q", got, event)
		}
	}
}

// TestInjectedWatches holds, ends and expires watches of all kinds, compressed ones, too.
func TestInjectedWatches(t *testing.T) {
	t.Parallel()
	yes := true
	initial := metav1.ListOptions{AllowWatchBookmarks: true, SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}
	for _, kind := range watchers() {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			s := Start(t, WithCRDs("testdata/crds"), WithoutControllers())
			// Nothing else changes here, so a watch without a revision begins at the newest one.
			begin := func(o metav1.ListOptions) watch.Interface {
				t.Helper()
				w, err := kind.watch(t, s, o)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(w.Stop)
				return w
			}
			list := begin(initial) // compressed
			expect(t, list, "BOOKMARK ")
			plain := begin(metav1.ListOptions{})

			// Held events arrive later, in order, also those of watches that begin meanwhile.
			hold := s.Inject(t, Rule{Fault: HoldEvents, Resource: kind.resource, Strict: true})
			if hold.Hits() != 2 {
				t.Fatalf("%+v", hold.Counts())
			}
			late := begin(initial)
			kind.write(t, s, "a")
			kind.write(t, s, "b")
			quiet(t, list)
			quiet(t, plain)
			quiet(t, late)
			hold.Remove()
			expect(t, list, "ADDED a", "ADDED b")
			expect(t, plain, "ADDED a", "ADDED b")
			// The state when it began, and what has changed since then.
			expect(t, late, "BOOKMARK ", "ADDED a", "ADDED b")
			kind.write(t, s, "c")
			expect(t, list, "ADDED c")
			expect(t, plain, "ADDED c")
			expect(t, late, "ADDED c")

			// Events are held for a time.
			hold = s.Inject(t, Rule{Fault: HoldEvents, Delay: time.Millisecond})
			kind.write(t, s, "d")
			kind.write(t, s, "e")
			for _, w := range []watch.Interface{list, plain, late} {
				expect(t, w, "ADDED d", "ADDED e")
			}
			hold.Remove()

			// An error after an event, for watches that are not compressed. A watch is not if there
			// were rules when it began.
			expired := s.Inject(t, Rule{Fault: Expired, After: 1})
			kind.write(t, s, "f")
			kind.write(t, s, "g")
			expect(t, plain, "ADDED f", "error Expired", "end")
			expect(t, late, "ADDED f", "error Expired", "end")
			expect(t, list, "ADDED f", "ADDED g")
			expired.Remove()
			expired = s.Inject(t, Rule{Fault: Expired})
			expect(t, list, "error Expired", "end")
			expired.Remove()

			// Watches that resume may expire. Others may not.
			rv := "1"
			expired = s.Inject(t, Rule{Fault: Expired})
			w := begin(metav1.ListOptions{ResourceVersion: rv})
			expect(t, w, "error Expired", "end")
			fresh := begin(initial)
			expect(t, fresh, "ADDED a")
			expired.Remove()

			// A watch ends after some events, a running one at once.
			ended := s.Inject(t, Rule{Fault: EndWatch, First: 2})
			for got := ""; got != "end"; {
				got = next(t, fresh)
			}
			expect(t, begin(initial), "end")
			ended.Remove()
			s.Inject(t, Rule{Fault: EndWatch, After: 3, Nth: 1})
			expect(t, begin(initial), "ADDED a", "ADDED b", "ADDED c", "end")
			expect(t, begin(initial), "ADDED a", "ADDED b", "ADDED c", "ADDED d")
		})
	}
}

// TestHeldThenEnded ends a watch whose events are held: a client that resumes it gets them.
func TestHeldThenEnded(t *testing.T) {
	t.Parallel()
	s := Start(t, WithCRDs("testdata/crds"))
	created, err := trees(t, s.Config()).Create(t.Context(), tree("a"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	from := metav1.ListOptions{ResourceVersion: created.GetResourceVersion()}
	w, err := trees(t, s.Config()).Watch(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	hold := s.Inject(t, Rule{Fault: HoldEvents})
	if _, err := trees(t, s.Config()).Create(t.Context(), tree("b"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	quiet(t, w)
	s.Inject(t, Rule{Fault: EndWatch, Nth: 1})
	expect(t, w, "end")
	hold.Remove()
	w, err = trees(t, s.Config()).Watch(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	expect(t, w, "ADDED b")
}
