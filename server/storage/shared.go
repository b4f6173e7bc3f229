package storage

import (
	"bytes"
	"io"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/store"
)

// change is an event with its objects, which are decoded on first use.
type change struct {
	event   *store.Event
	storage *Storage

	newOnce, oldOnce sync.Once
	newObj, oldObj   *sharedObject
	newErr, oldErr   error
}

// new returns the object after the event.
func (c *change) new() (*sharedObject, error) {
	c.newOnce.Do(func() { c.newObj, c.newErr = c.decode(c.event.Entry) })
	return c.newObj, c.newErr
}

// old returns the object before the event, with the resource version of the event.
func (c *change) old() (*sharedObject, error) {
	c.oldOnce.Do(func() { c.oldObj, c.oldErr = c.decode(c.event.Old) })
	return c.oldObj, c.oldErr
}

func (c *change) decode(e *store.Entry) (*sharedObject, error) {
	obj, err := c.storage.decode(e, c.event.Revision, nil)
	if err != nil {
		return nil, err
	}
	return &sharedObject{object: obj}, nil
}

// size is the size of the values of a change.
func (c *change) size() (n int) {
	for _, e := range []*store.Entry{c.event.Entry, c.event.Old} {
		if e != nil {
			n += len(e.Value)
		}
	}
	return n
}

// recentBytes limits the values of the changes whose objects are kept. Decoded objects take
// several times as much memory.
const recentBytes = 4 << 20

// recent holds the latest changes, so that the watches of a resource decode and encode their
// objects once. It is shared by all resources.
type recent struct {
	mu      sync.Mutex
	changes map[changeKey]*change
	order   []changeKey
	bytes   int
}

type changeKey struct {
	event   *store.Event
	storage *Storage
}

// get returns the change of the same event and storage that another watch has got, or adds c.
func (r *recent) get(c *change) *change {
	key := changeKey{c.event, c.storage}
	r.mu.Lock()
	defer r.mu.Unlock()
	if have, ok := r.changes[key]; ok {
		return have
	}
	if r.changes == nil {
		r.changes = map[changeKey]*change{}
	}
	r.changes[key] = c
	r.order = append(r.order, key)
	r.bytes += c.size()
	for r.bytes > recentBytes && len(r.order) > 1 {
		r.bytes -= r.changes[r.order[0]].size()
		delete(r.changes, r.order[0])
		r.order = r.order[1:]
	}
	return c
}

// sharedObject is an object in the events of several watches. It must not be changed. Each of
// its encodings is made once.
type sharedObject struct {
	object    runtime.Object
	encodings sync.Map // of runtime.Identifier to *encoding
}

type encoding struct {
	once sync.Once
	data []byte
	err  error
}

var (
	_ runtime.CacheableObject   = &sharedObject{}
	_ metav1.ObjectMetaAccessor = &sharedObject{}
)

// CacheEncode writes the encoding with an identifier, which encode makes.
func (o *sharedObject) CacheEncode(id runtime.Identifier, encode func(runtime.Object, io.Writer) error, w io.Writer) error {
	value, _ := o.encodings.LoadOrStore(id, &encoding{})
	e := value.(*encoding)
	e.once.Do(func() {
		var b bytes.Buffer
		e.err = encode(o.GetObject(), &b) // encoders may change an object
		e.data = b.Bytes()
	})
	if e.err != nil {
		return e.err
	}
	if s, ok := w.(runtime.Splice); ok {
		s.Splice(e.data)
		return nil
	}
	_, err := w.Write(e.data)
	return err
}

// GetObject returns a copy of the object.
func (o *sharedObject) GetObject() runtime.Object { return o.object.DeepCopyObject() }

// GetObjectKind returns the kind of the object.
func (o *sharedObject) GetObjectKind() runtimeschema.ObjectKind { return o.object.GetObjectKind() }

// DeepCopyObject returns a copy that shares no encodings.
func (o *sharedObject) DeepCopyObject() runtime.Object { return &sharedObject{object: o.GetObject()} }

// GetObjectMeta returns the metadata of the object, or nil.
func (o *sharedObject) GetObjectMeta() metav1.Object {
	m, err := meta.Accessor(o.object)
	if err != nil {
		return nil
	}
	return m
}
