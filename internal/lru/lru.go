// Package lru keeps the values that were used last, and makes each of them once.
package lru

import (
	"container/list"
	"errors"
	"sync"
)

// ErrPanicked is the error of callers that have waited for one whose value could not be made
// because of a panic.
var ErrPanicked = errors.New("the object could not be processed: try again")

// Cache holds the values that were used last, up to a total size, or one. It is safe for
// concurrent use.
type Cache[K comparable, V any] struct {
	limit int64
	size  func(K, V) int64

	mu    sync.Mutex
	items map[K]*list.Element // of *item[K, V]
	order list.List           // the last used first
	total int64
}

// item is a value that is being made, or was.
type item[K comparable, V any] struct {
	key   K
	once  sync.Once
	value V
	err   error
	// size is what the value adds to the total of the cache: zero until it is made.
	size int64
}

// New returns a Cache. size returns the size of a value.
func New[K comparable, V any](limit int64, size func(K, V) int64) *Cache[K, V] {
	return &Cache[K, V]{limit: limit, size: size, items: map[K]*list.Element{}}
}

// Get returns the value of a key, and makes it if it is not there. Concurrent callers wait for the
// first, so make may take long. Errors are not kept.
func (c *Cache[K, V]) Get(key K, make func() (V, error)) (V, error) {
	_, i := c.get(key, make)
	return i.value, i.err
}

// GetValid does the same, and replaces a value that is not valid.
func (c *Cache[K, V]) GetValid(key K, valid func(V) bool, make func() (V, error)) (V, error) {
	for range 3 { // others may replace it by what is not valid here
		e, i := c.get(key, make)
		if i.err != nil || valid(i.value) {
			return i.value, i.err
		}
		c.mu.Lock()
		if c.items[key] == e {
			c.remove(e, i)
		}
		c.mu.Unlock()
	}
	return make()
}

// Retain removes the values of all keys but some.
func (c *Cache[K, V]) Retain(keep func(K) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, e := range c.items {
		if !keep(key) {
			c.remove(e, e.Value.(*item[K, V]))
		}
	}
}

// get returns an item that was made, or could not be.
func (c *Cache[K, V]) get(key K, make func() (V, error)) (*list.Element, *item[K, V]) {
	c.mu.Lock()
	e, ok := c.items[key]
	if ok {
		c.order.MoveToFront(e)
	} else {
		e = c.order.PushFront(&item[K, V]{key: key})
		c.items[key] = e
	}
	c.mu.Unlock()
	i := e.Value.(*item[K, V])
	i.once.Do(func() {
		i.err = ErrPanicked // unless make returns
		defer c.made(e, i)
		i.value, i.err = make()
	})
	return e, i
}

// Len returns the number of values.
func (c *Cache[K, V]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.items)
}

// made accounts for a value, or forgets it if it could not be made.
func (c *Cache[K, V]) made(e *list.Element, i *item[K, V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.items[i.key] != e {
		return // it was removed before it was made
	}
	if i.err != nil {
		c.remove(e, i)
		return
	}
	i.size = c.size(i.key, i.value)
	c.total += i.size
	for c.total > c.limit && c.order.Len() > 1 {
		last := c.order.Back()
		c.remove(last, last.Value.(*item[K, V]))
	}
}

// remove forgets a value. mu is held.
func (c *Cache[K, V]) remove(e *list.Element, i *item[K, V]) {
	c.order.Remove(e)
	delete(c.items, i.key)
	c.total -= i.size
}
