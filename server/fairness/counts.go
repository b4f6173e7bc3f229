package fairness

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/util/flowcontrol/request"

	"espalier.dev/server/keys"
	"espalier.dev/store"
)

const (
	// A list has the largest number of seats from a megabyte, or from a thousand objects, on, if it
	// needs half of the objects. So no more have to be counted.
	maxBytes, minObjects = 2 << 20, 2000
	// cachedFrom is the number of objects from which a result is kept, for cacheTime: counting fewer
	// costs less than a small list.
	cachedFrom = 100
	cacheTime  = time.Second
	// maxCached is the maximum number of results that are kept.
	maxCached = 1000
)

// Counts has the numbers and sizes of stored objects, from which k8s.io/apiserver estimates the cost of
// a list. They are counted in memory when a list asks for them.
type Counts struct {
	objects *store.Store
	reader  Reader

	mu     sync.Mutex
	cached map[string]counted
}

type counted struct {
	stats storage.Stats
	until time.Time
}

var _ request.StorageObjectCountTracker = &Counts{}

// NewCounts returns the numbers of the objects in a store.
func NewCounts(objects *store.Store, r Reader) *Counts {
	return &Counts{objects: objects, reader: r, cached: map[string]counted{}}
}

// Set does nothing: storages that count their objects in etcd call it.
func (c *Counts) Set(string, storage.Stats) {}

// RunUntil does nothing: there is nothing to maintain.
func (c *Counts) RunUntil(<-chan struct{}) {}

// Get returns the number of objects of a resource, in the form resource.group, and their average size.
// It counts no further than the cost can depend on it.
func (c *Counts) Get(resource string) (storage.Stats, error) {
	now := time.Now()
	c.mu.Lock()
	have, ok := c.cached[resource]
	c.mu.Unlock()
	if ok && now.Before(have.until) {
		return have.stats, nil
	}
	gr := c.reader.StoredAs(schema.ParseGroupResource(resource))
	root := keys.Root(c.objects.Prefix())
	prefix := root.Custom(gr)
	if c.reader.Has(gr) || root.Builtin(gr) == root.CRDs() {
		prefix = root.Builtin(gr)
	}
	var stats storage.Stats
	size := int64(0)
	for e := range c.objects.Snapshot().Range(string(prefix), "") {
		stats.ObjectCount++
		size += int64(len(e.Value))
		if size >= maxBytes && stats.ObjectCount >= minObjects {
			break
		}
	}
	if stats.ObjectCount == 0 {
		// There may be no such resource. The estimate is the same.
		return stats, request.ObjectCountNotFoundErr
	}
	stats.EstimatedAverageObjectSizeBytes = size / stats.ObjectCount
	if stats.ObjectCount >= cachedFrom {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.cached) >= maxCached {
			clear(c.cached)
		}
		c.cached[resource] = counted{stats, now.Add(cacheTime)}
	}
	return stats, nil
}
