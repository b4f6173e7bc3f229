package espaliertest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"espalier.dev/analysis/timeline"
	"espalier.dev/server"
)

// Change is a change of a stored object: see [Server.History].
type Change = timeline.Change

// HistoryFilter selects changes for [Server.History]. The zero value selects all.
type HistoryFilter = timeline.Filter

// History returns the changes of stored objects up to now, oldest first, that one of the filters
// selects, or all if there are none. A change has its revision and time, the user and the verb of the
// request or the controller of the server that has made it, and the object before and after it.
// [Change.Diff] returns the fields that have changed. The first changes are those of the start of the
// server, or after the fork if it is one: a filter with From or Since also selects earlier changes.
//
// The test fails if the server records no history, because it keeps its objects in etcd, or if
// the filters select changes that were compacted: give each filter a later Since, such as the time
// when the test began, or a later From. A server compacts changes that are older than five to ten
// minutes, but not in a bubble of testing/synctest, and the older half of the history if it has more
// than 256 MiB. With WithFlags("--history=all"), these are 4 GiB, and the time does not matter.
func (s *Server) History(t testing.TB, filters ...HistoryFilter) iter.Seq[*Change] {
	t.Helper()
	changes, err := s.Changes(filters...)
	if err != nil {
		t.Fatal(err)
	}
	return changes
}

// Changes is [Server.History] outside of a test: it returns an error.
func (s *Server) Changes(filters ...HistoryFilter) (iter.Seq[*Change], error) {
	h, err := s.history()
	filters = s.sinceFork(filters)
	if err == nil {
		err = complete(h.Begin(), h.BeginTime(), filters)
	}
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return h.Changes(context.Background(), 0, filters...), nil
}

// sinceFork returns filters that select only changes after the fork, unless they have a beginning.
func (s *Server) sinceFork(filters []HistoryFilter) []HistoryFilter {
	if s.forked == 0 {
		return filters
	}
	if len(filters) == 0 {
		return []HistoryFilter{{From: s.forked + 1}}
	}
	filters = slices.Clone(filters)
	for i := range filters {
		if f := &filters[i]; f.From == 0 && f.Since.IsZero() {
			f.From = s.forked + 1
		}
	}
	return filters
}

// history returns the history of the server.
func (s *Server) history() (*server.History, error) {
	h, err := s.server.History()
	if errors.Is(err, server.ErrNoHistory) {
		err = errors.New("the server keeps its objects in etcd and records none: start it without WithEtcd and without flags that select etcd")
	}
	return h, err
}

// complete returns an error if filters select changes up to a revision that was compacted, and its
// time; zero means that none was.
func complete(compacted int64, at time.Time, filters []HistoryFilter) error {
	if compacted == 0 {
		return nil
	}
	incomplete := len(filters) == 0
	for _, f := range filters {
		incomplete = incomplete || f.From <= compacted && !f.Since.After(at)
	}
	if !incomplete {
		return nil
	}
	return fmt.Errorf("it begins after revision %d of %s, because earlier changes were compacted: select later ones with Since, "+
		`such as the time when the test began, or with From, or start the server with WithFlags("--history=all"), which keeps 4 GiB`,
		compacted, at.UTC().Format(time.RFC3339Nano))
}
