package history

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// object returns an object of the tests.
func object(revision int64, value, color string) *Object {
	return &Object{Revision: revision, Value: value, UID: "u-" + value[:1], Color: color, Digest: value}
}

// example is a history: a/x is created, changed to another color, and deleted; b/y is created
// in between and changed afterwards.
func example() *Truth {
	x1, x2, y1, y2 := object(11, "x1", "red"), object(14, "x2", "blue"), object(13, "y1", "red"), object(17, "y2", "red")
	t := &Truth{initial: map[string]Object{}, Changes: []Change{
		{Revision: 11, Key: "a/x", After: x1, At: 1},
		{Revision: 13, Key: "b/y", After: y1, At: 2},
		{Revision: 14, Key: "a/x", Before: x1, After: x2, At: 3},
		{Revision: 16, Key: "a/x", Before: x2, At: 4},
		{Revision: 17, Key: "b/y", Before: y1, After: y2, At: 5},
	}}
	t.build()
	return t
}

// writes are the acknowledged requests that made the example.
func writes() []*Operation {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	return []*Operation{
		{Kind: Create, Key: "a/x", Value: "x1", Call: ms(0), Return: ms(10), Outcome: OK, Object: object(11, "x1", "red")},
		{Kind: Create, Key: "b/y", Value: "y1", Call: ms(10), Return: ms(20), Outcome: OK, Object: object(13, "y1", "red")},
		{Kind: Update, Key: "a/x", Value: "x2", Precondition: 11, Call: ms(20), Return: ms(30), Outcome: OK, Object: object(14, "x2", "blue")},
		{Kind: Delete, Key: "a/x", Call: ms(30), Return: ms(40), Outcome: OK, Object: &Object{UID: "u-x"}},
		{Kind: Apply, Key: "b/y", Value: "y2", Call: ms(40), Return: ms(50), Outcome: OK, Object: object(17, "y2", "red")},
	}
}

func TestLinearizable(t *testing.T) {
	get := func(call, end int, key string, o *Object) *Operation {
		op := &Operation{Client: 9, Kind: Get, Key: key, Call: time.Duration(call) * time.Millisecond, Return: time.Duration(end) * time.Millisecond, Outcome: Absent}
		if o != nil {
			op.Outcome, op.Object = OK, o
		}
		return op
	}
	list := func(call, end int, revision int64, items map[string]Object) *Operation {
		op := get(call, end, "", nil)
		op.Kind, op.Outcome, op.Revision, op.Items = List, OK, revision, items
		return op
	}
	for _, c := range []struct {
		name string
		// change changes the operations.
		change func([]*Operation) []*Operation
		want   string // in a problem; empty if there is none
	}{
		{"as it was", func(ops []*Operation) []*Operation { return ops }, ""},
		{"concurrent reads", func(ops []*Operation) []*Operation {
			return append(ops, get(25, 35, "a/x", object(11, "x1", "red")), get(25, 35, "a/x", object(14, "x2", "blue")), get(31, 32, "a/x", nil))
		}, ""},
		{"an old read", func(ops []*Operation) []*Operation {
			return append(ops, get(31, 32, "a/x", object(11, "x1", "red")))
		}, "not linearizable"},
		{"an object that is not found after its creation", func(ops []*Operation) []*Operation {
			return append(ops, get(11, 12, "a/x", nil))
		}, "not linearizable"},
		{"an old list", func(ops []*Operation) []*Operation {
			return append(ops, list(21, 22, 12, map[string]Object{"a/x": *object(11, "x1", "red")}))
		}, "not linearizable"},
		{"a list that lacks an object", func(ops []*Operation) []*Operation {
			return append(ops, list(21, 22, 13, map[string]Object{"a/x": *object(11, "x1", "red")}))
		}, "the list lacks b/y"},
		{"a list with too many objects", func(ops []*Operation) []*Operation {
			return append(ops, list(41, 60, 16, map[string]Object{"a/x": *object(14, "x2", "blue"), "b/y": *object(13, "y1", "red")}))
		}, "2 objects instead of 1"},
		{"a conflict without a reason", func(ops []*Operation) []*Operation {
			return append(ops, &Operation{Kind: Update, Key: "b/y", Value: "y3", Precondition: 13, Call: 21, Return: 22, Outcome: Conflict},
				&Operation{Kind: Update, Key: "b/y", Value: "y3", Precondition: 17, Call: time.Second, Return: time.Minute, Outcome: Conflict})
		}, "not linearizable"},
		{"two updates of one revision", func(ops []*Operation) []*Operation {
			ops[4].Kind, ops[4].Precondition = Update, 11
			return ops
		}, "not linearizable"},
		{"an unanswered write that took effect", func(ops []*Operation) []*Operation {
			ops[2].Outcome, ops[2].Object, ops[2].Return = Unknown, nil, ops[2].Call
			return ops
		}, ""},
		{"an unanswered write that took no effect", func(ops []*Operation) []*Operation {
			return append(ops, &Operation{Kind: Create, Key: "a/x", Value: "x9", Outcome: Unknown})
		}, ""},
		{"an unanswered deletion", func(ops []*Operation) []*Operation {
			ops[3].Outcome, ops[3].Object, ops[3].Call = Unknown, nil, 0
			return ops
		}, ""},
		{"an unanswered deletion with another precondition", func(ops []*Operation) []*Operation {
			ops[3].Outcome, ops[3].Object, ops[3].Call, ops[3].Precondition = Unknown, nil, 0, 11
			return ops
		}, "no request made the change of a/x"},
		{"a failed write that took effect", func(ops []*Operation) []*Operation {
			ops[2].Outcome, ops[2].Object = Conflict, nil
			return ops
		}, "the effect of a failed request"},
		{"an acknowledged write that is lost", func(ops []*Operation) []*Operation {
			return append(ops, &Operation{Kind: Create, Key: "a/z", Value: "z1", Outcome: OK, Object: object(18, "z1", "")})
		}, "an acknowledged write is not in etcd"},
		{"a response with another revision", func(ops []*Operation) []*Operation {
			ops[0].Object.Revision++
			return ops
		}, "the response differs"},
		{"a write without a request", func(ops []*Operation) []*Operation { return ops[1:] }, "no request made the change"},
		{"stale reads", func(ops []*Operation) []*Operation {
			a, b := get(50, 51, "a/x", object(14, "x2", "blue")), get(52, 53, "b/y", object(13, "y1", "red"))
			a.Stale, b.Stale = true, true
			return append(ops, a, b)
		}, ""},
		{"stale reads that go back", func(ops []*Operation) []*Operation {
			a, b := get(50, 51, "b/y", object(17, "y2", "red")), get(52, 53, "a/x", object(14, "x2", "blue"))
			a.Stale, b.Stale = true, true
			return append(ops, a, b)
		}, "goes back in time"},
	} {
		t.Run(c.name, func(t *testing.T) {
			truth, ops := example(), c.change(writes())
			problems, _ := CheckLinearizable(truth, ops)
			problems = append(problems, CheckReads(truth, ops)...)
			if c.want == "" && len(problems) > 0 {
				t.Errorf("problems: %q", problems)
			}
			if c.want != "" && !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, c.want) }) {
				t.Errorf("no problem %q: %q", c.want, problems)
			}
		})
	}
}

