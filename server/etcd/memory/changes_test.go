package memory

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// originKey is the key of the origin in a context of these tests.
type originKey struct{}

// recorded returns the changes of a state, one on each line.
func recorded(s *State, after int64) string {
	var b strings.Builder
	for c := range s.Changes(after) {
		fmt.Fprintf(&b, "%d %s", c.Revision, c.Time.UTC().Format(time.TimeOnly))
		if c.Origin != nil {
			fmt.Fprintf(&b, " by %v", c.Origin)
		}
		if c.Expired {
			b.WriteString(" expired")
		}
		for _, e := range c.Events {
			fmt.Fprintf(&b, ", %s %s@%d -> %s@%d", e.Key, e.Before.Bytes, e.Before.Revision, e.After.Bytes, e.After.Revision)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// TestChanges checks what is recorded about each revision: the time, the origin, and the values before
// and after it.
func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		db, c := open(t, Config{Origin: func(ctx context.Context) any {
			calls++
			return ctx.Value(originKey{})
		}})
		alice := context.WithValue(t.Context(), originKey{}, "alice")
		do := func(_ any, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		do(c.Put(alice, "a", "1"))
		do(c.Put(t.Context(), "a", "2"))
		do(c.Txn(alice).If(clientv3.Compare(clientv3.Value("a"), "=", "x")).Then(clientv3.OpPut("a", "x")).Commit()) // no revision
		do(c.Txn(alice).Then(clientv3.OpPut("b", "1"), clientv3.OpDelete("a"), clientv3.OpDelete("z")).Commit())
		do(c.Txn(alice).Then(clientv3.OpPut("a", "3"), clientv3.OpPut("c", "1")).Commit())
		do(c.Delete(alice, "a", clientv3.WithRange("c")))
		lease, err := c.Grant(alice, 5)
		if err != nil {
			t.Fatal(err)
		}
		do(c.Put(alice, "d", "1", clientv3.WithLease(lease.ID)))
		time.Sleep(6 * time.Second)
		if lease, err = c.Grant(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		do(c.Put(t.Context(), "d", "2", clientv3.WithLease(lease.ID)))
		do(c.Revoke(alice, lease.ID))

		const want = `2 00:00:00 by alice, a @0 -> 1@2
3 00:00:01, a 1@2 -> 2@3
4 00:00:03 by alice, b @0 -> 1@4, a 2@3 -> @0
5 00:00:04 by alice, a @0 -> 3@5, c @0 -> 1@5
6 00:00:05 by alice, a 3@5 -> @0, b 1@4 -> @0
7 00:00:06 by alice, d @0 -> 1@7
8 00:00:11 expired, d 1@7 -> @0
9 00:00:13, d @0 -> 2@9
10 00:00:14 by alice, d 2@9 -> @0
`
		if calls != 8 {
			t.Errorf("the origin of 8 writes was asked for %d times", calls)
		}
		s := db.State()
		if got := recorded(s, 0); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		if got := recorded(s, 8); got != want[strings.Index(want, "9 0"):] {
			t.Errorf("after revision 8: got\n%s", got)
		}
		if got := recorded(s, 10); got != "" || s.Begin() != 0 || !s.BeginTime().IsZero() {
			t.Errorf("after the last revision: got %q, and the changes begin at %d", got, s.Begin())
		}
		for range s.Changes(0) {
			break
		}
		// A copy has the history of the original, and its own.
		fork, d := open(t, Config{State: s})
		do(d.Put(alice, "e", "1"))
		if got := recorded(fork.State(), 0); got != want+"11 00:00:15, e @0 -> 1@11\n" {
			t.Errorf("a copy: got\n%s", got)
		}
		// A compaction removes what was before.
		do(c.Compact(t.Context(), 4))
		if got, begin := recorded(db.State(), 0), db.State().Begin(); begin != 4 || got != want[strings.Index(want, "5 00:00:04"):] {
			t.Errorf("after a compaction, the changes begin at %d: got\n%s", begin, got)
		}
		if at := db.State().BeginTime().UTC().Format(time.TimeOnly); at != "00:00:03" {
			t.Errorf("after a compaction, the changes begin at %s", at)
		}
		later, _ := open(t, Config{Revision: 1000})
		if begin := later.State().Begin(); begin != 0 {
			t.Errorf("the changes of an empty DB begin at %d", begin)
		}
	})
}
