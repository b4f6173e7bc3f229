package definitions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/server/keys"
	"espalier.dev/store"
)

// stored is the newest state of a stored CRD that the reconciler knows.
type stored struct {
	// crd has no schemas.
	crd *api.CustomResourceDefinition
	*text
}

// text is what the states of a CRD with the same spec have in common. Its fields belong to the
// reconciling goroutine.
type text struct {
	*source
	// spec is the part of the entry that has the spec.
	spec []byte
	// definition is the newest Definition, or nil, and defined the state that it was returned for.
	definition *crd.Definition
	defined    *api.CustomResourceDefinition
	// settled is set if the CRD was reconciled in this state by the server that it was shared by.
	settled bool
}

// source is where the schemas of a CRD are read from. Definitions have it: servers share them, so it
// refers to nothing that belongs to a server.
type source struct {
	*reader
	// entry is the newest one: the others, which have the same spec, need not be kept in
	// memory.
	entry atomic.Pointer[store.Entry]
}

// reader reads stored CRDs.
type reader struct {
	kinds *kinds // without what belongs to a server
	// loaded counts those whose schemas were decoded.
	loaded atomic.Uint64
}

// load decodes the CRD with its schemas.
func (s *source) load() (*api.CustomResourceDefinition, error) {
	s.loaded.Add(1)
	e := s.entry.Load()
	c, err := s.kinds.readStored(e.Value)
	if err == nil && unreadable(c) {
		err = errors.New("it has no group")
	}
	if err != nil {
		return nil, unreadableError(e.Key, err)
	}
	return c, nil
}

// unreadableError returns the error for clients that need a stored CRD that cannot be read.
func (d *Definitions) unreadableError(name string, err error) error {
	return unreadableError(d.crds.Key("", name), err)
}

// unreadableError returns the error for clients that need the CRD with a key.
func unreadableError(key string, err error) error {
	reason := ""
	if err != nil {
		reason = ": " + err.Error()
	}
	return apierrors.NewServiceUnavailable(fmt.Sprintf("the stored CRD %s cannot be read: repair or delete the value of %s in etcd%s",
		keys.Name(key), key, reason))
}

// read reads an entry, without its schemas. It returns nil if it cannot be read. old is the
// state that is known, or nil.
func (d *Definitions) read(e *store.Entry, old *stored) *stored {
	if e.Err != nil {
		return nil
	}
	if old != nil && old.entry.Load() == e {
		return old
	}
	c, spec, err := d.kinds.readHead(e.Value)
	if err != nil || unreadable(c) || c.Name != keys.Name(e.Key) {
		return nil
	}
	c.ResourceVersion = formatRevision(e.Revision)
	if old == nil || !old.hasSpec(c, spec, e) {
		t := &text{source: &source{reader: d.reader}, spec: spec}
		t.entry.Store(e)
		return &stored{c, t}
	}
	old.spec, old.settled = spec, false
	old.entry.Store(e)
	return &stored{c, old.text}
}

// hasSpec reports whether another state of the CRD has the same spec.
func (s *stored) hasSpec(c *api.CustomResourceDefinition, spec []byte, e *store.Entry) bool {
	switch {
	case s.crd.UID != c.UID:
		return false
	case bytes.Equal(s.spec, spec):
		return true
	case s.crd.Generation != c.Generation:
		return false
	}
	// Another server may write the same in another form.
	a, errA := s.kinds.readStored(s.entry.Load().Value)
	b, errB := s.kinds.readStored(e.Value)
	return errA == nil && errB == nil && reflect.DeepEqual(a.Spec, b.Spec)
}

// define returns the Definition of the state.
func (s *stored) define() *crd.Definition {
	switch {
	case s.definition == nil:
		s.definition = crd.Lazy(s.crd, s.load, s.kinds.options)
	case s.defined != s.crd && !sameButRevision(s.definition.CRD(), s.crd):
		s.definition = s.definition.Renew(s.crd)
	}
	s.defined = s.crd
	return s.definition
}

// readAll reads all CRDs of a snapshot, and returns those that cannot be read as nil, with
// their names.
func (d *Definitions) readAll(ctx context.Context, snapshot *store.Snapshot) (names []string, all []*stored, err error) {
	var entries []*store.Entry
	for e := range snapshot.Range(string(d.crds), "") {
		entries = append(entries, e)
		names = append(names, keys.Name(e.Key))
	}
	all = make([]*stored, len(entries))
	workers, ctx := errgroup.WithContext(ctx)
	n := runtime.GOMAXPROCS(0)
	for first := range n {
		workers.Go(func() error {
			for i := first; i < len(entries) && ctx.Err() == nil; i += n {
				all[i] = d.read(entries[i], d.known[names[i]])
				d.reconciled.Add(1)
			}
			return ctx.Err()
		})
	}
	return names, all, workers.Wait()
}
