package main

import (
	"fmt"
	"time"
)

// progressAfter is the time after which a command starts to show its progress.
const progressAfter = time.Second

// progress shows the progress of a command on a terminal.
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

// add counts one more item.
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

// clear erases the line, if needed, before other output.
func (p *progress) clear(needed bool) {
	if needed && p.written {
		fmt.Fprint(p.a.stderr, "\r\x1b[K")
		p.written = false
	}
}

func (p *progress) stop() { p.clear(true) }