func TestStream(t *testing.T) {
	event := func(kind, key string, o *Object) Event {
		return Event{Type: kind, Key: key, Obj: o, Revision: o.Revision}
	}
	bookmark := func(revision int64, initial bool) Event {
		return Event{Type: Bookmark, Revision: revision, InitialEnd: initial}
	}
	addX, changeX, deleteX := event(Added, "a/x", object(11, "x1", "red")), event(Modified, "a/x", object(14, "x2", "blue")), event(Deleted, "a/x", object(16, "x2", "blue"))
	addY, changeY := event(Added, "b/y", object(13, "y1", "red")), event(Modified, "b/y", object(17, "y2", "red"))
	for _, c := range []struct {
		name   string
		stream Stream
		events []Event
		want   string
	}{
		{"all", Stream{From: 10}, []Event{addX, addY, changeX, deleteX, changeY}, ""},
		{"the first ones", Stream{From: 10}, []Event{addX, addY}, ""},
		{"from the middle", Stream{From: 13}, []Event{changeX, deleteX, changeY}, ""},
		{"a namespace", Stream{From: 10, Scope: "a/"}, []Event{addX, changeX, deleteX}, ""},
		{"a label that changes", Stream{From: 10, Color: "red"}, []Event{addX, addY, event(Deleted, "a/x", object(14, "x1", "red")), changeY}, ""},
		{"a label that appears", Stream{From: 10, Color: "blue"}, []Event{event(Added, "a/x", object(14, "x2", "blue")), deleteX}, ""},
		{"bookmarks", Stream{From: 10}, []Event{bookmark(10, false), addX, bookmark(12, false), addY}, ""},
		{"an initial state", Stream{Initial: true}, []Event{addX, addY, bookmark(13, true), changeX, deleteX}, ""},
		{"an initial state that changes", Stream{Initial: true}, []Event{addX, addY, changeX, bookmark(15, true), deleteX}, ""},
		{"without an end of the initial state", Stream{Initial: true}, []Event{addX, addY, changeX}, ""},

		{"lost", Stream{From: 10}, []Event{addX, changeX}, "instead of"},
		{"twice", Stream{From: 10}, []Event{addX, addX}, "instead of"},
		{"out of order", Stream{From: 10}, []Event{addY, addX}, "instead of"},
		{"another type", Stream{From: 10}, []Event{event(Modified, "a/x", object(11, "x1", "red"))}, "instead of"},
		{"another content", Stream{From: 10}, []Event{event(Added, "a/x", object(11, "x2", "red"))}, "instead of"},
		{"repeated after a resume", Stream{From: 11}, []Event{addX}, "instead of"},
		{"another namespace", Stream{From: 10, Scope: "b/"}, []Event{addX}, "instead of"},
		{"too many", Stream{From: 17}, []Event{changeY}, "one too many"},
		{"a bookmark too early", Stream{From: 10}, []Event{addX, bookmark(13, false)}, "comes before"},
		{"a bookmark that goes back", Stream{From: 10}, []Event{addX, addY, bookmark(12, false)}, "after revision 13"},
		{"an initial state that lacks an object", Stream{Initial: true}, []Event{addX, bookmark(13, true)}, "at the end of the initial events"},
		{"an initial state with a deleted object", Stream{Initial: true}, []Event{event(Added, "a/x", object(14, "x2", "blue")), addY, bookmark(16, true)}, "does not match"},
		{"an old initial state", Stream{Initial: true, NotBefore: 14}, []Event{addX, addY, bookmark(13, true)}, "before revision 14"},
		{"a gap in the initial events", Stream{Initial: true}, []Event{addX, deleteX}, "instead of"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.stream
			s.Events = c.events
			err := s.Check(example())
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("no error %q: %v", c.want, err)
			}
		})
	}
}
