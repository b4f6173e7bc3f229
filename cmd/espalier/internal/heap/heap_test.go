package heap

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"
)

// percent returns the current value of GOGC. It does not set it, as [debug.SetGCPercent] would:
// the first collection may set it at the same time.
func percent() uint64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func TestPostpone(t *testing.T) {
	if _, set := os.LookupEnv("GOGC"); set {
		t.Skip("GOGC is set")
	}
	if !postponed {
		t.Fatal("the first collection is not postponed")
	}
	deadline := time.Now().Add(time.Minute)
	for percent() == startPercent {
		if time.Now().After(deadline) {
			t.Fatalf("GOGC is still %d after a collection", percent())
		}
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	if got := percent(); got != defaultPercent {
		t.Fatalf("GOGC is %d after the first collection, want %d", got, defaultPercent)
	}

	t.Run("another value", func(t *testing.T) {
		before := debug.SetGCPercent(50)
		defer debug.SetGCPercent(before)
		if postpone() {
			t.Error("the first collection is postponed although GOGC is set")
		}
		reset()
		if got := percent(); got != 50 {
			t.Errorf("GOGC is %d, want 50", got)
		}
	})

	t.Run("small heap", func(t *testing.T) {
		defer debug.SetGCPercent(defaultPercent)
		Postpone(64 << 20)
		if got := percent(); got <= startPercent {
			t.Errorf("GOGC is %d for a small heap", got)
		}
		// The heap grows: after the next collections, the percentage is the default.
		large := make([]byte, 40<<20)
		for percent() != defaultPercent {
			if time.Now().After(deadline) {
				t.Fatalf("GOGC is still %d for a large heap", percent())
			}
			runtime.GC()
			time.Sleep(time.Millisecond)
		}
		runtime.KeepAlive(large)
	})
}

// TestFirstCollection checks in another process, which has not collected anything, that the first collection
// begins at the size that Postpone names, also if that changes.
func TestFirstCollection(t *testing.T) {
	const variable = "ESPALIER_TEST_FIRST_COLLECTION"
	if os.Getenv(variable) == "" {
		c := exec.Command(os.Args[0], "-test.run=^TestFirstCollection$")
		c.Env = append(slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "GOGC=") }), variable+"=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	var stats runtime.MemStats
	collections := func() uint32 {
		runtime.ReadMemStats(&stats)
		return stats.NumGC
	}
	for _, least := range []uint64{32 << 20, 96 << 20} {
		Postpone(least)
		for stats.HeapAlloc < least*3/4 {
			garbage = make([]byte, 1<<20)
			if n := collections(); n > 0 {
				t.Fatalf("%d collections at a heap of %d MB, want none below %d MB", n, stats.HeapAlloc>>20, least>>20)
			}
		}
	}
	for range 96 {
		garbage = make([]byte, 1<<20)
	}
	if collections() == 0 {
		t.Errorf("no collection at a heap of %d MB", stats.HeapAlloc>>20)
	}
}

var garbage []byte

func TestTrimmer(t *testing.T) {
	t.Parallel()
	var trimmer Trimmer
	kept := make([]byte, 64<<20)
	garbage := make([]byte, 256<<20)
	for i := 0; i < len(garbage); i += 4096 {
		garbage[i] = 1 // makes the system provide the page
	}
	runtime.KeepAlive(garbage)
	runtime.GC()
	if trimmer.Trim() {
		t.Error("a process that has just allocated much is idle")
	}
	if !trimmer.Trim() {
		t.Error("256 MB of garbage are kept by an idle process")
	}
	if trimmer.Trim() {
		t.Error("there is nothing to return any more")
	}
	runtime.KeepAlive(kept)
}

// TestTrimmerGaps checks that gaps between objects, which cannot be returned, do not make an idle process
// collect garbage again and again.
func TestTrimmerGaps(t *testing.T) {
	t.Parallel()
	var trimmer Trimmer
	objects := make([]*[256]byte, 1<<20) // 256 MB
	for i := range objects {
		objects[i] = new([256]byte)
	}
	for i := range objects {
		if i%4 != 0 {
			objects[i] = nil
		}
	}
	runtime.GC()
	trimmer.Trim()
	trimmer.Trim()
	for range 2 {
		if trimmer.Trim() {
			t.Error("an idle process with gaps between its objects is trimmed again")
		}
	}
	runtime.KeepAlive(objects)
}
