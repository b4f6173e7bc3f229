// Package heap decides when a starting process collects garbage.
//
// The first collections of a Go program begin at a heap of 4 MB. This program has that before
// main, because it contains Kubernetes' types and etcd, and a server reaches 20 MB before it is
// ready. Almost all of this stays in use, so collections would find little and take a fifth of
// the CPU time of a start.
package heap

import (
	"runtime"
	"runtime/debug"
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

// Trim collects garbage, and returns unused memory to the system. It is for servers that have
// started: what only the start needed would stay in memory.
func Trim() { debug.FreeOSMemory() }
