//go:build !noserver

package main

import (
	"time"

	"espalier.dev/cmd/espalier/internal/heap"
)

// trimSoon releases the memory that only the start of a server has needed. It does so after a
// while, because then it takes no time of the start, nor of a server that runs for less.
func trimSoon() *time.Timer {
	return time.AfterFunc(time.Second, func() {
		heap.Trim()
		releaseProgram()
	})
}
