package history

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The types of watch events.
const (
	Added    = "ADDED"
	Modified = "MODIFIED"
	Deleted  = "DELETED"
	Bookmark = "BOOKMARK"
	Error    = "ERROR"
)

// Event is an event of a watch.
type Event struct {
	Type string
	Key  string  `json:",omitempty"`
	Obj  *Object `json:",omitempty"`
	// Revision is that of the object or the bookmark.
	Revision int64 `json:",omitempty"`
	// InitialEnd marks the bookmark after the initial events.
	InitialEnd bool `json:",omitempty"`
	// Code and Message are those of the Status of an ERROR.
	Code    int    `json:",omitempty"`
	Message string `json:",omitempty"`
	At      time.Duration
}

// ParseEvent reads a frame of a watch.
func ParseEvent(frame []byte) (Event, error) {
	var raw struct {
		Type   string
		Object json.RawMessage
	}
	if err := json.Unmarshal(frame, &raw); err != nil {
		return Event{}, err
	}
	e := Event{Type: raw.Type}
	switch raw.Type {
	case Error:
		var status struct {
			Code    int
			Message string
		}
		err := json.Unmarshal(raw.Object, &status)
		e.Code, e.Message = status.Code, status.Message
		return e, err
	case Bookmark:
		var obj struct {
			Metadata struct {
				ResourceVersion string
				Annotations     map[string]string
			}
		}
		if err := json.Unmarshal(raw.Object, &obj); err != nil {
			return e, err
		}
		e.InitialEnd = obj.Metadata.Annotations["k8s.io/initial-events-end"] == "true"
		var err error
		e.Revision, err = strconv.ParseInt(obj.Metadata.ResourceVersion, 10, 64)
		return e, err
	}
	key, o, err := ParseObject(raw.Object)
	e.Key, e.Obj, e.Revision = key, &o, o.Revision
	return e, err
}

// Stream is one watch request and its events.
type Stream struct {
	Watcher int
	// Scope is NAMESPACE/, or empty for all namespaces.
	Scope string
	// Color is the value of the label that the watch selects, or empty.
	Color string
	// From is the resourceVersion that the watch starts at. Zero means that it starts with the
	// current objects; Initial, that a bookmark marks their end.
	From    int64
	Initial bool
	// NotBefore is the revision that the client knew to be written when it sent the request.
	NotBefore int64
	Began     time.Duration
	Events    []Event
	// End is why the stream ended.
	End string
}

// matches reports whether the stream selects the object.
func (s *Stream) matches(key string, o *Object) bool {
	return o != nil && strings.HasPrefix(key, s.Scope) && (s.Color == "" || s.Color == o.Color)
}

// expected returns the event of a change, or false if the stream has none.
func (s *Stream) expected(c Change) (Event, bool) {
	was, is := s.matches(c.Key, c.Before), s.matches(c.Key, c.After)
	e := Event{Key: c.Key, Revision: c.Revision}
	switch {
	case is && !was:
		e.Type, e.Obj = Added, c.After
	case is:
		e.Type, e.Obj = Modified, c.After
	case was:
		// The last matching state, with the revision of the change.
		last := *c.Before
		last.Revision = c.Revision
		e.Type, e.Obj = Deleted, &last
	default:
		return e, false
	}
	return e, true
}

func (e Event) equal(o Event) bool {
	return e.Type == o.Type && e.Key == o.Key && e.Revision == o.Revision && *e.Obj == *o.Obj
}

func (e Event) String() string {
	text := fmt.Sprintf("%s %s %d", e.Type, e.Key, e.Revision)
	if e.Obj != nil {
		text += fmt.Sprintf(" %+v", *e.Obj)
	}
	if e.Message != "" {
		text += " " + e.Message
	}
	return text
}

