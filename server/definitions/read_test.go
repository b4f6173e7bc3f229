package definitions

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/schema"
	"espalier.dev/server/keys"
	"espalier.dev/store"
)

// definitionOf returns a CRD of widgets.
func definitionOf() *api.CustomResourceDefinition {
	return &api.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: api.APIVersion, Kind: api.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com", UID: "u", Generation: 2},
		Spec: api.CustomResourceDefinitionSpec{Group: "example.com", Scope: api.NamespaceScoped,
			Names:    api.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"},
			Versions: []api.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true}}},
	}
}

// kindsFor returns the versions of the CRD resource.
func kindsFor(t *testing.T, sem schema.Semantics) (v1, beta *kind) {
	t.Helper()
	d, err := definition(sem)
	if err != nil {
		t.Fatal(err)
	}
	k := &kinds{options: crd.Options{Semantics: sem}, warnings: func(context.Context, *api.CustomResourceDefinition) []string { return nil }}
	made := map[string]*kind{}
	for _, v := range d.Versions() {
		one, err := k.Kind(v)
		if err != nil {
			t.Fatal(err)
		}
		made[v.Name()] = one.(*kind)
	}
	return made["v1"], made["v1beta1"]
}

// TestRead checks which stored CRDs can be read, and which states share a spec.
func TestRead(t *testing.T) {
	t.Parallel()
	v1, _ := kindsFor(t, schema.Kubernetes)
	d := &Definitions{kinds: v1.kinds, crds: keys.Root("/registry/").CRDs(), reader: &reader{kinds: v1.kinds}}
	const text = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.g","uid":"u","generation":1},"spec":{"group":"g","names":{"plural":"a"},"versions":[{"name":"v1"}]}}`
	entry := func(name, text string) *store.Entry {
		return &store.Entry{Key: d.crds.Key("", name), Value: []byte(text), Revision: 7}
	}
	first := d.read(entry("a.g", text), nil)
	if first == nil || first.crd.Name != "a.g" || first.crd.ResourceVersion != "7" {
		t.Fatalf("got %v", first)
	}
	for name, e := range map[string]*store.Entry{
		"another name": entry("b.g", text),
		"no group":     entry("a.g", strings.Replace(text, `"group":"g",`, "", 1)),
		"not JSON":     entry("a.g", text[1:]),
		"not read":     {Key: d.crds.Key("", "a.g"), Value: []byte(text), Err: errors.New("encrypted")},
	} {
		if got := d.read(e, nil); got != nil {
			t.Errorf("%s: got %v", name, got.crd)
		}
	}
	for name, test := range map[string]struct {
		old, new string
		same     bool
	}{
		"the same":                {"", "", true},
		"a label":                 {`"generation":1`, `"generation":1,"labels":{"a":"b"}`, true},
		"another form":            {`"group":"g",`, `"group": "g",`, true},
		"another UID":             {`"uid":"u"`, `"uid":"w"`, false},
		"another spec":            {`"plural":"a"`, `"plural":"b"`, false},
		"another spec, generated": {`"generation":1},"spec":{"group":"g"`, `"generation":2},"spec":{"group": "g"`, false},
	} {
		if next := d.read(entry("a.g", strings.Replace(text, test.old, test.new, 1)), first); next == nil || (next.text == first.text) != test.same {
			t.Errorf("%s: shared is not %v", name, test.same)
		}
		first = d.read(entry("a.g", text), nil)
	}
	// The definition of a state that is served in another way is a new one.
	for change, renewed := range map[string]bool{`"labels":{"a":"b"}`: false, `"annotations":{"a":"b"}`: true} {
		first := d.read(entry("a.g", text), nil)
		definition := first.define()
		next := d.read(entry("a.g", strings.Replace(text, `"generation":1`, `"generation":1,`+change, 1)), first)
		if got := next.define(); (got != definition) != renewed || renewed && got.CRD() != next.crd {
			t.Errorf("%s: renewed is not %v", change, renewed)
		}
	}
	noGroup := &source{reader: d.reader}
	noGroup.entry.Store(entry("a.g", strings.Replace(text, `"group":"g",`, "", 1)))
	if c, err := noGroup.load(); c != nil || err == nil || !strings.Contains(err.Error(), "the stored CRD a.g cannot be read: repair or delete the value of "+d.crds.Key("", "a.g")+" in etcd: it has no group") {
		t.Errorf("got %v, %v", c, err)
	}
	// A schema that cannot be decoded is not known to be the same as any other.
	bad := strings.Replace(text, `{"name":"v1"}`, `{"name":"v1","schema":{"openAPIV3Schema":{"description":5}}}`, 1)
	for _, texts := range [][2]string{{bad, text}, {text, bad}, {bad, strings.Replace(bad, `"group":"g"`, `"group": "g"`, 1)}} {
		old := d.read(entry("a.g", texts[0]), nil)
		if next := d.read(entry("a.g", texts[1]), old); old == nil || next == nil || next.text == old.text {
			t.Errorf("%s and %s share a spec", texts[0], texts[1])
		}
	}
	// What kube-apiserver does not have is not read, also if it is not valid.
	foreign := strings.Replace(text, `"versions":`, `"validation":{"jsonSchema":5},"versions":`, 1)
	if got := d.read(entry("a.g", foreign), nil); got == nil {
		t.Error("a field that kube-apiserver does not have makes a CRD unreadable")
	}
}

// peersThat are other servers of a test.
type peersThat struct {
	reached bool
	err     error
}

func (p peersThat) Reach(int64)                                  {}
func (p peersThat) Reached(context.Context, int64) (bool, error) { return p.reached, p.err }
func (p peersThat) Await(context.Context, int64) error           { return p.err }

// TestRetryAfter checks that a full etcd is asked again soon.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	d := &Definitions{again: make(chan string), retries: map[string]*retry{}}
	for err, want := range map[error]time.Duration{rpctypes.ErrNoSpace: fullRetry, errors.New("broken"): 16 * time.Second} {
		name := err.Error()
		for range 5 {
			d.retryAfter(t.Context(), name, err, "failed")
		}
		if got := d.retries[name].pause; got != want {
			t.Errorf("%v: a pause of %v", err, got)
		}
		d.retries[name].timer.Stop()
	}
	// A full etcd is logged elsewhere, so this is for those who want to know more.
	for verbosity, logged := range map[int]bool{1: false, 2: true} {
		log := &lines{}
		d.retryAfter(klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(log), textlogger.Verbosity(verbosity)))), "full", rpctypes.ErrNoSpace, "failed")
		if got := log.String(); strings.Contains(got, "failed") != logged {
			t.Errorf("verbosity %d: logged %q", verbosity, got)
		}
	}
	d.retries["full"].timer.Stop()
	// The CRD is reconciled after the pause.
	d.retries["soon"] = &retry{pause: 0, timer: time.NewTimer(time.Hour)}
	d.retry(t.Context(), "soon", lastRetry)
	if name := <-d.again; name != "soon" {
		t.Errorf("%s is reconciled", name)
	}
}
