package faults

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestValidate checks the errors of rules, which say what to do.
func TestValidate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rule Rule
		want string
	}{
		{Rule{}, `unknown fault "": use a constant`},
		{Rule{Fault: "Flood"}, `unknown fault "Flood"`},
		{Rule{Fault: Conflict, Verbs: []string{"create"}}, `Conflict: the verb "create" is not one that the fault applies to: use update, patch`},
		{Rule{Fault: HoldEvents, Verbs: []string{"list"}}, `the verb "list"`},
		{Rule{Fault: Conflict, First: 1, Nth: 1}, "exclude each other"},
		{Rule{Fault: Conflict, First: -1}, "must not be negative"},
		{Rule{Fault: StaleRead, Behind: -1}, "must not be negative"},
		{Rule{Fault: Conflict, Probability: 1.1}, "between 0 and 1"},
		{Rule{Fault: Conflict, Probability: math.NaN()}, "between 0 and 1"},
		{Rule{Fault: TooManyRequests, RetryAfter: time.Millisecond}, "whole number of seconds"},
		{Rule{Fault: Conflict, RetryAfter: time.Second}, "retryAfter has no effect"},
		{Rule{Fault: Conflict, Delay: time.Second}, "delay has no effect"},
		{Rule{Fault: Conflict, After: 1}, "after has no effect"},
		{Rule{Fault: Conflict, Behind: 1}, "behind has no effect"},
		{Rule{Fault: Delay}, "delay is required"},
		{Rule{Fault: Conflict, Resource: "pods/status/x"}, "resource.group/subresource"},
	} {
		if err := test.rule.Validate(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: got %v, want %q", test.rule, err, test.want)
		}
	}
	var s Set
	if _, err := s.Inject(Rule{Fault: Conflict}, Rule{}); err == nil || !strings.HasPrefix(err.Error(), "rule 2: ") {
		t.Errorf("got %v", err)
	}
	if s.active.Load() != nil {
		t.Error("a rule was installed")
	}
	for _, p := range Profiles() {
		for _, r := range Chaos(1, p) {
			if err := r.Validate(); err != nil {
				t.Errorf("%s: %v", p.Name, err)
			}
		}
	}
}

// TestData checks that rules can be written as JSON.
func TestData(t *testing.T) {
	t.Parallel()
	for _, r := range Chaos(1, Everything()) {
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var got Rule
		if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%s: got %+v, %v", text, got, err)
		}
	}
}

// decisions returns what the faults of a seed do to the requests of clients, for each client and
// object in the order of its requests. The clients take turns as turn says.
func decisions(t *testing.T, seed uint64, turn func(step int) int) map[string][]string {
	t.Helper()
	s := &Set{config: Config{Revision: func() int64 { return 1 }}}
	if _, err := s.Inject(Chaos(seed, Everything())...); err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for i := range 4000 {
		n := turn(i)
		q := query{user: fmt.Sprint("user-", n%2), verb: []string{"create", "update", "watch"}[n%3], resource: "trees", name: fmt.Sprint("x", n%5), expires: true}
		s.mu.Lock()
		fault := "none"
		for _, r := range s.rules {
			if s.fires(r, &q) {
				d := s.draw(r, &q)
				fault = fmt.Sprint(r.Fault, d.delay, d.after)
				if r.Fault != Delay && r.Fault != HoldEvents {
					break
				}
			}
		}
		s.mu.Unlock()
		got[q.key()] = append(got[q.key()], fault)
	}
	return got
}