// Check compares the events of a stream with the truth, and returns the first difference.
func (s *Stream) Check(truth *Truth) error {
	at := s.From // all changes up to here have been received
	events := s.Events
	if s.From == 0 {
		n, err := s.checkInitial(truth)
		if err != nil {
			return fmt.Errorf("%w; %s", err, s.describe())
		}
		if n == len(events) {
			return nil
		}
		at, events = events[n].Revision, events[n+1:]
	}
	next := truth.IndexAt(at)
	advance := func() (Event, bool) {
		for ; next < len(truth.Changes); next++ {
			if e, ok := s.expected(truth.Changes[next]); ok {
				return e, true
			}
		}
		return Event{}, false
	}
	for i, e := range events {
		switch e.Type {
		case Error:
			continue
		case Bookmark:
			if want, ok := advance(); ok && want.Revision <= e.Revision {
				return fmt.Errorf("event %d, a bookmark for %d, comes before %s; %s", i, e.Revision, want, s.describe())
			}
			if e.Revision < at {
				return fmt.Errorf("event %d is a bookmark for %d after revision %d; %s", i, e.Revision, at, s.describe())
			}
			at = e.Revision
			next = max(next, truth.IndexAt(at))
			continue
		}
		want, ok := advance()
		if !ok {
			return fmt.Errorf("event %d, %s, is one too many; %s", i, e, s.describe())
		}
		if !e.equal(want) {
			return fmt.Errorf("event %d is %s instead of %s; %s", i, e, want, s.describe())
		}
		at = e.Revision
		next++
	}
	return nil
}

// checkInitial checks the events of a stream that starts with the current objects, up to the
// bookmark that marks their end. For each object, the first event is its state at any time,
// and the changes after it follow without a gap. It returns the number of events before the
// bookmark.
func (s *Stream) checkInitial(truth *Truth) (int, error) {
	objects := map[string]Object{}
	next := map[string]int{} // by key: the index of the first change that has not been received
	for i, e := range s.Events {
		switch e.Type {
		case Error:
			continue
		case Bookmark:
			if !e.InitialEnd {
				continue
			}
			if e.Revision < s.NotBefore {
				return 0, fmt.Errorf("the initial events end at %d, before revision %d, which was written when the watch began", e.Revision, s.NotBefore)
			}
			for key, o := range truth.State(truth.IndexAt(e.Revision)) {
				if s.matches(key, &o) && objects[key] != o {
					return 0, fmt.Errorf("at the end of the initial events, %d, %s is %+v instead of %+v", e.Revision, key, objects[key], o)
				}
				if s.matches(key, &o) {
					delete(objects, key)
				}
			}
			for key := range objects {
				return 0, fmt.Errorf("the initial events end at %d with %s, which does not match", e.Revision, key)
			}
			return i, nil
		}
		from, known := next[e.Key]
		if !known {
			o, ok := truth.State(truth.IndexAt(e.Revision))[e.Key]
			if e.Type != Added || !ok || o != *e.Obj || !s.matches(e.Key, &o) {
				return 0, fmt.Errorf("the first event of %s is %s, which it never was", e.Key, e)
			}
		} else {
			n := slices.IndexFunc(truth.Changes[from:], func(c Change) bool {
				_, ok := s.expected(c)
				return ok && c.Key == e.Key
			})
			if n < 0 {
				return 0, fmt.Errorf("event %d, %s, is one too many", i, e)
			}
			if want, _ := s.expected(truth.Changes[from+n]); !e.equal(want) {
				return 0, fmt.Errorf("event %d is %s instead of %s", i, e, want)
			}
		}
		next[e.Key] = truth.IndexAt(e.Revision)
		if e.Type == Deleted {
			delete(objects, e.Key)
		} else {
			objects[e.Key] = *e.Obj
		}
	}
	return len(s.Events), nil
}

func (s *Stream) describe() string {
	return fmt.Sprintf("watcher %d from %d (scope %q, color %q, initial events %t), began %v, ended with %q",
		s.Watcher, s.From, s.Scope, s.Color, s.Initial, s.Began.Round(time.Millisecond), s.End)
}
