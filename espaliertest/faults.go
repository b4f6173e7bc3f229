package espaliertest

import (
	"testing"

	"espalier.dev/server/faults"
)

// Rule is a fault and the requests that it happens to: see [Server.Inject].
type Rule = faults.Rule

// Fault is what happens to a request.
type Fault = faults.Fault

// The faults.
const (
	Conflict        = faults.Conflict
	TooManyRequests = faults.TooManyRequests
	InternalError   = faults.InternalError
	Unavailable     = faults.Unavailable
	LostAnswer      = faults.LostAnswer
	Delay           = faults.Delay
	CloseBefore     = faults.CloseBefore
	CloseAfter      = faults.CloseAfter
	EndWatch        = faults.EndWatch
	Expired         = faults.Expired
	HoldEvents      = faults.HoldEvents
	StaleRead       = faults.StaleRead
)

// Injection are rules that were installed together. They can be removed, and count what they do.
type Injection = faults.Injection

// Profile says how often each fault happens, for [Chaos].
type Profile = faults.Profile

// Profiles returns ready-made profiles: conflicts, outages, lost answers, watches, stale caches, and
// everything together.
func Profiles() []Profile { return faults.Profiles() }

// Chaos returns rules for [Server.Inject] that make the faults of a profile happen at random. The
// seed decides what happens to the nth request of a user with a verb, a resource, a namespace and
// a name: the same requests get the same faults.
func Chaos(seed uint64, p Profile) []Rule { return faults.Chaos(seed, p) }

// Inject installs rules that make requests fail, until the test ends or they are removed. The
// package documentation of [espalier.dev/server/faults] describes the faults: a client gets only
// what an API server may answer. A rule that has matched no request at the end of the test is
// reported in its log, or fails the test if the rule is Strict.
func (s *Server) Inject(t testing.TB, rules ...Rule) *Injection {
	t.Helper()
	s.checkSide(fails(t))
	in, err := s.server.Faults().Inject(rules...)
	if err != nil {
		t.Fatalf("inject faults: %v", err)
	}
	t.Cleanup(func() {
		in.Remove()
		reportUnused(t, in)
	})
	return in
}

// InjectFaults is [Server.Inject] for servers that were started with [Run], outside of a test: it
// returns an error, the caller removes the rules, and unused rules are not reported.
func (s *Server) InjectFaults(rules ...Rule) (*Injection, error) {
	return s.server.Faults().Inject(rules...)
}

// reportUnused reports rules that have done nothing. Rules with a probability need not have
// done anything, but must have matched a request: those of one call together, because not every
// fault of a profile applies to the requests of a test.
func reportUnused(t testing.TB, in *Injection) {
	t.Helper()
	random, matched, strict := 0, 0, false
	for _, c := range in.Counts() {
		if c.Rule.Probability > 0 {
			random++
			matched += c.Matched
			strict = strict || c.Rule.Strict
			continue
		}
		if c.Hits > 0 {
			continue
		}
		report := t.Logf
		if c.Rule.Strict {
			report = t.Errorf
		}
		if c.Matched == 0 {
			report("the rule %q has matched no request: check its user, verbs, resource and name, and whether the requests are sent", c.Rule)
		} else {
			report("the rule %q has matched %d requests, but its fault has happened to none of them: check first and nth", c.Rule, c.Matched)
		}
	}
	if random == 0 || matched > 0 {
		return
	}
	report := t.Logf
	if strict {
		report = t.Errorf
	}
	report("none of the %d rules with a probability has matched a request: check their user, resource and namespace", random)
}
