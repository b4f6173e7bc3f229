package storage

import (
	"bytes"
	"container/list"
	"errors"
	"io"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/store"
)

// keptBytes limits the values whose objects are kept. Decoded objects take several times as
// much memory.
const keptBytes = 16 << 20

// kept holds the decoded objects that were used last, so that the watches of a resource decode
// and encode an object once, and a webhook converts it once. All resources share it.
type kept struct {
	mu    sync.Mutex
	items map[keptKey]*list.Element // of *keptObject
	order list.List                 // the last used first
	bytes int
}

// keptKey identifies an object: an entry as the objects of a storage, with a resource version.
type keptKey struct {
	entry    *store.Entry
	storage  *Storage
	revision int64
}

type keptObject struct {
	key  keptKey
	once sync.Once
	obj  *sharedObject
	err  error
}

// errPanic is the error of callers that have waited for one whose decoding or encoding
// panicked.
var errPanic = errors.New("the object could not be processed: try again")

// get returns the object of an entry, and decodes it if it is not kept. Concurrent callers wait
// for the first. Errors are not kept.
func (k *kept) get(key keptKey) (*sharedObject, error) {
	k.mu.Lock()
	item, ok := k.items[key]
	if ok {
		k.order.MoveToFront(item)
	} else {
		if k.items == nil {
			k.items = map[keptKey]*list.Element{}
		}
		item = k.order.PushFront(&keptObject{key: key})
		k.items[key] = item
		k.bytes += len(key.entry.Value)
		for k.bytes > keptBytes && k.order.Len() > 1 {
			k.remove(k.order.Back())
		}
	}
	k.mu.Unlock()
	o := item.Value.(*keptObject)
	o.once.Do(func() {
		o.err = errPanic // unless decoding returns
		obj, err := key.storage.decode(key.entry, key.revision, nil)
		o.obj, o.err = &sharedObject{object: obj}, err
	})
	if o.err != nil {
		k.mu.Lock()
		k.remove(item)
		k.mu.Unlock()
		return nil, o.err
	}
	return o.obj, nil
}

// remove forgets an object, unless that has happened. mu is held.
func (k *kept) remove(item *list.Element) {
	o := item.Value.(*keptObject)
	if k.items[o.key] == item {
		k.order.Remove(item)
		delete(k.items, o.key)
		k.bytes -= len(o.key.entry.Value)
	}
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

// event returns the object of an event: itself if it is shared.
func (o *sharedObject) event(shared bool) runtime.Object {
	if shared {
		return o
	}
	return o.object
}

// CacheEncode writes the encoding with an identifier, which encode makes.
func (o *sharedObject) CacheEncode(id runtime.Identifier, encode func(runtime.Object, io.Writer) error, w io.Writer) error {
	value, _ := o.encodings.LoadOrStore(id, &encoding{})
	e := value.(*encoding)
	e.once.Do(func() {
		var b bytes.Buffer
		e.err = errPanic                  // unless encoding returns
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
