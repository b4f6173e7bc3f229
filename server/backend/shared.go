package backend

import (
	"bytes"
	"io"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/internal/lru"
	"espalier.dev/store"
)

// keptBytes limits the values whose objects are kept. Decoded objects take several times as
// much memory.
const keptBytes = 16 << 20

// kept holds the decoded objects that were used last, so that the watches of a resource decode
// and encode an object once, and a webhook converts it once. All resources share it.
type kept = lru.Cache[keptKey, *sharedObject]

// keptKey identifies an object: an entry as the objects of a storage, with a resource version.
type keptKey struct {
	entry    *store.Entry
	storage  *Storage
	revision int64
}

func newKept() *kept {
	return lru.New(keptBytes, func(k keptKey, _ *sharedObject) int64 { return int64(len(k.entry.Value)) })
}

// shared returns the object of an entry with a resource version, and decodes it if it is not kept.
func (s *Storage) shared(e *store.Entry, revision int64) (*sharedObject, error) {
	return s.kept.Get(keptKey{e, s, revision}, func() (*sharedObject, error) {
		obj, err := s.decode(e, revision, nil)
		if err != nil {
			return nil, err
		}
		return &sharedObject{object: obj}, nil
	})
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
		e.err = lru.ErrPanicked           // unless encoding returns
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
