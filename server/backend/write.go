package backend

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"espalier.dev/store"
)

// Create writes a new object.
func (s *Storage) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	key, err := s.key(key, false)
	if err != nil {
		return err
	}
	if version, err := s.versioner.ObjectResourceVersion(obj); err == nil && version != 0 {
		return storage.ErrResourceVersionSetOnCreate
	}
	data, err := s.encode(obj, nil)
	if err != nil {
		return err
	}
	revision, _, err := s.put(ctx, key, data, 0, ttl)
	if err != nil {
		return err
	}
	if revision == 0 {
		return storage.NewKeyExistsError(key, 0)
	}
	if out == nil {
		return nil
	}
	return s.result(out, obj, data, revision)
}

// encode returns what is stored of an object: everything but its resource version. old is the value
// that it replaces, or nil.
func (s *Storage) encode(obj runtime.Object, old []byte) ([]byte, error) {
	if err := s.versioner.PrepareObjectForStorage(obj); err != nil {
		return nil, fmt.Errorf("prepare the object for the storage: %w", err)
	}
	if codec, ok := s.config.Codec.(Replacer); ok && old != nil {
		var b bytes.Buffer
		err := codec.EncodeOver(obj, old, &b)
		return b.Bytes(), err
	}
	return runtime.Encode(s.config.Codec, obj)
}

// put writes a value if the stored revision is the expected one. Otherwise it returns the
// stored entry, or nil, and no revision.
func (s *Storage) put(ctx context.Context, key string, data []byte, expected int64,
	ttl uint64) (revision int64, found *store.Entry, err error) {
	lease, err := s.leases.get(ctx, ttl)
	if err != nil {
		return 0, nil, err
	}
	operation := "update"
	if expected == 0 {
		operation = "create"
	}
	defer asked(ctx, operation, time.Now(), &err)
	revision, found, err = s.store.Put(ctx, s.config.Writer, key, data, expected, lease)
	return revision, found, Failure(err)
}

// Replace writes what is stored of an object in place of the value of a revision. It is
// for changes that need not decode the object.
func (s *Storage) Replace(ctx context.Context, key string, data []byte, expected int64) error {
	key, err := s.key(key, false)
	if err != nil {
		return err
	}
	revision, found, err := s.put(ctx, key, data, expected, 0)
	switch {
	case err != nil || revision != 0:
		return err
	case found == nil:
		return storage.NewKeyNotFoundError(key, 0)
	}
	return storage.NewResourceVersionConflictsError(key, found.Revision)
}

// state is the state of an object that a write begins with.
type state struct {
	// obj is the object, or nil if it is corrupt and to be deleted.
	obj      runtime.Object
	revision int64 // zero if there is no object
	data     []byte
	stale    bool
	// latest is set if the state was read from etcd, and not only from the index. confirmed is
	// set if the value was also decrypted for this write, so that stale is not outdated.
	latest, confirmed bool
}

// write is a write of one object.
type write struct {
	*Storage
	key string
	// typ is the type of objects.
	typ reflect.Type
	// create is set if a missing object is an empty one.
	create bool
	// corrupt is set if the object must be corrupt.
	corrupt bool
}

// newWrite returns a write whose result is out.
func (s *Storage) newWrite(key string, out runtime.Object) (*write, error) {
	v, err := conversion.EnforcePtr(out)
	if err != nil {
		return nil, fmt.Errorf("the result of a write: %w", err)
	}
	return &write{Storage: s, key: key, typ: v.Type()}, nil
}

// empty returns an object for decoding.
func (w *write) empty() runtime.Object { return reflect.New(w.typ).Interface().(runtime.Object) }

// state returns the state of an entry.
func (w *write) state(e *store.Entry) (*state, error) {
	if e == nil {
		if !w.create {
			return nil, storage.NewKeyNotFoundError(w.key, 0)
		}
		obj := w.empty()
		return &state{obj: obj}, runtime.SetZeroValue(obj)
	}
	obj, err := w.decode(e, e.Revision, w.empty())
	if w.corrupt {
		if err == nil {
			return nil, storage.NewInvalidObjError(w.key, "the object can be read, and cannot be deleted as a corrupt one")
		}
		if !storage.IsCorruptObject(err) {
			return nil, err
		}
		return &state{revision: e.Revision, stale: true}, nil
	}
	if err != nil {
		return nil, err
	}
	return &state{obj: obj, revision: e.Revision, data: e.Value, stale: e.Stale}, nil
}

// latest returns the state in etcd. If it still has the revision of the state before, it
// reports that instead.
func (w *write) latest(ctx context.Context, before *state) (st *state, same bool, err error) {
	e, err := w.read(ctx, w.key)
	if err != nil {
		return nil, false, err
	}
	return w.compare(e, before)
}

// confirm is like latest, but decrypts the value again if it may have become stale since it
// was decrypted for the index.
func (w *write) confirm(ctx context.Context, before *state) (st *state, same bool, err error) {
	if !w.store.Ages() {
		return w.latest(ctx, before)
	}
	e, err := w.fetch(ctx)
	if err != nil {
		return nil, false, err
	}
	st, same, err = w.compare(e, before)
	if st != nil {
		st.confirmed = true
	}
	return st, same, err
}

// fetch reads the entry from etcd.
func (w *write) fetch(ctx context.Context) (e *store.Entry, err error) {
	defer asked(ctx, "get", time.Now(), &err)
	e, _, err = w.store.Read(ctx, w.key)
	return e, Failure(err)
}

