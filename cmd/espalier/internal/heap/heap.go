// Package heap decides when a process collects garbage.
//
// The first collections of a Go program begin at a heap of 4 MB. This program has that before
// main, because it contains Kubernetes' types and etcd, and a server reaches 20 MB before it is
// ready. Almost all of this stays in use, so collections would find little and take a fifth of
// the CPU time of a start.
package heap

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

const (
	// defaultPercent is the default of GOGC.
	defaultPercent = 100
	// startPercent is the value of GOGC until the first collection, which then begins at a heap
	// of 32 MB.
	startPercent = 800
)

// postponed reports whether the first collection is postponed: not if GOGC is set. The value is
// determined here, not in main, because other packages are initialized before main. This one
// needs few others, so it is early.
var postponed = postpone()

func postpone() bool {
	if percent := debug.SetGCPercent(startPercent); percent != defaultPercent {
		debug.SetGCPercent(percent)
		return false
	}
	// The object is garbage from the start, so the first collection finds it.
	runtime.AddCleanup(new([64]byte), func(int) { reset() }, 0)
	return true
}

// reset sets the default, unless the program has set another value.
func reset() {
	if percent := debug.SetGCPercent(defaultPercent); percent != startPercent {
		debug.SetGCPercent(percent)
	}
}

// Postpone postpones collections until the heap has the given size, and above it lets them begin
// at twice what is in use, as usual: a percentage alone would either collect often while there is
// little to collect, or use a multiple of what a large heap needs. GOGC in the environment takes
// precedence.
//
// A later call can change the size, when more is known about what the command needs.
func Postpone(least uint64) {
	if !postponed {
		return
	}
	if smallest.Swap(least) == 0 {
		adapt(struct{}{})
	} else {
		setPercent(least)
	}
}

// smallest is the argument of the last call of Postpone.
var smallest atomic.Uint64

// adapt sets the size of the heap at which the next collection begins, and does it again after
// each collection.
func adapt(struct{}) {
	// The first collection ends with more than it began with. Later ones begin earlier, because the
	// runtime then knows how much is allocated meanwhile.
	least := smallest.Load()
	setPercent(least + least/16)
	// The object is garbage from the start, so the next collection finds it.
	runtime.AddCleanup(new([64]byte), adapt, struct{}{})
}

// minimumHeap is the size of the heap at which the first collection begins if GOGC is 100.
const minimumHeap = 4 << 20

// setPercent lets the next collection begin at a heap of the given size, or at twice what is in use.
func setPercent(least uint64) {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/globals:bytes"}, {Name: "/gc/scan/stack:bytes"}}
	metrics.Read(sample)
	live, roots := sample[0].Value.Uint64(), sample[1].Value.Uint64()+sample[2].Value.Uint64()
	percent := uint64(defaultPercent)
	if live == 0 {
		// Nothing has been collected yet: what is in use is unknown, and a percentage of it does not count.
		percent = least * 100 / max(minimumHeap, roots)
	} else if live < least/2 {
		percent = (least - live) * 100 / max(live+roots, least/20)
	}
	debug.SetGCPercent(int(percent))
}

// Trim collects garbage, and returns unused memory to the system. It is for servers that have
// started: what only the start needed would stay in memory.
func Trim() { debug.FreeOSMemory() }

// Trimmer returns memory to the system that a process has needed for a while and does not need any
// more. After a collection, the runtime keeps as much as until the next one may be needed, which a
// process that does little reaches late or never. The zero value is ready. One goroutine at a time
// may use it.
type Trimmer struct {
	allocated uint64 // up to the last call
}

const (
	// The process is idle if it has allocated less than this part of its live heap since the last
	// call.
	idlePart = 20
	// Memory is returned if there is more than a part of the live heap of it, and this much.
	unusedPart  = 4
	unusedBytes = 32 << 20
)

// Trim returns memory to the system if the process has been idle since the last call, and holds much
// more than is in use. It reports whether it has.
func (t *Trimmer) Trim() bool {
	sample := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(sample)
	value := func(i int) uint64 { return sample[i].Value.Uint64() }
	// Gaps between objects are not counted: they cannot be returned.
	live, held := value(1), value(2)+value(3)
	idle := value(0)-t.allocated < live/idlePart
	t.allocated = value(0)
	if !idle || held < live+live/unusedPart+unusedBytes {
		return false
	}
	Trim()
	return true
}
