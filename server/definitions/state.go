package definitions

import (
	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// State is what Definitions know of the stored CRDs at some time, for [Config.From]: what was
// decoded, and the Programs that were compiled. It is immutable, and refers to nothing that belongs
// to a server: no store, channel or goroutine.
type State struct {
	known    map[string]*stored
	patterns *schema.Patterns
}

// State returns what is known now. Definitions that begin with it read only CRDs that differ.
func (d *Definitions) State() *State {
	d.turn.Lock()
	defer d.turn.Unlock()
	out := &State{known: make(map[string]*stored, len(d.known)), patterns: d.config.Options.Patterns}
	catalog := d.Catalog()
	for name, k := range d.known {
		shared := k.share()
		shared.settled = k.crd.DeletionTimestamp == nil && d.retries[name] == nil && d.holding[name] == nil &&
			k.definition != nil && k.defined == k.crd && catalog.Get(name) == k.definition && isServed(k.crd)
		out.known[name] = shared
	}
	return out
}

// isServed reports whether a CRD is established and has all its names. Another one waits, and what it
// waits for may have happened: the other server does not see all that is stored yet.
func isServed(c *api.CustomResourceDefinition) bool {
	names := crd.Condition(&c.Status, api.NamesAccepted)
	return established(c) && names != nil && names.Status == api.ConditionTrue
}

// Options returns the options of another server that shares Programs.
func (s *State) Options(o crd.Options) crd.Options {
	o.Patterns = s.patterns
	return o
}

// restore returns what is known, for one server.
func (s *State) restore() map[string]*stored {
	out := make(map[string]*stored, len(s.known))
	for name, k := range s.known {
		out[name] = k.share()
	}
	return out
}

// share returns a copy for another server. The Definition is the same, and reads its schemas where
// it did: they are those of the spec, whichever entry has it. No server releases its Programs, because
// the others may use them.
func (s *stored) share() *stored {
	if s.definition != nil {
		s.definition.Keep()
	}
	own := &source{reader: s.reader}
	own.entry.Store(s.entry.Load())
	return &stored{s.crd, &text{source: own, spec: s.spec, definition: s.definition, defined: s.defined, settled: s.settled}}
}
