//go:build !noserver

package main

import (
	"sync"
	"time"

	"espalier.dev/cmd/espalier/internal/heap"
)

// trimInterval is the time between two looks at the memory of a server.
const trimInterval = 10 * time.Second

// trimming returns unused memory to the system, until it is stopped.
type trimming struct {
	mu      sync.Mutex // held while memory is returned
	timer   *time.Timer
	stopped bool
	idle    heap.Trimmer
}

// trimSoon releases the memory that only the start of a server has needed. It does so after a
// while, because then it takes no time of the start, nor of a server that runs for less. Later, it
// releases memory that the server has needed for a while, as soon as the server is idle.
func trimSoon() *trimming {
	t := &trimming{}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(time.Second, func() {
		t.next(func() {
			heap.Trim()
			releaseProgram()
		})
	})
	return t
}

// next runs a step, and plans the next one. No step begins after Stop, and none is planned.
func (t *trimming) next(step func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return
	}
	step()
	t.timer = time.AfterFunc(trimInterval, func() { t.next(func() { t.idle.Trim() }) })
}

// Stop ends it, and waits for a step that is running.
func (t *trimming) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	t.timer.Stop()
}
