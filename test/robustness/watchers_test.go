package robustness

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"espalier.dev/test/robustness/internal/history"
)

// endPrefix is that of the names of the last objects, by which watchers know that they have
// received everything.
const endPrefix = "end-"

// watcher watches things in one way, and starts again whenever the watch ends.
type watcher struct {
	*client
	*recorder
	id   int
	rand *rand.Rand
	// scope and color are as in history.Stream.
	scope, color string
	version      string
	streams      []*history.Stream
	finished     bool
}

// run watches until the last object is received, or until the context ends. While calm
// returns true the window of events holds everything recent, so it is an error if the server
// has lost it.
func (w *watcher) run(ctx context.Context, calm func() bool) (problems []string) {
	var from int64
	for ctx.Err() == nil && !w.finished {
		before := calm()
		s := w.watch(ctx, from)
		w.streams = append(w.streams, s)
		from = w.resume(s, from)
		if code := failure(s); code == http.StatusGone {
			if before && calm() {
				problems = append(problems, fmt.Sprintf("watcher %d cannot resume from %d: %s", w.id, s.From, s.End))
			}
			from = 0
		} else if code != 0 || len(s.Events) == 0 {
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	return problems
}

// resume returns the revision of the next watch: mostly the last of this one, or any that it
// has returned.
func (w *watcher) resume(s *history.Stream, from int64) int64 {
	// Before the end of the initial events nothing says which objects are missing.
	var revisions []int64
	complete := s.From != 0
	for _, e := range s.Events {
		complete = complete || e.InitialEnd
		if complete && e.Type != history.Error {
			revisions = append(revisions, e.Revision)
		}
	}
	if len(revisions) == 0 {
		return from
	}
	switch w.rand.IntN(6) {
	case 0:
		return 0
	case 1:
		return pick(w.rand, revisions[max(0, len(revisions)-30):])
	}
	return revisions[len(revisions)-1]
}

// failure returns the code of the error that ended a stream, or zero.
func failure(s *history.Stream) int {
	if n := len(s.Events); n > 0 && s.Events[n-1].Type == history.Error {
		return s.Events[n-1].Code
	}
	return 0
}

// watch sends one watch request and reads its events for a while.
func (w *watcher) watch(ctx context.Context, from int64) *history.Stream {
	// An idle stream is closed by its client, which notices lost connections so.
	ctx, cancel := context.WithTimeout(ctx, time.Duration(500+w.rand.IntN(4000))*time.Millisecond)
	defer cancel()
	s := &history.Stream{
		Watcher: w.id, Scope: w.scope, Color: w.color, From: from, Initial: from == 0,
		NotBefore: w.revision(), Began: w.now(),
	}
	query := url.Values{"watch": {"true"}, "allowWatchBookmarks": {"true"}}
	if w.color != "" {
		query.Set("labelSelector", "color="+w.color)
	}
	switch {
	case from != 0:
		query.Set("resourceVersion", strconv.FormatInt(from, 10))
	default:
		query.Set("sendInitialEvents", "true")
		query.Set("resourceVersionMatch", "NotOlderThan")
	}
	resp, err := w.open(ctx, http.MethodGet, collection(w.version, w.scope)+"?"+query.Encode(), "", nil)
	if err != nil {
		s.End = err.Error()
		return s
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body) // the code says enough
		a := answer{resp.StatusCode, body}
		s.End = a.String()
		s.Events = append(s.Events, history.Event{Type: history.Error, Code: a.code, Message: a.status().Message, At: w.now()})
		return s
	}
	s.End = w.read(resp.Body, s)
	return s
}

// read reads events and returns why it stopped.
func (w *watcher) read(body io.Reader, s *history.Stream) string {
	lines := bufio.NewReaderSize(body, 64<<10)
	last, complete := false, s.From != 0
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return err.Error() // half a line is no event
		}
		e, err := history.ParseEvent(line)
		if err != nil {
			return fmt.Sprintf("%v in %s", err, line)
		}
		e.At = w.now()
		s.Events = append(s.Events, e)
		if e.Type == history.Error {
			return "ERROR " + e.Message
		}
		_, name := split(e.Key)
		last = last || strings.HasPrefix(name, endPrefix)
		complete = complete || e.InitialEnd
		if last && complete {
			w.finished = true
			return "finished"
		}
	}
}
