package lsp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// scheduler runs Session.Diagnose after changes, and publishes what has changed. Its loop is one
// goroutine, which starts at most one other one, for the run, and waits for it.
type scheduler struct {
	s *server
	// wake has an element if there is something new for the loop.
	wake chan struct{}

	mu sync.Mutex
	// docs are the documents of the last change.
	docs *Documents
	// first and last are the times of the first and the last change since the last run was started.
	// first is zero if there is none.
	first, last time.Time
	// since is the time of the oldest change that no finished run has seen.
	since time.Time
	// closed are documents that were closed after the last run that has finished.
	closed map[URI]bool
	down   bool

	// published is what the client shows. Only the run uses it, under publishing.
	publishing sync.Mutex
	published  map[URI]published
}

// published are the diagnostics of a document.
type published struct {
	version     *int
	diagnostics []byte
}

func newScheduler(s *server) *scheduler {
	return &scheduler{s: s, wake: make(chan struct{}, 1), docs: &Documents{}, closed: map[URI]bool{}, published: map[URI]published{}}
}

// kick schedules a run after a change. The documents are those of the last change if docs is nil.
func (d *scheduler) kick(docs *Documents, closed URI) {
	now := time.Now()
	d.mu.Lock()
	if docs != nil {
		d.docs = docs
	}
	if closed != "" {
		d.closed[closed] = true
	}
	d.last = now
	if d.first.IsZero() {
		d.first = now
	}
	if d.since.IsZero() {
		d.since = now
	}
	d.mu.Unlock()
	d.signal()
}

// shutdown ends the current run and starts no other one.
func (d *scheduler) shutdown() {
	d.mu.Lock()
	d.down = true
	d.mu.Unlock()
	d.signal()
}

func (d *scheduler) signal() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// loop waits for changes and runs diagnostics until the session ends.
func (d *scheduler) loop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait, ok := d.due()
		if ok && wait <= 0 {
			d.run()
			continue
		}
		if !ok {
			wait = time.Hour
		}
		timer.Reset(wait)
		select {
		case <-d.s.ctx.Done():
			return
		case <-d.wake:
		case <-timer.C:
		}
	}
}

// due returns the time until the next run, and whether there is one.
func (d *scheduler) due() (time.Duration, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.first.IsZero() || d.down || d.s.ctx.Err() != nil {
		return 0, false
	}
	at := d.last.Add(d.s.options.Pause)
	if latest := d.first.Add(d.s.options.MaxPause); latest.Before(at) {
		at = latest
	}
	return time.Until(at), true
}

// outdated reports whether the current run has to be canceled: after a change, unless changes have
// canceled runs for so long that one has to finish, and after the shutdown.
func (d *scheduler) outdated() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.down || !d.first.IsZero() && time.Since(d.since) < d.s.options.MaxCanceled
}

// run calls Diagnose, and returns when it has returned.
func (d *scheduler) run() {
	ctx, cancel := context.WithCancel(d.s.ctx)
	defer cancel()
	d.mu.Lock()
	docs, closed := d.docs, d.closed
	d.first, d.closed = time.Time{}, map[URI]bool{}
	d.mu.Unlock()

	seen := map[URI]bool{}
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = fmt.Errorf("panic")
		d.s.recovered("diagnostics", func() {
			err = d.s.session.Diagnose(ctx, docs, func(uri URI, found []Diagnostic) {
				d.publishing.Lock()
				defer d.publishing.Unlock()
				if ctx.Err() == nil {
					seen[uri] = true
					d.publish(docs, uri, found)
				}
			})
		})
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		case <-d.wake:
			if d.outdated() {
				cancel()
			}
		}
	}

	d.publishing.Lock()
	defer d.publishing.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if ctx.Err() != nil {
		maps.Copy(d.closed, closed)
		return
	}
	cancel()
	d.since = d.first
	if err != nil {
		d.s.client.LogMessage(MessageError, fmt.Sprintf("diagnostics: %v", err))
	}
	for _, uri := range slices.Sorted(maps.Keys(d.published)) {
		if !seen[uri] && (err == nil || closed[uri]) {
			d.publish(docs, uri, nil)
		}
	}
}

// publish sends the diagnostics of a document if the client shows others, or the same ones for
// another version: some clients discard those of earlier versions. The caller holds publishing.
func (d *scheduler) publish(docs *Documents, uri URI, found []Diagnostic) {
	p := &PublishDiagnosticsParams{URI: uri, Diagnostics: found}
	if text := docs.Get(uri); text != nil {
		version := text.Version()
		p.Version = &version
	}
	var now published
	if len(found) > 0 {
		data, err := json.Marshal(found)
		if err != nil {
			d.s.client.LogMessage(MessageError, fmt.Sprintf("diagnostics of %s: %v", uri, err))
			return
		}
		now = published{p.Version, data}
	}
	before := d.published[uri]
	if bytes.Equal(before.diagnostics, now.diagnostics) && equal(before.version, now.version) {
		return
	}
	if len(found) > 0 {
		d.published[uri] = now
	} else {
		delete(d.published, uri)
	}
	d.s.client.PublishDiagnostics(p)
}

// equal reports whether two versions are the same.
func equal(a, b *int) bool {
	return a == b || a != nil && b != nil && *a == *b
}
