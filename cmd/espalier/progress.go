package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progressAfter is the time after which a command starts to show its progress.
const progressAfter = time.Second

// progress shows on a terminal how many items a command has processed. It is safe for
// concurrent use.
type progress struct {
	w       io.Writer
	mu      sync.Mutex
	what    string
	count   int
	next    time.Time
	written bool
	// rendered counts what programs render, while items are counted.
	rendered map[string]int
}

// newProgress returns a progress, or nil if standard error is no terminal or shows no progress.
func (a *app) newProgress(quiet bool) *progress {
	if quiet || a.inCI() || !isTerminal(a.stderr) {
		return nil
	}
	return &progress{w: a.stderr, next: time.Now().Add(progressAfter)}
}

// inCI reports whether the program runs in a CI system, some of which provide a terminal: its
// log would keep each state of a line that is overwritten.
func (a *app) inCI() bool {
	ci, _ := a.environ("CI")
	return ci != "" && ci != "false"
}

// Count counts one more item. Items of another kind are counted from 1 again.
func (p *progress) Count(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if what != p.what {
		p.what, p.count = what, 0
	}
	p.count++
	p.show(p.count, p.what)
}

// Rendered counts one more chart or kustomization.
func (p *progress) Rendered(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rendered == nil {
		p.rendered = map[string]int{}
	}
	p.rendered[what]++
	p.show(p.rendered[what], what+" rendered")
}

// show writes the progress, unless it was written just before.
func (p *progress) show(n int, what string) {
	if now := time.Now(); now.After(p.next) {
		p.next = now.Add(progressAfter / 5)
		fmt.Fprintf(p.w, "\r%d %s\x1b[K", n, what)
		p.written = true
	}
}

// Clear erases the progress before other output.
func (p *progress) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.written {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.written = false
	}
}
