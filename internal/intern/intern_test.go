package intern

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

type value struct{ text *string }

func TestPool(t *testing.T) {
	t.Parallel()
	var p Pool[string, value]
	made := 0
	get := func(key string) *value {
		return p.Get(key, func() *value { made++; return &value{&key} })
	}
	a, b := get("a"), get("b")
	if a == b || get("a") != a || get("b") != b || made != 2 {
		t.Fatalf("%d values made of 2 keys", made)
	}
	runtime.KeepAlive(a)
	runtime.KeepAlive(b)
	for deadline := time.Now().Add(10 * time.Second); p.Len() > 0; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("the pool keeps values that are not used")
		}
		runtime.GC()
	}
	if got := get("a"); *got.text != "a" || made != 3 || p.Len() != 1 {
		t.Fatalf("%d values made, %d in the pool", made, p.Len())
	}
}

// TestPoolConcurrently has values come and go while they are requested. All holders of a key
// must have the same value.
func TestPoolConcurrently(t *testing.T) {
	t.Parallel()
	var p Pool[int, value]
	keys := [4]string{"0", "1", "2", "3"}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 200 {
				key := i % len(keys)
				first := p.Get(key, func() *value { return &value{&keys[key]} })
				if i%50 == 0 {
					runtime.GC()
				}
				if again := p.Get(key, func() *value { return &value{&keys[key]} }); again != first || again.text != &keys[key] {
					t.Error("two values of one key")
				}
				runtime.KeepAlive(first)
			}
		})
	}
	wg.Wait()
}