// TestSeed checks that a seed decides what happens to the nth request of a user, a verb and an object,
// whatever others do meanwhile, and that another seed decides differently.
func TestSeed(t *testing.T) {
	t.Parallel()
	inTurns := decisions(t, 1, func(i int) int { return i })
	mixed := decisions(t, 1, func(i int) int { return i * i / 7 })
	other := decisions(t, 2, func(i int) int { return i })
	same, differ, kinds := 0, 0, map[string]bool{}
	for key, all := range inTurns {
		for i, fault := range all {
			kinds[strings.TrimRight(fault, "0123456789.msµ")] = true
			if i < len(mixed[key]) {
				same++
				if mixed[key][i] != fault {
					t.Errorf("%q: request %d: %s and %s", key, i, fault, mixed[key][i])
				}
			}
			if other[key][i] != fault {
				differ++
			}
		}
	}
	if same < 1000 || differ < 100 || len(kinds) < 8 {
		t.Errorf("%d compared, %d differ, %v", same, differ, kinds)
	}
}

// TestProbability checks that a rule happens about as often as it says.
func TestProbability(t *testing.T) {
	t.Parallel()
	var s Set
	in, err := s.Inject(Rule{Fault: Conflict, Probability: 0.3, Seed: 9})
	if err != nil {
		t.Fatal(err)
	}
	fired := 0
	for range 10_000 {
		if s.fires(in.rules[0], &query{verb: "update", name: "x"}) {
			fired++
		}
	}
	if fired < 2800 || fired > 3200 {
		t.Errorf("%d of 10000", fired)
	}
}

// TestFraming finds the ends of events in writes of any size.
func TestFraming(t *testing.T) {
	t.Parallel()
	header := func(contentType, encoding string) http.Header {
		return http.Header{"Content-Type": {contentType}, "Content-Encoding": {encoding}}
	}
	text := []byte("\x00\x00\x00\x03a\nb\x00\x00\x00\x00\x00\x00\x00\x01c")
	for _, test := range []struct {
		header http.Header
		text   []byte
		want   string
	}{
		{header("application/json", ""), []byte("ab\ncd\n\ne"), "[3 6 7]"},
		{header("application/vnd.kubernetes.protobuf;stream=watch", ""), text, "[7 11 16]"},
	} {
		for size := 1; size <= len(test.text); size++ {
			f := newFraming(test.header)
			var ends []int
			for at := 0; at < len(test.text); {
				for part := test.text[at:min(at+size, len(test.text))]; len(part) > 0; {
					n := f.next(part)
					at, part = at+n, part[n:]
					if !f.inside {
						ends = append(ends, at)
					}
				}
			}
			if got := fmt.Sprint(ends); got != test.want {
				t.Errorf("writes of %d bytes: got %s, want %s", size, got, test.want)
			}
		}
	}
	for _, h := range []http.Header{header("application/json", "gzip"), header("application/cbor-seq", ""), header("", "")} {
		if f := newFraming(h); f.form != opaque || f.next(text) != len(text) || f.inside {
			t.Errorf("%v: %+v", h, f)
		}
	}
}

// TestHoldAtBoundary holds a watch while the client has got a part of an event: it gets the rest of
// it, and nothing else.
func TestHoldAtBoundary(t *testing.T) {
	t.Parallel()
	client := httptest.NewRecorder()
	client.Header().Set("Content-Type", "application/json")
	w := newStream(client, &request{}, Config{})
	w.setCancel(func() {})
	w.WriteHeader(http.StatusOK)
	r := &rule{Rule: Rule{Fault: HoldEvents}}
	write := func(text, want string) {
		t.Helper()
		if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if got := client.Body.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	write("one\ntw", "one\ntw")
	w.apply(r, drawn{})
	write("o", "one\ntwo")
	write("\nthree\nfo", "one\ntwo\n")
	write("ur\n", "one\ntwo\n")
	w.state.Lock()
	clear(w.holds)
	w.state.Unlock()
	// The next write does not overtake what is held.
	write("five\n", "one\ntwo\nthree\nfour\nfive\n")
	w.finish()
	w.drain(true)
	if got := client.Body.String(); got != "one\ntwo\nthree\nfour\nfive\n" {
		t.Errorf("got %q", got)
	}
}
