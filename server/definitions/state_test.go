package definitions

import (
	"strings"
	"testing"

	"espalier.dev/crd"
	"espalier.dev/schema"
	"espalier.dev/server/keys"
	"espalier.dev/store"
)

// TestState checks what Definitions that begin with the state of others know: CRDs that have not
// changed are neither read nor reconciled, and their Programs are the same.
func TestState(t *testing.T) {
	t.Parallel()
	v1, _ := kindsFor(t, schema.Kubernetes)
	crds := keys.Root("/registry/").CRDs()
	newDefinitions := func() *Definitions {
		d := &Definitions{kinds: v1.kinds, crds: crds, reader: &reader{kinds: v1.kinds}, known: map[string]*stored{},
			retries: map[string]*retry{}, holding: map[string]*held{}}
		d.catalog.Store(crd.NewCatalog())
		return d
	}
	const text = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.g","uid":"u","generation":1},"spec":{"group":"g","names":{"plural":"a","kind":"A"},"versions":[{"name":"v1"}]},"status":{"conditions":[{"type":"Established","status":"True"},{"type":"NamesAccepted","status":"True"}]}}`
	entry := &store.Entry{Key: crds.Key("", "a.g"), Value: []byte(text), Revision: 7}
	d := newDefinitions()
	d.known["a.g"] = d.read(entry, nil)
	if s := d.State(); s.known["a.g"].settled {
		t.Error("a CRD that is not in the catalog was not reconciled")
	}
	definition := d.known["a.g"].define()
	d.catalog.Store(crd.NewCatalog(definition))
	d.retries["a.g"] = &retry{}
	if s := d.State(); s.known["a.g"].settled {
		t.Error("a CRD whose status could not be written was not reconciled")
	}
	delete(d.retries, "a.g")
	// A CRD that waits may have waited for another one that is gone.
	for _, waits := range []string{`"Established","status":"True"`, `"NamesAccepted","status":"True"`} {
		other := newDefinitions()
		changed := strings.Replace(text, waits, strings.Replace(waits, "True", "False", 1), 1)
		other.known["a.g"] = other.read(&store.Entry{Key: entry.Key, Value: []byte(changed), Revision: 7}, nil)
		other.catalog.Store(crd.NewCatalog(other.known["a.g"].define()))
		if s := other.State(); s.known["a.g"].settled {
			t.Error("a CRD that waits was not reconciled:", changed)
		}
	}
	state := d.State()
	for range 2 {
		other := newDefinitions()
		other.known = state.restore()
		same := other.read(entry, other.known["a.g"])
		if same != other.known["a.g"] || !same.settled || same.define() != definition {
			t.Error("a CRD that has not changed is not shared")
		}
		// The next state of the CRD is known only here.
		later := &store.Entry{Key: entry.Key, Value: entry.Value, Revision: 8}
		next := other.read(later, same)
		if next == same || next.settled || next.crd.ResourceVersion != "8" || next.define() != definition {
			t.Error("a CRD that was written again:", next)
		}
		if d.known["a.g"].entry.Load() != entry || state.known["a.g"].entry.Load() != entry {
			t.Error("the original has another entry")
		}
	}
}
