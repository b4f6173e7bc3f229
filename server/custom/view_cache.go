package custom

import (
	"espalier.dev/internal/lru"
	"espalier.dev/store"
)

// viewCacheBytes limits the memory of the views that are not kept with their entries.
const viewCacheBytes = 64 << 20

// viewCache holds the views that were used last. Making one may call a webhook. All resources share
// it.
type viewCache = lru.Cache[viewKey, *view]

// viewKey identifies a view.
type viewKey struct {
	entry *store.Entry
	of    *viewID
}

func newViewCache(limit int64) *viewCache {
	// The entry may be kept by the cache alone.
	const overhead = 512
	return lru.New(limit, func(k viewKey, v *view) int64 {
		return overhead + int64(len(v.text)) + int64(len(k.entry.Value))
	})
}
