package resources

import (
	"container/list"
	"errors"
	"sync"

	"espalier.dev/store"
)

// viewCacheBytes limits the memory of the views that are not kept with their entries.
const viewCacheBytes = 64 << 20

// viewCache holds the views that were used last, up to a number of bytes. All resources share
// it.
type viewCache struct {
	max int64

	mu    sync.Mutex
	items map[viewKey]*list.Element // of *cachedView
	order list.List                 // the last used first
	bytes int64
}

// viewKey identifies a view.
type viewKey struct {
	entry *store.Entry
	of    *viewID
}

// cachedView is a view that is being made, or was.
type cachedView struct {
	key  viewKey
	once sync.Once
	view *view
	err  error
	// size is what the view adds to the bytes of the cache: zero until it is made.
	size int64
}

// errViewPanicked is what the others get that waited for a view whose making has panicked.
var errViewPanicked = errors.New("reading the object has failed in another request")

func newViewCache(limit int64) *viewCache {
	return &viewCache{max: limit, items: map[viewKey]*list.Element{}}
}

// get returns a view, and makes it if it is not there. Concurrent callers wait for the first:
// making it may call a webhook. Errors are not kept.
func (c *viewCache) get(key viewKey, makeView func() (*view, error)) (*view, error) {
	c.mu.Lock()
	item, ok := c.items[key]
	if ok {
		c.order.MoveToFront(item)
	} else {
		item = c.order.PushFront(&cachedView{key: key})
		c.items[key] = item
	}
	c.mu.Unlock()
	v := item.Value.(*cachedView)
	v.once.Do(func() {
		v.err = errViewPanicked
		defer c.made(item, v)
		v.view, v.err = makeView()
	})
	return v.view, v.err
}

// made accounts for a view, or forgets it if it could not be made.
func (c *viewCache) made(item *list.Element, v *cachedView) {
	// The entry may be kept by the cache alone.
	const overhead = 512
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.items[v.key] != item {
		return // it was removed before it was made
	}
	if v.err != nil {
		c.remove(item, v)
		return
	}
	v.size = overhead + int64(len(v.view.text)) + int64(len(v.key.entry.Value))
	c.bytes += v.size
	for c.bytes > c.max {
		last := c.order.Back()
		c.remove(last, last.Value.(*cachedView))
	}
}

// remove forgets a view. mu is held.
func (c *viewCache) remove(item *list.Element, v *cachedView) {
	c.order.Remove(item)
	delete(c.items, v.key)
	c.bytes -= v.size
}
