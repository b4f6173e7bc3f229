package store

import (
	"fmt"
	"slices"
	"sort"
)

// Event is a change of one key.
type Event struct {
	// Revision is the revision of the change. Events of one transaction have the same.
	Revision int64
	// Entry is the new entry, or nil if the key was deleted.
	Entry *Entry
	// Old is the entry before, or nil if the key did not exist.
	Old *Entry
}

// Key returns the key that changed.
func (e *Event) Key() string {
	if e.Entry != nil {
		return e.Entry.Key
	}
	return e.Old.Key
}

// size is the memory that the event keeps alive.
func (e *Event) size() int64 {
	const overhead = 256 // of the structs and of the key
	if e.Old == nil {
		return overhead
	}
	return overhead + int64(len(e.Old.Value))
}

// ExpiredError is returned for a revision whose events or state are no longer available.
type ExpiredError struct {
	// Revision is the requested revision, Oldest the oldest that is available, or zero if it
	// is not known.
	Revision, Oldest int64
}

func (e *ExpiredError) Error() string {
	if e.Oldest == 0 {
		return fmt.Sprintf("revision %d is no longer available", e.Revision)
	}
	return fmt.Sprintf("revision %d is no longer available: the oldest is %d", e.Revision, e.Oldest)
}

// window holds the latest events.
type window struct {
	maxEvents int
	maxBytes  int64
	events    []*Event // from first on, in the order of their revisions
	first     int
	bytes     int64
	// released is the size of the events that were removed since it was set to zero.
	released int64
	// oldest is the revision after which all events are in the window.
	oldest int64
	// shared is set if another window has the same array, see share.
	shared bool
}

// share returns a window with the same events. Both leave them in the array as they are.
func (w *window) share() window {
	w.shared = true
	out := *w
	out.events = slices.Clip(w.events)
	return out
}

// restart empties the window: it holds all events after a revision.
func (w *window) restart(revision int64) {
	w.events, w.first, w.bytes, w.oldest, w.shared = nil, 0, 0, revision, false
}

func (w *window) add(e *Event) {
	w.events = append(w.events, e)
	w.bytes += e.size()
}

// trim removes the oldest events that are too many. All events of a revision go together, and
// those of the newest stay.
func (w *window) trim() {
	for len(w.events)-w.first > w.maxEvents || w.bytes > w.maxBytes {
		revision := w.events[w.first].Revision
		if revision == w.events[len(w.events)-1].Revision {
			break
		}
		if w.shared {
			w.events, w.first, w.shared = slices.Clone(w.events[w.first:]), 0, false
		}
		for w.events[w.first].Revision == revision {
			w.bytes -= w.events[w.first].size()
			w.released += w.events[w.first].size()
			w.events[w.first] = nil
			w.first++
		}
		w.oldest = revision
	}
	if w.first > len(w.events)/2 {
		w.events = append([]*Event(nil), w.events[w.first:]...)
		w.first, w.shared = 0, false
	}
}

// after returns the events after a revision.
func (w *window) after(revision int64) []*Event {
	events := w.events[w.first:]
	i := sort.Search(len(events), func(i int) bool { return events[i].Revision > revision })
	return events[i:]
}
