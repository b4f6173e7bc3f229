package store

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTree compares trees and their copies with maps while they change.
func TestTree(t *testing.T) {
	for _, order := range []string{"random", "ascending", "descending"} {
		t.Run(order, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			type pair struct {
				tree *tree
				want map[string]*Entry
			}
			pairs := []pair{{newTree(), map[string]*Entry{}}}
			for i := range 20_000 {
				p := pairs[random.IntN(len(pairs))]
				n := random.IntN(3000)
				switch order {
				case "ascending":
					n = i
				case "descending":
					n = 20_000 - i
				}
				key := fmt.Sprintf("%05d", n)
				if random.IntN(100) < 55 || order != "random" && i%7 > 0 {
					e := &Entry{Key: key, Revision: int64(i)}
					if old := p.tree.set(e); old != p.want[key] {
						t.Fatalf("set %s: got %v, want %v", key, old, p.want[key])
					}
					p.want[key] = e
				} else {
					if order != "random" {
						key = fmt.Sprintf("%05d", random.IntN(20_000))
					}
					if old := p.tree.delete(key); old != p.want[key] {
						t.Fatalf("delete %s: got %v, want %v", key, old, p.want[key])
					}
					delete(p.want, key)
				}
				if i%2000 == 0 && len(pairs) < 4 {
					pairs = append(pairs, pair{p.tree.clone(), maps.Clone(p.want)})
				}
				if i%1000 == 999 {
					for _, p := range pairs {
						checkTree(t, p.tree, p.want)
					}
				}
			}
			for _, p := range pairs { // until they are empty
				for _, key := range slices.Sorted(maps.Keys(p.want)) {
					p.tree.delete(key)
					delete(p.want, key)
					if len(p.want)%500 == 0 {
						checkTree(t, p.tree, p.want)
					}
				}
				if p.tree.root.children != nil || p.tree.len() != 0 {
					t.Errorf("an empty tree has children, or %d entries", p.tree.len())
				}
			}
		})
	}
}

func checkTree(t *testing.T, tr *tree, want map[string]*Entry) {
	t.Helper()
	keys := slices.Sorted(maps.Keys(want))
	if tr.len() != len(keys) {
		t.Fatalf("the tree has %d entries, want %d", tr.len(), len(keys))
	}
	checkNode(t, tr.root, true, "", "")
	i := 0
	for e := range tr.from("") {
		if e != want[keys[i]] {
			t.Fatalf("entry %d: got %v, want %v", i, e, want[keys[i]])
		}
		i++
	}
	for n := range 64 {
		key := fmt.Sprintf("%05d", n*311)
		i, _ := slices.BinarySearch(keys, key)
		if got := tr.position(key); got != i {
			t.Fatalf("position of %s: got %d, want %d", key, got, i)
		}
		if got := tr.get(key); got != want[key] {
			t.Fatalf("get %s: got %v, want %v", key, got, want[key])
		}
		var first *Entry
		for first = range tr.from(key) {
			break
		}
		if i < len(keys) && first != want[keys[i]] || i == len(keys) && first != nil {
			t.Fatalf("from %s: got %v", key, first)
		}
	}
}

// checkNode checks that a node is balanced, in order, neither too large nor too small, and counted. It
// returns its height.
func checkNode(t *testing.T, n *node, root bool, low, high string) (height int) {
	t.Helper()
	size := len(n.entries) + len(n.children)
	if size > maxNode || !root && size == 0 || n.children != nil && (len(n.entries) > 0 || len(n.lows) != size || size < 2) {
		t.Fatalf("a node has %d entries, %d children and %d bounds", len(n.entries), len(n.children), len(n.lows))
	}
	if cap(n.entries) > maxNode+1 || cap(n.children) > maxNode+1 {
		t.Fatalf("a node has room for %d entries and %d children", cap(n.entries), cap(n.children))
	}
	count := len(n.entries)
	for _, e := range n.entries {
		if e.Key < low || high != "" && e.Key >= high {
			t.Fatalf("the key %s is in a node from %q to %q", e.Key, low, high)
		}
	}
	for i, c := range n.children {
		from, to := low, high
		if i > 0 {
			from = n.lows[i]
		}
		if i+1 < len(n.children) {
			to = n.lows[i+1]
		}
		h := checkNode(t, c, false, from, to)
		if i > 0 && h != height {
			t.Fatalf("leaves are %d and %d levels below a node", h, height)
		}
		height = h
		count += c.count
	}
	if n.count != count {
		t.Fatalf("a node counts %d entries, want %d", n.count, count)
	}
	return height + 1
}

// TestTreeFull checks that keys that arrive in order fill their nodes.
func TestTreeFull(t *testing.T) {
	tr := newTree()
	for i := range 10_000 {
		tr.set(&Entry{Key: fmt.Sprintf("%05d", i)})
	}
	leaves := 0
	var walk func(*node)
	walk = func(n *node) {
		if n.children == nil {
			leaves++
		}
		for _, c := range n.children {
			walk(c)
		}
	}
	walk(tr.root)
	if most := 10_000/(maxNode-1) + 1; leaves > most {
		t.Errorf("10,000 entries have %d leaves, want at most %d", leaves, most)
	}
}

func TestCount(t *testing.T) {
	tr := newTree()
	for i := range 1000 {
		for _, dir := range []string{"/a/", "/a/b/", "/b/", "/\xff/", "\xff\xff"} {
			tr.set(&Entry{Key: fmt.Sprintf("%s%03d", dir, i)})
		}
	}
	s := &Snapshot{tree: tr}
	for _, prefix := range []string{"", "/", "/a/", "/a/b/", "/aa/", "/b/", "/c/", "/\xff/", "\xff\xff", "\xff"} {
		for _, start := range []string{"", "/", "/a/500", "/a/b/999", "/a/b/999\x00", "/b/", "/b/001", "/b0", "\xff"} {
			want := int64(0)
			for range s.Range(prefix, start) {
				want++
			}
			if got := s.Count(prefix, start); got != want {
				t.Errorf("Count(%q, %q): got %d, want %d", prefix, start, got, want)
			}
		}
	}
}
