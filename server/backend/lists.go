package backend

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"espalier.dev/internal/lru"
	"espalier.dev/internal/yamlx"
	"espalier.dev/store"
)

// Budget limits what the lists of a request keep in memory. Its calls are not concurrent.
type Budget interface {
	// Spend takes the bytes of an object. A list fails with its error. It reports whether they
	// count: a small list may be free.
	Spend(bytes int) (counted bool, err error)
	// SpendCopy takes bytes that a list needs beside the stored values, for defaults and conversions. Stored values are as
	// many as the database has, but copies can be much larger: a list fails if it needs too many, also if there is no other.
	SpendCopy(bytes int) error
	// Leave makes bytes that were taken outlive the request: lists of other requests use the
	// object. The function gives them back.
	Leave(bytes int) (giveBack func())
}

// listsKey is the key of the lists of a request in its context.
type listsKey struct{}

// WithBudget returns a context whose lists count the objects that they keep in memory, with the
// bytes of their stored values, and share them with the lists of other requests. Callers must not
// change these objects. done is called when the request is answered.
func WithBudget(ctx context.Context, b Budget) (_ context.Context, done func()) {
	l := &lists{budget: b}
	return context.WithValue(ctx, listsKey{}, l), l.close
}

// SpendCopy counts bytes that a list needs beside stored values in the budget of a request, if it has one.
func SpendCopy(ctx context.Context, bytes int) error {
	if l, ok := ctx.Value(listsKey{}).(*lists); ok {
		return l.budget.SpendCopy(bytes)
	}
	return nil
}

// lists are what one request has listed. Nil is valid: its objects are not shared.
type lists struct {
	budget Budget
	// objects are those that it uses. The first ones are counted in the budget.
	objects []*listedObject
	counted int
}

// listedObjects are the objects of all lists that are being answered. A list needs its objects
// until its client has read it, which may take long, and many clients list the same objects.
type listedObjects struct {
	mu      sync.Mutex
	objects map[keptKey]*listedObject
}

// listedObject is an object of a list. It must not be changed.
type listedObject struct {
	key    keptKey
	once   sync.Once
	object runtime.Object
	err    error
	// copied is by how many bytes the object is larger than its stored value.
	copied int

	// The rest is guarded by the mutex of the listedObjects. users is how many lists use the
	// object.
	users int
	// payer is the request whose budget has counted the object. If it was answered before
	// others, giveBack gives back what it has left. Without either, the next list pays.
	payer    *lists
	giveBack func()
}

// open returns the object of an entry. The request uses it until dropLast, or until it is answered,
// also if decoding panics.
func (l *lists) open(s *Storage, e *store.Entry) (*listedObject, error) {
	o := &listedObject{key: keptKey{e, s, e.Revision}}
	if l == nil {
		o.decode()
		return o, o.err
	}
	s.listed.mu.Lock()
	if shared := s.listed.objects[o.key]; shared != nil {
		o = shared
	} else {
		s.listed.objects[o.key] = o
	}
	o.users++
	s.listed.mu.Unlock()
	l.objects = append(l.objects, o)
	o.once.Do(o.decode)
	if o.err != nil {
		l.dropLast()
	}
	return o, o.err
}

// decode makes the object. The answers of a webhook are kept for other lists.
func (o *listedObject) decode() {
	o.err = lru.ErrPanicked // unless decoding returns
	s := o.key.storage
	if !s.calls {
		o.object, o.err = s.decode(o.key.entry, o.key.revision, nil)
	} else if shared, err := s.shared(o.key.entry, o.key.revision); err != nil {
		o.err = err
	} else {
		o.object, o.err = shared.object, nil
	}
	if tree, ok := o.object.(*unstructured.Unstructured); ok && o.err == nil {
		o.copied = max(0, yamlx.Size(tree.Object, maxCopy)-2*len(o.key.entry.Value))
	}
}

// maxCopy is more than the size of an object with its defaults.
const maxCopy = 16 << 20

// pay counts an object that the request lists in its budget, unless another request has done so.
// In any case it pays for its own item, of no bytes.
func (l *lists) pay(o *listedObject) error {
	if l == nil {
		return nil
	}
	all, bytes, copied := o.key.storage.listed, 0, 0
	all.mu.Lock()
	if o.payer == nil && o.giveBack == nil {
		bytes, copied = len(o.key.entry.Value), o.copied
	}
	all.mu.Unlock()
	if err := l.budget.SpendCopy(copied); err != nil {
		return err
	}
	counted, err := l.budget.Spend(bytes)
	if err != nil || !counted {
		return err
	}
	// That includes the objects before, which were free.
	for _, o := range l.objects[l.counted:] {
		o.key.storage.listed.mu.Lock()
		if o.payer == nil && o.giveBack == nil {
			o.payer = l
		}
		o.key.storage.listed.mu.Unlock()
	}
	l.counted = len(l.objects)
	return nil
}

// dropLast ends the use of the object that was opened last.
func (l *lists) dropLast() {
	if l == nil {
		return
	}
	last := len(l.objects) - 1
	o := l.objects[last]
	l.objects = l.objects[:last]
	l.drop(o)
}

// drop ends the use of an object.
func (l *lists) drop(o *listedObject) {
	all := o.key.storage.listed
	all.mu.Lock()
	defer all.mu.Unlock()
	o.users--
	switch {
	case o.users == 0:
		delete(all.objects, o.key)
		if o.giveBack != nil {
			o.giveBack()
		}
	case o.payer == l:
		o.payer, o.giveBack = nil, l.budget.Leave(len(o.key.entry.Value))
	}
}

// close ends the use of all objects.
func (l *lists) close() {
	for _, o := range l.objects {
		l.drop(o)
	}
	l.objects = nil
}
