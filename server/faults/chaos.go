package faults

import "time"

// Profile says how often each fault happens: a probability between 0 and 1 for each request that
// it applies to. User, Resource and Namespace restrict all faults, as in a [Rule].
type Profile struct {
	Name string `json:"name,omitempty"`

	User      string `json:"user,omitempty"`
	Resource  string `json:"resource,omitempty"`
	Namespace string `json:"namespace,omitempty"`

	Conflicts       float64 `json:"conflicts,omitempty"`
	TooManyRequests float64 `json:"tooManyRequests,omitempty"`
	InternalErrors  float64 `json:"internalErrors,omitempty"`
	Unavailable     float64 `json:"unavailable,omitempty"`
	LostAnswers     float64 `json:"lostAnswers,omitempty"`
	ClosedBefore    float64 `json:"closedBefore,omitempty"`
	ClosedAfter     float64 `json:"closedAfter,omitempty"`
	Delays          float64 `json:"delays,omitempty"`
	EndedWatches    float64 `json:"endedWatches,omitempty"`
	ExpiredWatches  float64 `json:"expiredWatches,omitempty"`
	HeldEvents      float64 `json:"heldEvents,omitempty"`
	StaleReads      float64 `json:"staleReads,omitempty"`

	// MaxDelay is the longest delay of a request, and MaxHold the longest time that events
	// are held back. The defaults are 20 milliseconds and a second.
	MaxDelay time.Duration `json:"maxDelay,omitempty"`
	MaxHold  time.Duration `json:"maxHold,omitempty"`
	// MaxEvents is the largest number of events of a watch that ends. The default is 20.
	MaxEvents int `json:"maxEvents,omitempty"`
	// MaxBehind is the number of revisions that stale reads are behind. The default is 20.
	MaxBehind int64 `json:"maxBehind,omitempty"`
}

// Conflicts returns a profile in which another client seems to change objects all the time.
func Conflicts() Profile { return Profile{Name: "conflicts", Conflicts: 0.3} }

// Outages returns a profile of a server that is overloaded and restarted.
func Outages() Profile {
	return Profile{Name: "outages", TooManyRequests: 0.05, InternalErrors: 0.05, Unavailable: 0.1, ClosedBefore: 0.05, Delays: 0.2, EndedWatches: 0.3}
}

// LostAnswers returns a profile in which many writes are stored, but not answered.
func LostAnswers() Profile { return Profile{Name: "lost-answers", LostAnswers: 0.2, ClosedAfter: 0.1} }

// Watches returns a profile in which watches end, and cannot always be resumed.
func Watches() Profile { return Profile{Name: "watches", EndedWatches: 0.7, ExpiredWatches: 0.3} }

// StaleCaches returns a profile in which clients learn late of changes, and answers of writes are
// lost meanwhile.
func StaleCaches() Profile {
	return Profile{Name: "stale-caches", HeldEvents: 0.8, StaleReads: 0.8, LostAnswers: 0.2}
}

// Everything returns a profile with all faults.
func Everything() Profile {
	return Profile{Name: "everything", Conflicts: 0.1, TooManyRequests: 0.02, InternalErrors: 0.02, Unavailable: 0.05, LostAnswers: 0.1,
		ClosedBefore: 0.05, ClosedAfter: 0.05, Delays: 0.2, EndedWatches: 0.3, ExpiredWatches: 0.2, HeldEvents: 0.5, StaleReads: 0.5}
}

// Profiles returns the profiles of this package.
func Profiles() []Profile {
	return []Profile{Conflicts(), Outages(), LostAnswers(), Watches(), StaleCaches(), Everything()}
}

// Chaos returns the rules of a profile. The seed decides what happens to the nth request of a
// user with a verb, a resource, a namespace and a name: the same requests get the same faults.
func Chaos(seed uint64, p Profile) []Rule {
	orElse := func(d, other time.Duration) time.Duration {
		if d == 0 {
			return other
		}
		return d
	}
	events, behind := p.MaxEvents, p.MaxBehind
	if events == 0 {
		events = 20
	}
	if behind == 0 {
		behind = 20
	}
	all := []Rule{
		// Those that do not exclude others are first.
		{Fault: Delay, Probability: p.Delays, Delay: orElse(p.MaxDelay, 20*time.Millisecond)},
		{Fault: HoldEvents, Probability: p.HeldEvents, Delay: orElse(p.MaxHold, time.Second)},
		{Fault: StaleRead, Probability: p.StaleReads, Behind: behind},
		{Fault: Conflict, Probability: p.Conflicts},
		{Fault: TooManyRequests, Probability: p.TooManyRequests, RetryAfter: time.Second},
		{Fault: InternalError, Probability: p.InternalErrors},
		{Fault: Unavailable, Probability: p.Unavailable},
		{Fault: CloseBefore, Probability: p.ClosedBefore},
		{Fault: LostAnswer, Probability: p.LostAnswers},
		{Fault: CloseAfter, Probability: p.ClosedAfter},
		{Fault: Expired, Probability: p.ExpiredWatches, After: events},
		{Fault: EndWatch, Probability: p.EndedWatches, After: events},
	}
	var rules []Rule
	for i, r := range all {
		if r.Probability == 0 {
			continue
		}
		r.User, r.Resource, r.Namespace = p.User, p.Resource, p.Namespace
		// Each rule makes its own decisions.
		r.Seed = seed*0x9e3779b97f4a7c15 + uint64(i)
		rules = append(rules, r)
	}
	return rules
}
