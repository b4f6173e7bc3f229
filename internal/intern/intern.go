// Package intern shares values that are made of equal keys.
package intern

import (
	"runtime"
	"sync"
	"weak"
)

// Pool returns the same value for the same key while anything else refers to the value. It
// keeps no value alive itself: a value is removed from the pool when it is garbage
// collected. The zero Pool is ready for use, by several goroutines.
//
// A value must not refer to the Pool's key in a way that changes it, and should contain a
// pointer: the garbage collector may keep small values without pointers together.
type Pool[K comparable, V any] struct {
	mu     sync.Mutex
	values map[K]weak.Pointer[V]
}

// Get returns the value of a key, and calls make if there is none. The pool is locked
// meanwhile, so make must be quick.
func (p *Pool[K, V]) Get(key K, make func() *V) *V {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v := p.values[key].Value(); v != nil {
		return v
	}
	v := make()
	if p.values == nil {
		p.values = map[K]weak.Pointer[V]{}
	}
	p.values[key] = weak.Make(v)
	runtime.AddCleanup(v, p.forget, key)
	return v
}

// forget removes a key whose value was garbage collected, unless it has a new one.
func (p *Pool[K, V]) forget(key K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w, ok := p.values[key]; ok && w.Value() == nil {
		delete(p.values, key)
	}
}

// Len returns the number of values, with those that are about to be removed.
func (p *Pool[K, V]) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.values)
}
