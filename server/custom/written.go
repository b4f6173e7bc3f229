package custom

import (
	"bytes"
	"hash/maphash"
	"sync/atomic"
)

// writtenViews holds the views of the last values that this server has written. Each comes back from
// etcd, often when many watchers wait for it, and the write has already found out what a read of it
// returns. It is safe for concurrent use; nil holds nothing.
type writtenViews struct {
	seed  maphash.Seed
	slots [256]atomic.Pointer[view]
}

// maxWritten limits the size of a text that is held, and so the memory of all.
const maxWritten = 16 << 10

func newWrittenViews() *writtenViews { return &writtenViews{seed: maphash.MakeSeed()} }

func (w *writtenViews) slot(text []byte) *atomic.Pointer[view] {
	return &w.slots[maphash.Bytes(w.seed, text)%uint64(len(w.slots))]
}

// add holds a view until it is taken, or until that of another value takes its place.
func (w *writtenViews) add(v *view) {
	if w != nil && len(v.text) <= maxWritten {
		w.slot(v.text).Store(v)
	}
}

// take returns the view of a value, or nil if there is none with this identity. It shares memory with
// the value.
func (w *writtenViews) take(of *viewID, value []byte) *view {
	text := bytes.TrimSuffix(value, []byte("\n"))
	if w == nil || len(text) > maxWritten {
		return nil
	}
	slot := w.slot(text)
	v := slot.Load()
	if v == nil || v.of != of || !bytes.Equal(v.text, text) {
		return nil
	}
	slot.CompareAndSwap(v, nil)
	out := *v
	out.text = text
	return &out
}
