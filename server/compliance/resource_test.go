package compliance

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/schema"
	"espalier.dev/store"
)

// idle returns a scanner on a store of its own that does not run: it knows nothing.
func (w *world) idle(sc store.Config) *Scanner {
	w.Helper()
	sc.Client, sc.Watcher, sc.Prefix = w.client.Client, w.client.NewWatcher(), root
	st, err := store.Open(sc)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(st.Close)
	<-st.Loaded()
	s := New(Config{Store: st, Options: options(), Catalog: w.catalog.Load, Write: w.write})
	s.position.Reach(math.MaxUint64) // nothing waits for it
	return s
}

// redefine replaces a CRD with a changed copy of it that is compiled with other options.
func (w *world) redefine(plural string, o crd.Options, change func(*api.CustomResourceDefinition)) *crd.Definition {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.catalog.Load().Get(plural + ".example.com").CRD().DeepCopy()
	c.Generation++
	change(c)
	d, err := crd.New(c, o)
	if err != nil {
		w.Fatal(err)
	}
	w.publish(w.catalog.Load().With(d))
	return d
}

// store writes a value, and returns its revision.
func (w *world) store(key, value string) int64 {
	w.Helper()
	resp, err := w.client.Put(w.Context(), root+"example.com/"+key, value)
	if err != nil {
		w.Fatal(err)
	}
	return resp.Header.Revision
}

const labeled = `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"x","namespace":"ns","generation":1,"labels":{"team":"t"},"creationTimestamp":"2020-01-01T00:00:00Z"},"spec":{"b":1}}`

// TestGet reads objects that do not comply.
func TestGet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.define("as", `"a":{"type":"string"}`)
	w.define("bs", `"a":{"type":"string"}`)
	w.define("cs", `"a":{"type":"string"}`)
	for range 10 {
		w.store("as/ns/bad", labeled)
	}
	revision := w.store("as/ns/bad", labeled)
	w.store("as/ns/good", strings.Replace(labeled, `"b":1`, "", 1))
	w.store("as/ns/closed", "cannot be decrypted")
	for _, key := range []string{"bs/x", "bs/ns/x", "cs/ns/x"} {
		w.store(key, labeled)
	}
	w.redefine("bs", options(), func(c *api.CustomResourceDefinition) { c.Spec.Scope = api.ClusterScoped })
	w.redefine("cs", options(), func(c *api.CustomResourceDefinition) { c.Spec.Versions[0].Storage = false })
	s := w.idle(store.Config{Transformer: undecryptable{w.key("as", "closed")}})
	in := func(namespace string) context.Context { return apirequest.WithNamespace(t.Context(), namespace) }

	obj, err := s.get(in("ns"), "as.example.com:bad")
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: obj}
	if u.GetName() != "as.example.com:bad" || u.GetNamespace() != "ns" || u.GetLabels()["team"] != "t" || u.GetResourceVersion() != strconv.FormatInt(revision, 10) ||
		u.GetCreationTimestamp().UTC().Year() != 2020 {
		t.Errorf("got metadata %v", obj["metadata"])
	}
	want := map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "namespace": "ns", "name": "bad"}
	if got := obj["object"]; obj["crd"] != "as.example.com" || fmt.Sprint(got) != fmt.Sprint(want) || obj["problemCount"] != int64(1) || obj["truncated"] == true {
		t.Errorf("got %v", obj)
	}
	problem := obj["problems"].([]any)[0].(map[string]any)
	if problem["reason"] != "Unspecified" || problem["path"] != "spec.b" || problem["version"] != "v1" || problem["message"] == "" {
		t.Errorf("got %v", problem)
	}

	obj, err = s.get(in("ns"), "as.example.com:closed")
	if err != nil {
		t.Fatal(err)
	}
	u = &unstructured.Unstructured{Object: obj}
	version, found, err := unstructured.NestedString(obj, "object", "apiVersion")
	if problem := obj["problems"].([]any)[0].(map[string]any); problem["reason"] != "Unreadable" || problem["message"] == "" || problem["version"] != nil || found && version != "" || err != nil || u.GetLabels() != nil {
		t.Errorf("got %v, %v", obj, err)
	}

	for name, ctx := range map[string]context.Context{
		"as.example.com:good": in("ns"), // it complies
		"as.example.com:none": in("ns"),
		"as.example.com:bad":  in("other"),
		"as.example.com":      in("ns"),
		"xs.example.com:bad":  in("ns"), // there is no such CRD
		"bs.example.com:x":    in("ns"), // its CRD has no namespaces
	} {
		if obj, err := s.get(ctx, name); !apierrors.IsNotFound(err) || obj != nil {
			t.Errorf("%s: got %v, %v", name, obj, err)
		}
	}
	for _, name := range []string{"as.example.com:ns/bad", "bs.example.com:x"} {
		if obj, err := s.get(t.Context(), name); !apierrors.IsNotFound(err) || obj != nil {
			t.Errorf("%s without a namespace: got %v, %v", name, obj, err)
		}
	}
	if obj, err := s.get(in("ns"), "cs.example.com:x"); !apierrors.IsInternalError(err) || obj != nil {
		t.Errorf("a CRD that cannot be used: got %v, %v", obj, err)
	}
}

