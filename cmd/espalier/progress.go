package main

import (
	"fmt"
	"time"
)

// progressAfter is how long something may take before it says how far it is.
const progressAfter = time.Second

// progress tells somebody at a terminal that something is going on.
type progress struct {
	a       *app
	what    string
	on      bool
	count   int
	next    time.Time
	written bool
}

func (a *app) newProgress(what string) *progress {
	return &progress{a: a, what: what, on: isTerminal(a.stderr), next: time.Now().Add(progressAfter)}
}

// add counts one more.
func (p *progress) add() {
	p.count++
	if !p.on || p.count%64 != 0 {
		return
	}
	if now := time.Now(); now.After(p.next) {
		p.next = now.Add(progressAfter / 5)
		fmt.Fprintf(p.a.stderr, "\r%d %s", p.count, p.what)
		p.written = true
	}
}

// clear takes the line away if something else is to be written.
func (p *progress) clear(needed bool) {
	if needed && p.written {
		fmt.Fprint(p.a.stderr, "\r\x1b[K")
		p.written = false
	}
}

func (p *progress) stop() { p.clear(true) }