// compare returns the state of an entry in etcd, or that before if it is the same.
func (w *write) compare(e *store.Entry, before *state) (st *state, same bool, err error) {
	if before != nil && e != nil && e.Revision == before.revision && e.Err == nil && bytes.Equal(e.Value, before.data) {
		before.latest, before.confirmed, before.stale = true, !w.store.Ages(), e.Stale
		return before, true, nil
	}
	st, err = w.state(e)
	if st != nil {
		st.latest, st.confirmed = true, !w.store.Ages()
	}
	return st, false, err
}

// initial returns the state to begin with: that of the index, or the suggestion of the caller
// if it is newer. If there is neither, it is read from etcd.
func (w *write) initial(ctx context.Context, suggestion runtime.Object) (*state, error) {
	e := w.store.Get(w.key)
	if suggestion != nil && !w.corrupt {
		revision, err := w.versioner.ObjectResourceVersion(suggestion)
		if err != nil {
			return nil, fmt.Errorf("the resource version of the suggested object: %w", err)
		}
		if e == nil || int64(revision) > e.Revision {
			return w.suggested(suggestion, int64(revision))
		}
	}
	var failure error
	if e != nil {
		st, err := w.state(e)
		if err == nil {
			return st, nil
		}
		failure = err
	}
	latest, err := w.read(ctx, w.key)
	if err != nil {
		return nil, err
	}
	if failure != nil && latest != nil && latest.Revision == e.Revision && latest.Err == nil && e.Err == nil && bytes.Equal(latest.Value, e.Value) {
		return nil, failure // to decode it again may take the whole time of the request: a conversion webhook hangs
	}
	st, _, err := w.compare(latest, nil)
	return st, err
}

// suggested returns the state of an object that a caller suggests.
func (w *write) suggested(obj runtime.Object, revision int64) (*state, error) {
	data, err := w.encode(obj, nil)
	if err != nil {
		return nil, err
	}
	return &state{obj: obj, revision: revision, data: data}, w.versioner.UpdateObject(obj, uint64(revision))
}

// conflicted returns the state of the entry that a transaction has found instead.
func (w *write) conflicted(e *store.Entry) (*state, error) {
	st, err := w.state(e)
	if st != nil {
		st.latest, st.confirmed = true, true
	}
	return st, err
}

// Delete deletes an object and sets out to it, with the resource version of the deletion.
func (s *Storage) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, suggestion runtime.Object, opts storage.DeleteOptions) error {
	key, err := s.key(key, false)
	if err != nil {
		return err
	}
	w, err := s.newWrite(key, out)
	if err != nil {
		return err
	}
	w.corrupt = s.unsafe && opts.ExpectTransformOrDecodeError
	st, err := w.initial(ctx, suggestion)
	if err != nil {
		return err
	}
	for {
		failure := preconditions.Check(key, st.obj)
		if failure == nil {
			failure = validate(ctx, st.obj)
		}
		if failure != nil {
			if st.latest {
				return failure
			}
			var same bool
			if st, same, err = w.latest(ctx, st); err != nil {
				return err
			}
			if same {
				return failure
			}
			continue
		}
		revision, found, err := w.delete(ctx, st.revision)
		if err != nil {
			return err
		}
		if revision != 0 {
			if w.corrupt {
				return nil
			}
			return s.result(out, st.obj, st.data, revision)
		}
		if st, err = w.conflicted(found); err != nil {
			return err
		}
	}
}

func (w *write) delete(ctx context.Context, expected int64) (revision int64, found *store.Entry, err error) {
	defer asked(ctx, "delete", time.Now(), &err)
	revision, found, err = w.store.Delete(ctx, w.config.Writer, w.key, expected)
	return revision, found, Failure(err)
}

// GuaranteedUpdate updates an object with a function, which is called again if the object has
// changed in the meantime. Nothing is written if the stored value would stay the same.
func (s *Storage) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, update storage.UpdateFunc, suggestion runtime.Object) error {
	key, err := s.key(key, false)
	if err != nil {
		return err
	}
	w, err := s.newWrite(key, out)
	if err != nil {
		return err
	}
	w.create = ignoreNotFound
	st, err := w.initial(ctx, suggestion)
	if err != nil {
		return err
	}
	for {
		obj, data, ttl, failure := w.updated(st, preconditions, update)
		if failure != nil {
			if st.latest {
				return failure
			}
			var same bool
			if st, same, err = w.latest(ctx, st); err != nil {
				return err
			}
			if same {
				return failure
			}
			continue
		}
		if !st.stale && st.revision != 0 && bytes.Equal(data, st.data) {
			if !st.confirmed {
				var same bool
				if st, same, err = w.confirm(ctx, st); err != nil {
					return err
				}
				if !same {
					continue
				}
			}
			if !st.stale {
				return s.result(out, obj, st.data, st.revision)
			}
		}
		revision, found, err := s.put(ctx, key, data, st.revision, ttl)
		if err != nil {
			return err
		}
		if revision != 0 {
			return s.result(out, obj, data, revision)
		}
		if st, err = w.conflicted(found); err != nil {
			return err
		}
	}
}

// updated returns the object that an update makes of a state, and what is stored of it.
func (w *write) updated(st *state, preconditions *storage.Preconditions,
	update storage.UpdateFunc) (obj runtime.Object, data []byte, ttl uint64, err error) {
	if err := preconditions.Check(w.key, st.obj); err != nil {
		return nil, nil, 0, err
	}
	obj, seconds, err := update(st.obj, storage.ResponseMeta{ResourceVersion: uint64(st.revision)})
	if err != nil {
		return nil, nil, 0, err
	}
	if seconds != nil {
		ttl = *seconds
	}
	data, err = w.encode(obj, st.data)
	return obj, data, ttl, err
}
