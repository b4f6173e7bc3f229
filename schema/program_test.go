package schema

import (
	"fmt"
	"math/bits"
	"testing"
)

// TestProperties checks that properties are found by name, in lists around the lengths at which the
// way of searching changes.
func TestProperties(t *testing.T) {
	for _, n := range []int{0, 1, searchMax, searchMax + 1, 16, 17, 1 << 15, 1<<15 + 1} {
		list := make([]property, n)
		for i := range list {
			list[i] = property{fmt.Sprint("p", n-i), int32(i + 1)}
		}
		p := newProperties(list)
		want := 0
		if n > searchMax && n <= 1<<15 {
			want = 1 << bits.Len(uint(2*n-1)) // half of the table is free
		}
		if len(p.slots) != want {
			t.Errorf("%d properties: got a table of %d, want %d", n, len(p.slots), want)
		}
		for i := range n {
			if got := p.find(fmt.Sprint("p", n-i)); got != int32(i+1) {
				t.Fatalf("%d properties: got %d for p%d, want %d", n, got, n-i, i+1)
			}
		}
		for _, name := range []string{"", "a", "p", "p0", fmt.Sprint("p", n+1), "z"} {
			if got := p.find(name); got != none {
				t.Errorf("%d properties: got %d for %q", n, got, name)
			}
		}
	}
}
