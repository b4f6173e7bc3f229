package etcd

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestRestarts restarts a member whose log etcd compacts while it applies it. The member must not
// begin an election before raft knows what was applied: raft panics if it finds entries missing.
func TestRestarts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	const rounds = 8
	m, err := Start(t.Context(), Config{Dir: dir, UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	client := connect(t, m.Endpoint())
	for i := range 300 {
		if _, err := client.Put(t.Context(), fmt.Sprint("key", i), "value"); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	m.Close()

	// Other work delays the goroutines of raft at any place.
	var stop atomic.Bool
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for n := 0; !stop.Load(); n++ {
				_ = n
			}
		})
	}
	defer load.Wait()
	defer stop.Store(true)
	begin, done, late := time.Now(), 0, 0
	// The time to wait for an answer is limited, and the machine may be slow.
	for ; done < rounds || late == done && time.Since(begin) < 3*time.Minute; done++ {
		m, err := Start(t.Context(), Config{Dir: dir, UnsafeNoFsync: true})
		if err != nil {
			t.Fatalf("restart %d: %v", done, err)
		}
		if m.probe.answer() <= keptEntries {
			late++
		}
		m.Close()
	}
	if late == done {
		t.Error("no probe was answered")
	}
	t.Logf("%d restarts took %v, %d without an answer", done, time.Since(begin), late)
}
