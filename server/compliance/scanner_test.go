package compliance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/crd/compliance"
	"espalier.dev/schema"
	"espalier.dev/server/etcd/etcdtest"
	"espalier.dev/store"
)

const root = "/registry/"

func options() crd.Options { return crd.Options{Semantics: schema.KEP, Rules: cel.Checker{}} }

// world is an etcd with CRDs, which the test changes as the server would.
type world struct {
	testing.TB
	client *etcdtest.Database

	mu      sync.Mutex
	catalog atomic.Pointer[crd.Catalog]
	changed []func(*crd.Catalog, ...string)
	writes  map[string]int // conditions that were written, by name of the CRD
}

func newWorld(t testing.TB) *world {
	t.Helper()
	c := etcdtest.Open(t)
	w := &world{TB: t, client: c, writes: map[string]int{}}
	w.catalog.Store(crd.NewCatalog())
	return w
}

// scanner runs a scanner on a store of its own until the test ends.
func (w *world) scanner(sc store.Config, c Config) *Scanner {
	w.Helper()
	sc.Client, sc.Watcher, sc.Prefix = w.client.Client, w.client.NewWatcher(), root
	st, err := store.Open(sc)
	if err != nil {
		w.Fatal(err)
	}
	c.Store, c.Options, c.Catalog, c.Write = st, options(), w.catalog.Load, w.write
	if c.Interval == 0 {
		c.Interval = 20 * time.Millisecond
	}
	s := New(c)
	w.mu.Lock()
	w.changed = append(w.changed, s.Changed)
	w.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	w.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			w.Errorf("Run returned %v", err)
		}
		st.Close()
	})
	return s
}

// define sets the schema of spec of a CRD, in a new generation. An empty one deletes the CRD.
func (w *world) define(plural, properties string) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	name := plural + ".example.com"
	if properties == "" {
		w.publish(w.catalog.Load().Without(name))
		return
	}
	src := fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":%q},"spec":{"group":"example.com",
		"names":{"kind":"Thing","plural":%q},"scope":"Namespaced","versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":
		{"type":"object","properties":{"spec":{"type":"object","properties":{%s}}}}}}]}}`, name, plural, properties)
	c, err := codec.DecodeLenient([]byte(src))
	if err != nil {
		w.Fatal(err)
	}
	api.SetDefaults(c)
	c.UID, c.Generation = types.UID(fmt.Sprint(name, rand.Int64())), 1
	if old := w.catalog.Load().Get(name); old != nil {
		c.UID, c.Generation, c.Status = old.CRD().UID, old.CRD().Generation+1, old.CRD().Status
	}
	d, err := crd.New(c, options())
	if err != nil {
		w.Fatal(err)
	}
	w.publish(w.catalog.Load().With(d))
}

func (w *world) publish(c *crd.Catalog) {
	w.catalog.Store(c)
	for _, f := range w.changed {
		f(c)
	}
}

// write writes a condition as package definitions does.
func (w *world) write(_ context.Context, of *crd.Definition, condition api.CustomResourceDefinitionCondition) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.catalog.Load().Get(of.Name())
	switch {
	case d == nil || d.CRD().UID != of.CRD().UID:
		return apierrors.NewNotFound(of.GroupResource(), of.Name())
	case d.CRD().Generation != of.CRD().Generation:
		return apierrors.NewConflict(of.GroupResource(), of.Name(), errors.New("changed"))
	}
	next := *d.CRD()
	next.Status = crd.WithCondition(next.Status, condition, next.Generation, metav1.Now())
	w.writes[of.Name()]++
	w.publish(w.catalog.Load().With(d.Renew(&next)))
	return nil
}

func (w *world) written(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writes[name]
}

func (w *world) condition(name string) api.CustomResourceDefinitionCondition {
	if c := crd.Condition(&w.catalog.Load().Get(name).CRD().Status, api.Compliant); c != nil {
		return *c
	}
	return api.CustomResourceDefinitionCondition{}
}

func (w *world) put(plural, name, spec string) {
	w.Helper()
	value := fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":%q,"namespace":"ns","generation":1},"spec":%s}`, name, spec)
	if _, err := w.client.Put(context.Background(), w.key(plural, name), value); err != nil {
		w.Error(err)
	}
}

func (w *world) remove(plural, name string) {
	w.Helper()
	if _, err := w.client.Delete(context.Background(), w.key(plural, name)); err != nil {
		w.Error(err)
	}
}

func (w *world) key(plural, name string) string {
	return root + "example.com/" + plural + "/ns/" + name
}

