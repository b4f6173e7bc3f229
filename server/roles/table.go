package roles

import (
	"hash/maphash"
	"maps"
)

// table is an immutable hash map from strings. It is cheap to change, because it consists of
// many small maps: an edit copies only those that it changes. The zero value is empty.
type table[V any] struct {
	n      int
	shards []map[string]V // their number is a power of two
	seed   maphash.Seed
}

// maxShard is the average number of keys of a shard from which on a table gets more shards.
const maxShard = 64

func (t *table[V]) shard(key string) int {
	if len(t.shards) == 1 {
		return 0
	}
	return int(maphash.String(t.seed, key) & uint64(len(t.shards)-1))
}

// get returns the value of a key, or the zero value.
func (t *table[V]) get(key string) (v V) {
	if t.n == 0 {
		return v
	}
	return t.shards[t.shard(key)][key]
}

// edit changes a copy of a table.
type edit[V any] struct {
	table[V]
	owned []bool // the shards that are not shared with the original
}

func (t *table[V]) edit() *edit[V] { return &edit[V]{table: *t} }

// own makes a shard of the copy safe to change.
func (e *edit[V]) own(i int) {
	if e.owned == nil {
		e.owned = make([]bool, len(e.shards))
		e.shards = append([]map[string]V(nil), e.shards...)
	}
	if !e.owned[i] {
		e.shards[i], e.owned[i] = maps.Clone(e.shards[i]), true
	}
}

// set sets the value of a key.
func (e *edit[V]) set(key string, v V) {
	if e.n >= maxShard*len(e.shards) {
		e.grow()
	}
	i := e.shard(key)
	e.own(i)
	before := len(e.shards[i])
	e.shards[i][key] = v
	e.n += len(e.shards[i]) - before
}

// delete removes a key.
func (e *edit[V]) delete(key string) {
	if e.n == 0 {
		return
	}
	i := e.shard(key)
	if _, ok := e.shards[i][key]; ok {
		e.own(i)
		delete(e.shards[i], key)
		e.n--
	}
}

// grow doubles the number of shards.
func (e *edit[V]) grow() {
	old := e.shards
	e.shards, e.owned = make([]map[string]V, max(1, 2*len(old))), nil
	if len(old) == 0 {
		e.seed = maphash.MakeSeed()
	}
	e.owned = make([]bool, len(e.shards))
	for i := range e.shards {
		e.shards[i], e.owned[i] = map[string]V{}, true
	}
	for _, shard := range old {
		for key, v := range shard {
			e.shards[e.shard(key)][key] = v
		}
	}
}