// TestList lists the objects of several CRDs that do not comply, in pages.
func TestList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, plural := range []string{"as", "bs", "cs", "ds"} {
		w.define(plural, `"a":{"type":"string"}`)
	}
	w.redefine("bs", options(), func(c *api.CustomResourceDefinition) { c.Spec.Versions[0].Storage = false }) // it cannot be used
	w.redefine("cs", options(), func(c *api.CustomResourceDefinition) { c.Spec.Scope = api.ClusterScoped })
	plain := strings.Replace(labeled, `"labels":{"team":"t"},`, "", 1)
	good := strings.Replace(labeled, `"b":1`, "", 1)
	for key, value := range map[string]string{
		"as/m/one": labeled, "as/n/two": plain, "as/n/good": good, "as/n/three": labeled, "bs/n/x": labeled, "cs/four": labeled, "ds/n/five": plain, "ds/n/six": labeled,
	} {
		w.store(key, value)
	}
	unknown := w.idle(store.Config{})
	known := w.scanner(store.Config{}, Config{})
	for _, plural := range []string{"as", "cs", "ds"} {
		w.eventually(known, func() string {
			if !known.result(plural + ".example.com").knows() {
				return "the scan of " + plural + " is not complete"
			}
			return ""
		})
	}
	for name, s := range map[string]*Scanner{"unknown": unknown, "known": known} {
		pages := func(o metainternalversion.ListOptions, namespace string) (pages [][]string) {
			t.Helper()
			for {
				list, err := s.list(apirequest.WithNamespace(t.Context(), namespace), &o)
				if err != nil {
					t.Fatal(err)
				}
				var page []string
				for _, item := range list.Items {
					_, object, _ := strings.Cut(item.GetName(), ":")
					page = append(page, object)
				}
				pages = append(pages, page)
				if got, want := list.GetResourceVersion(), fmt.Sprint(s.config.Store.Revision()); got != want {
					t.Errorf("the list has the resource version %s, want %s", got, want)
				}
				if o.Continue = list.GetContinue(); o.Continue == "" {
					return pages
				}
			}
		}
		team := labels.SelectorFromSet(labels.Set{"team": "t"})
		for _, test := range []struct {
			o         metainternalversion.ListOptions
			namespace string
			want      string
		}{
			{metainternalversion.ListOptions{}, "", "[[one three two four five six]]"},
			{metainternalversion.ListOptions{Limit: 1}, "", "[[one] [three] [two] [four] [five] [six]]"},
			{metainternalversion.ListOptions{Limit: 2}, "", "[[one three] [two four] [five six]]"},
			{metainternalversion.ListOptions{Limit: 4}, "", "[[one three two four] [five six]]"},
			{metainternalversion.ListOptions{Limit: 6}, "", "[[one three two four five six]]"},
			{metainternalversion.ListOptions{LabelSelector: team}, "", "[[one three four six]]"},
			{metainternalversion.ListOptions{LabelSelector: team, Limit: 2}, "", "[[one three] [four six]]"},
			{metainternalversion.ListOptions{LabelSelector: team, Limit: 3}, "", "[[one three four] [six]]"},
			{metainternalversion.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", "as.example.com:three")}, "", "[[three]]"},
			{metainternalversion.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.namespace", "m")}, "", "[[one]]"},
			{metainternalversion.ListOptions{FieldSelector: fields.OneTermEqualSelector("crd", "ds.example.com")}, "", "[[five six]]"},
			{metainternalversion.ListOptions{FieldSelector: fields.OneTermNotEqualSelector("crd", "as.example.com")}, "", "[[four five six]]"},
			{metainternalversion.ListOptions{Limit: 1}, "n", "[[three] [two] [five] [six]]"},
			{metainternalversion.ListOptions{}, "m", "[[one]]"},
			{metainternalversion.ListOptions{}, "other", "[[]]"},
		} {
			if got := fmt.Sprint(pages(test.o, test.namespace)); got != test.want {
				t.Errorf("%s: %+v in %q: got %s, want %s", name, test.o, test.namespace, got, test.want)
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.list(ended, &metainternalversion.ListOptions{})
		if status := apierrors.APIStatus(nil); !apierrors.IsTimeout(err) || !errors.As(err, &status) || status.Status().Details.RetryAfterSeconds != 0 {
			t.Errorf("%s: a list that takes too long: %v", name, err)
		}
		for _, token := range []string{"!", base64.RawURLEncoding.EncodeToString([]byte("{"))} {
			if list, err := s.list(t.Context(), &metainternalversion.ListOptions{Continue: token}); !apierrors.IsBadRequest(err) {
				t.Errorf("%s: continued at %q: %v, %v", name, token, list, err)
			}
		}
	}
}

// TestBrokenDefinition checks the condition of a CRD with which objects cannot be inspected, and
// that the objects are inspected when it has been repaired.
func TestBrokenDefinition(t *testing.T) {
	t.Parallel()
	const name = "as.example.com"
	const rule = `"a":{"type":"string","x-kubernetes-validations":[{"rule":"self != 'x'"}]}`
	noRules := crd.Options{Semantics: schema.KEP}
	for what, test := range map[string]struct {
		// broken makes objects impossible to inspect: at once, or when one is written.
		broken func(w *world)
		later  bool
	}{
		"no storage version": {func(w *world) {
			w.redefine("as", options(), func(c *api.CustomResourceDefinition) { c.Spec.Versions[0].Storage = false })
		}, false},
		"schemas that cannot be read": {func(w *world) {
			c := w.catalog.Load().Get(name).CRD().DeepCopy()
			c.Generation++
			w.mu.Lock()
			defer w.mu.Unlock()
			w.publish(w.catalog.Load().With(crd.Lazy(c, func() (*api.CustomResourceDefinition, error) { return nil, errors.New("unreadable") }, options())))
		}, false},
		// The scan compiles rules with its own options, the inspection of events with those of the CRD.
		"rules that cannot be compiled": {func(w *world) { w.redefine("as", noRules, func(*api.CustomResourceDefinition) {}) }, true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.define("as", rule)
			w.put("as", "one", `{"b":1}`)
			w.put("as", "two", `{}`)
			test.broken(w)
			s := w.scanner(store.Config{}, Config{})
			if test.later {
				w.eventually(s, func() string {
					if r := s.result(name); !r.knows() || r.counts.Failing != 1 {
						return "the scan is not complete"
					}
					return ""
				})
				w.put("as", "three", `{"b":1}`)
			}
			w.eventually(s, func() string {
				if c := w.condition(name); c.Status != api.ConditionUnknown || c.Reason != reasonCannot || c.Message == "" {
					return fmt.Sprintf("the condition is %v", c)
				}
				return ""
			})
			if r := s.result(name); r.knows() || r.counts.Objects != 0 || r.failing.Len() != 0 {
				t.Errorf("got %+v", r.counts)
			}
			w.remove("as", "two") // events are not counted either
			w.define("as", rule)
			w.eventually(s, func() string { return w.check(s, "as") })
			if r := s.result(name); r.counts.Failing == 0 {
				t.Errorf("got %+v", r.counts)
			}
		})
	}
}

// TestFewerFailing checks that the keys of objects are kept again when few enough are left, and that
// the counts are right meanwhile.
func TestFewerFailing(t *testing.T) {
	t.Parallel()
	const name = "as.example.com"
	w := newWorld(t)
	w.define("as", `"a":{"type":"string"}`)
	for i := range 5 {
		w.put("as", fmt.Sprint("o", i), `{"b":1}`)
	}
	s := w.scanner(store.Config{}, Config{MaxFailing: 4})
	become := func(failing int64, overflow bool) {
		t.Helper()
		w.eventually(s, func() string {
			r := s.result(name)
			if r == nil || !r.complete || r.counts.Failing != failing || r.overflow != overflow || !overflow && int64(r.failing.Len()) != failing {
				return fmt.Sprintf("%d failing objects, want %d: %+v", failing, failing, r)
			}
			return w.check(s, "as")
		})
	}
	become(5, true)
	w.put("as", "o0", `{}`)
	become(4, true)
	w.remove("as", "o1")
	become(3, true)
	w.put("as", "o2", `{"a":"x"}`)
	become(2, false)
	w.put("as", "o5", `{"b":1}`)
	become(3, false)
}

// TestInitial checks the condition of a CRD without objects.
func TestInitial(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.define("as", `"a":{"type":"string"}`)
	w.define("bs", `"a":{"type":"string"}`)
	w.put("bs", "one", `{}`)
	s := w.idle(store.Config{})
	c := s.Initial(w.catalog.Load().Get("as.example.com"))
	if c == nil || c.Type != api.Compliant || c.Status != api.ConditionTrue || c.Reason != reasonComply || c.ObservedGeneration != 1 {
		t.Errorf("got %v", c)
	}
	if c := s.Initial(w.catalog.Load().Get("bs.example.com")); c != nil {
		t.Errorf("a CRD with an object: got %v", c)
	}
}

// TestWarnings checks when a client that replaces a CRD is warned.
func TestWarnings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.define("as", `"a":{"type":"string"}`)
	old := w.catalog.Load().Get("as.example.com").CRD()
	w.put("as", "closed", `{"b":"x"}`)
	for i := range 4 {
		w.put("as", fmt.Sprint("o", i), `{"b":"x","c":{"d":1}}`)
	}
	w.put("as", "other", `{"x":1}`)
	w.put("as", "plain", `{"a":"x"}`)
	s := w.idle(store.Config{Transformer: undecryptable{w.key("as", "closed")}})
	w.define("as", `"a":{"type":"string"},"b":{"type":"string"},"c":{"type":"object","properties":{"d":{"type":"integer"}}}`)
	next := w.catalog.Load().Get("as.example.com").CRD()
	change := func(c *api.CustomResourceDefinition, f func(*api.CustomResourceDefinition)) *api.CustomResourceDefinition {
		c = c.DeepCopy()
		f(c)
		return c
	}
	noStorage := func(c *api.CustomResourceDefinition) { c.Spec.Versions[0].Storage = false }
	legacy := func(c *api.CustomResourceDefinition) {
		c.Annotations = map[string]string{api.JSONSchemaAnnotation: "no JSON"}
	}
	const start = "4 stored objects (ns/o0, ns/o1, ns/o2, …) hold data at spec.b, spec.c, which"
	for name, test := range map[string]struct {
		old, next *api.CustomResourceDefinition
		want      string
	}{
		"new fields":              {old, next, start},
		"the same":                {old, old, ""},
		"a label":                 {old, change(old, func(c *api.CustomResourceDefinition) { c.Labels = map[string]string{"a": "b"} }), ""},
		"fewer fields":            {next, old, ""},
		"a deleted CRD":           {change(old, func(c *api.CustomResourceDefinition) { c.DeletionTimestamp = &c.CreationTimestamp }), next, ""},
		"another resource":        {change(old, func(c *api.CustomResourceDefinition) { c.Spec.Names.Plural = "bs"; c.Name = "bs.example.com" }), next, ""},
		"an old CRD without use":  {change(old, noStorage), next, ""},
		"a new CRD without use":   {old, change(next, noStorage), ""},
		"an old schema, unusable": {change(old, legacy), next, ""},
		"a new schema, unusable":  {old, change(next, legacy), ""},
	} {
		got := s.Warnings(t.Context(), test.old, test.next)
		if (len(got) == 0) != (test.want == "") || len(got) > 1 || !strings.HasPrefix(strings.Join(got, ""), test.want) {
			t.Errorf("%s: got %q", name, got)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got := s.Warnings(ended, old, next); len(got) > 0 {
		t.Errorf("no time to read objects: got %q", got)
	}
}