// eventually waits until a scanner has taken in what is stored, and f reports nothing.
func (w *world) eventually(s *Scanner, f func() string) {
	w.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		_, current := s.snapshot(w.Context())
		text := f()
		if current && text == "" {
			return
		}
		if time.Now().After(deadline) {
			w.Fatal(text)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// check compares what a scanner knows about a CRD with an inspection of all objects.
func (w *world) check(s *Scanner, plural string) string {
	d := w.catalog.Load().Get(plural + ".example.com")
	var want compliance.Counts
	failing := map[string]bool{}
	inspector := compliance.New(d)
	for e := range s.config.Store.Snapshot().Range(string(s.prefix(d)), "") {
		r, err := inspector.Inspect(w.Context(), e.Value)
		if err != nil {
			return err.Error()
		}
		want.Add(&r, 1)
		if len(r.Problems) > 0 {
			failing[e.Key] = true
		}
	}
	r := s.result(d.Name())
	switch {
	case r == nil && want.Objects == 0:
		return ""
	case r == nil || !r.complete || r.definition.CRD().Generation != d.CRD().Generation:
		return "the scan is not complete"
	case r.counts != want:
		return fmt.Sprintf("got %+v, want %+v", r.counts, want)
	case r.overflow:
		if r.counts.Failing <= int64(s.config.MaxFailing)/2 {
			return "the keys are not kept"
		}
	case r.failing.Len() != len(failing):
		return fmt.Sprintf("%d keys, want %d", r.failing.Len(), len(failing))
	}
	for key := range r.failing.All() {
		if !failing[key] {
			return key + " complies"
		}
	}
	if listed := w.list(s, d.Name(), 7); !slices.Equal(listed, slices.Sorted(maps.Keys(failing))) {
		return fmt.Sprintf("listed %v, want %v", listed, slices.Sorted(maps.Keys(failing)))
	}
	stored := w.condition(d.Name())
	if wanted := condition(r, false); !same(&stored, wanted) && !(stored.Status == api.ConditionFalse && wanted.Status == api.ConditionFalse && stored.ObservedGeneration == wanted.ObservedGeneration) {
		return fmt.Sprintf("the condition is %+v, want %+v", stored, wanted)
	}
	return ""
}

// list returns the keys of the listed objects of a CRD, in pages.
func (w *world) list(s *Scanner, name string, limit int64) (keys []string) {
	o := &metainternalversion.ListOptions{Limit: limit, FieldSelector: fields.OneTermEqualSelector("crd", name)}
	for {
		page, err := s.list(w.Context(), o)
		if err != nil {
			w.Fatal(err)
		}
		if int64(len(page.Items)) > limit {
			w.Fatalf("%d objects on a page of %d", len(page.Items), limit)
		}
		for _, item := range page.Items {
			_, object, _ := strings.Cut(item.GetName(), ":")
			keys = append(keys, w.key(strings.TrimSuffix(name, ".example.com"), object))
		}
		if o.Continue = page.GetContinue(); o.Continue == "" {
			return keys
		}
	}
}

// TestScannerUnderWrites writes objects and changes, deletes and creates CRDs while they are
// scanned. At the end, the scanner must know what an inspection of all objects finds.
func TestScannerUnderWrites(t *testing.T) {
	t.Parallel()
	schemas := []string{`"a":{"type":"string"}`, `"a":{"type":"integer"}`, `"a":{"type":"integer","maximum":5},"b":{"type":"string"}`}
	specs := []string{`{}`, `{"a":1}`, `{"a":7}`, `{"a":"x"}`, `{"a":1,"b":"x"}`, `{"c":true}`}
	rounds := 300
	if testing.Short() {
		rounds = 100
	}
	for name, tc := range map[string]struct {
		store   store.Config
		scanner Config
	}{
		"usual":          {},
		"slow watches":   {store: store.Config{MaxQueue: 3, MaxEvents: 10}},
		"few keys":       {scanner: Config{MaxFailing: 10}},
		"slow, few keys": {store: store.Config{MaxQueue: 3, MaxEvents: 10}, scanner: Config{MaxFailing: 10}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			plurals := []string{"as", "bs", "cs"}
			for _, p := range plurals {
				w.define(p, schemas[0])
				for i := range 50 {
					w.put(p, fmt.Sprint("o", i), specs[i%len(specs)])
				}
			}
			s := w.scanner(tc.store, tc.scanner)
			var tasks sync.WaitGroup
			for i, p := range plurals {
				tasks.Go(func() {
					r := rand.New(rand.NewPCG(1, uint64(i)))
					for range rounds {
						if name := fmt.Sprint("o", r.IntN(80)); r.IntN(4) == 0 {
							w.remove(p, name)
						} else {
							w.put(p, name, specs[r.IntN(len(specs))])
						}
					}
				})
			}
			tasks.Go(func() {
				r := rand.New(rand.NewPCG(2, 2))
				for range 60 {
					time.Sleep(time.Millisecond)
					if r.IntN(10) == 0 {
						w.define("cs", "")
					} else {
						w.define(plurals[r.IntN(len(plurals))], schemas[r.IntN(len(schemas))])
					}
				}
				w.define("cs", schemas[2])
			})
			tasks.Wait()
			for _, p := range plurals {
				w.eventually(s, func() string { return w.check(s, p) })
			}
			// The last condition may be due. Then nothing is written while nothing changes.
			w.eventually(s, func() string {
				before := w.written("as.example.com")
				time.Sleep(10 * s.config.Interval)
				if after := w.written("as.example.com"); after != before {
					return fmt.Sprintf("%d conditions were written although nothing changed", after-before)
				}
				return ""
			})
			// A CRD that goes leaves nothing behind.
			w.define("bs", "")
			w.eventually(s, func() string {
				if s.result("bs.example.com") != nil {
					return "there is still a result"
				}
				return ""
			})
		})
	}
}

// undecryptable is a transformer that fails for one key.
type undecryptable struct{ key string }

func (u undecryptable) FromStorage(_ context.Context, key string, data []byte) ([]byte, bool, error) {
	if key == u.key {
		return nil, false, errors.New("no key")
	}
	return data, false, nil
}

func (u undecryptable) ToStorage(_ context.Context, _ string, value []byte) ([]byte, error) {
	return value, nil
}

// TestSeveralScanners runs two scanners on one etcd, of which one cannot read an object. They
// must not overwrite the conditions of each other forever.
func TestSeveralScanners(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.define("as", `"a":{"type":"string"}`)
	w.put("as", "good", `{"a":"x"}`)
	w.put("as", "bad", `{"b":"x"}`)
	one := w.scanner(store.Config{}, Config{})
	two := w.scanner(store.Config{Transformer: undecryptable{w.key("as", "good")}}, Config{})
	for _, s := range []*Scanner{one, two} {
		w.eventually(s, func() string {
			if r := s.result("as.example.com"); r == nil || !r.complete || w.condition("as.example.com").Status != api.ConditionFalse {
				return "the scan is not complete"
			}
			return ""
		})
	}
	time.Sleep(5 * one.config.Interval)
	before := w.written("as.example.com")
	time.Sleep(20 * one.config.Interval)
	if after := w.written("as.example.com"); after != before || after > 2 {
		t.Errorf("%d conditions were written, then %d", before, after-before)
	}
	// A change that both see is written by one of them.
	w.remove("as", "bad")
	w.remove("as", "good")
	for _, s := range []*Scanner{one, two} {
		w.eventually(s, func() string { return w.check(s, "as") })
	}
}

// TestConditionOfChanges checks how often the condition is written, and what it says meanwhile.
func TestConditionOfChanges(t *testing.T) {
	t.Parallel()
	const name = "as.example.com"
	w := newWorld(t)
	w.define("as", `"a":{"type":"string"}`)
	for i := range 3 {
		w.put("as", fmt.Sprint("o", i), `{"b":1}`)
	}
	s := w.scanner(store.Config{}, Config{Interval: time.Hour})
	w.eventually(s, func() string { return w.check(s, "as") })
	if got := w.condition(name).Message; !strings.HasPrefix(got, "3 of 3 stored objects do not comply: 3 with unspecified fields; kubectl get noncompliantobjects -A --field-selector crd=as.example.com") {
		t.Error(got)
	}
	// The next change is due in an hour, also that of another generation.
	w.remove("as", "o0")
	w.define("as", `"b":{"type":"integer"}`)
	w.eventually(s, func() string {
		if r := s.result(name); !r.knows() || r.counts.Failing != 0 {
			return "not yet"
		}
		return ""
	})
	if n := w.written(name); n != 1 {
		t.Errorf("%d conditions were written within the interval", n)
	}
}

// TestWarningsWithoutScan checks that the warning says that it is not exact if the scan is not
// complete, and that a CRD that reveals nothing has no warning.
func TestWarningsWithoutScan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.define("as", `"a":{"type":"string"}`)
	old := w.catalog.Load().Get("as.example.com").CRD()
	w.define("as", `"a":{"type":"string"},"b":{"type":"string"}`)
	next := w.catalog.Load().Get("as.example.com").CRD()
	w.put("as", "o", `{"b":"x"}`)
	st, err := store.Open(store.Config{Client: w.client.Client, Watcher: w.client.NewWatcher(), Prefix: root})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	<-st.Loaded()
	s := New(Config{Store: st, Options: options(), Catalog: w.catalog.Load})
	got := s.Warnings(t.Context(), old, next)
	if len(got) != 1 || !strings.HasPrefix(got[0], "at least 1 stored object (ns/o) holds data at spec.b, which") {
		t.Errorf("%q", got)
	}
	if got := s.Warnings(t.Context(), next, next); len(got) > 0 {
		t.Errorf("%q", got)
	}
	if s.Initial(w.catalog.Load().Get("as.example.com")) != nil {
		t.Error("a CRD with objects has an initial condition")
	}
}
