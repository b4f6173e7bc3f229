package persistent

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestMap compares maps with Go's, and checks that changes leave older maps alone.
func TestMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	type state struct {
		m    Map[int]
		want map[string]int
	}
	now := state{want: map[string]int{}}
	states := []state{now}
	for i := range 3000 {
		want := maps.Clone(now.want)
		key := fmt.Sprint(random.IntN(400))
		if random.IntN(3) == 0 {
			delete(want, key)
			now = state{now.m.Delete(key), want}
		} else {
			want[key] = i
			now = state{now.m.Set(key, i), want}
		}
		if i%100 == 0 {
			states = append(states, now)
		}
	}
	for i, s := range states {
		if got := maps.Collect(s.m.All()); !maps.Equal(got, s.want) || s.m.Len() != len(s.want) {
			t.Fatalf("state %d: got %v, want %v", i, got, s.want)
		}
		keys := slices.Sorted(maps.Keys(s.want))
		for _, start := range []string{"", "2", "39", "9999"} {
			var got []string
			for key, v := range s.m.From(start) {
				if found, ok := s.m.Get(key); !ok || found != v {
					t.Errorf("state %d: Get(%q) returns %v, %v", i, key, found, ok)
				}
				got = append(got, key)
			}
			at, _ := slices.BinarySearch(keys, start)
			if !slices.Equal(got, keys[at:]) {
				t.Fatalf("state %d: from %q: got %q, want %q", i, start, got, keys[at:])
			}
		}
		if _, ok := s.m.Get("absent"); ok {
			t.Error("has a key that was never set")
		}
	}
	for range now.m.All() {
		break // an iteration can end early
	}
}

// TestDepth checks that sorted keys do not make a deep tree.
func TestDepth(t *testing.T) {
	var m Map[bool]
	const n = 1 << 14
	for i := range n {
		m = m.Set(fmt.Sprintf("%08d", i), true)
	}
	var depth func(*node[bool]) int
	depth = func(n *node[bool]) int {
		if n == nil {
			return 0
		}
		return 1 + max(depth(n.left), depth(n.right))
	}
	if got := depth(m.root); got > 5*14 {
		t.Errorf("a tree of %d keys has depth %d", n, got)
	}
}
