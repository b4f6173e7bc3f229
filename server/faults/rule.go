// Package faults injects faults into a server: errors, lost answers, watches that end, events
// that are held back, stale reads. Rules describe them as data, and a [Set] applies the rules to
// requests, in a filter of the server. It is for tests.
//
// A fault never breaks what the API promises. A client gets nothing but what an API server may
// answer to its request when it is overloaded, restarted or disconnected: a rule skips the
// requests for which that is not so. Nothing that was stored is changed.
package faults

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Fault is what happens to a request.
type Fault string

// The faults, with the requests that they apply to.
const (
	// Conflict answers 409 to an update or a patch, as if the object had been modified.
	Conflict Fault = "Conflict"
	// TooManyRequests answers 429 to any request, with Retry-After (RetryAfter, or a second).
	TooManyRequests Fault = "TooManyRequests"
	// InternalError answers 500 to any request.
	InternalError Fault = "InternalError"
	// Unavailable answers 503 to any request, with Retry-After if RetryAfter is set.
	Unavailable Fault = "Unavailable"
	// LostAnswer executes a write and answers 504, as if the request had timed out. Writes that
	// fail, and dry runs, are answered as usual.
	LostAnswer Fault = "LostAnswer"
	// Delay waits for the duration Delay before any request is handled.
	Delay Fault = "Delay"
	// CloseBefore closes the connection instead of handling a request. With HTTP/2 it resets the
	// stream of the request.
	CloseBefore Fault = "CloseBefore"
	// CloseAfter executes a write and closes the connection instead of answering. Writes that
	// fail, and dry runs, are answered as usual.
	CloseAfter Fault = "CloseAfter"
	// EndWatch ends a watch after After events: at once if it runs already and After is zero.
	EndWatch Fault = "EndWatch"
	// Expired ends a watch after After events with the error 410, or answers 410 to a list that
	// continues another one or asks for the state at a resourceVersion. Of the watches that
	// begin, it applies to those that resume at a resourceVersion.
	Expired Fault = "Expired"
	// HoldEvents holds back everything that a watch sends, so that the cache of the client becomes
	// stale: until the rule is removed or, if Delay is set, for that time from the first event
	// that is held. Then the events arrive in their order.
	HoldEvents Fault = "HoldEvents"
	// StaleRead answers a get or a list with resourceVersion=0 with the state when the rule was
	// installed or, if Behind is set, with the state that many revisions ago, whichever is newer.
	// The state is never older than that of an earlier read of the resource with resourceVersion=0.
	StaleRead Fault = "StaleRead"
)

// verbsOf returns the verbs that a fault applies to. None means all.
func verbsOf(f Fault) (verbs []string, ok bool) {
	writes := []string{"create", "update", "patch", "delete", "deletecollection"}
	switch f {
	case TooManyRequests, InternalError, Unavailable, Delay, CloseBefore:
		return append(writes, "get", "list", "watch"), true
	case Conflict:
		return []string{"update", "patch"}, true
	case LostAnswer, CloseAfter:
		return writes, true
	case EndWatch, HoldEvents:
		return []string{"watch"}, true
	case Expired:
		return []string{"watch", "list"}, true
	case StaleRead:
		return []string{"get", "list"}, true
	}
	return nil, false
}

// Rule is a fault and the requests that it happens to. Fields that are empty match everything.
// Requests that are not about resources, such as health checks and discovery, and those of the
// server itself, match no rule.
type Rule struct {
	Fault Fault `json:"fault"`

	// User is the name of the user, the impersonated one if there is one.
	User string `json:"user,omitempty"`
	// Verbs are verbs as in RBAC: get, list, watch, create, update, patch, delete,
	// deletecollection. A rule applies only to verbs that its fault can happen to.
	Verbs []string `json:"verbs,omitempty"`
	// Resource is the plural name of a resource, with or without its group and a subresource:
	// configmaps, deployments.apps, deployments.apps/status. Without a group it matches the resource
	// in all groups, and without a subresource it matches no subresources. The name, the group and
	// the subresource may each be "*"; pods/* includes pods.
	Resource string `json:"resource,omitempty"`
	// Namespace and Name are those of the object. A watch or list matches a Name only if it selects
	// that object by its name.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`

	// First limits the rule to the first requests that match, and Nth to that one, from 1 on.
	First int `json:"first,omitempty"`
	Nth   int `json:"nth,omitempty"`
	// Probability limits the rule to a part of the requests that match, between 0 and 1. Seed
	// decides which: it is the same decision for the nth request of the same user, verb,
	// resource, namespace and name. Zero means all of them.
	Probability float64 `json:"probability,omitempty"`
	Seed        uint64  `json:"seed,omitempty"`

	// RetryAfter is for TooManyRequests and Unavailable, in whole seconds.
	RetryAfter time.Duration `json:"retryAfter,omitempty"`
	// Delay is for Delay and HoldEvents. In a rule with a Probability it is the maximum, and
	// the Seed decides.
	Delay time.Duration `json:"delay,omitempty"`
	// After is for EndWatch and Expired: the number of events, including bookmarks, that the watch
	// still sends. In a rule with a Probability it is the maximum, and the Seed decides.
	After int `json:"after,omitempty"`
	// Behind is for StaleRead.
	Behind int64 `json:"behind,omitempty"`

	// Strict makes it an error if the rule has matched nothing at the end of a test, instead of
	// a line in its log.
	Strict bool `json:"strict,omitempty"`
}

// String returns a short description.
func (r Rule) String() string {
	text := []string{string(r.Fault)}
	add := func(name, value string) {
		if value != "" {
			text = append(text, name+"="+value)
		}
	}
	number := func(name string, n int) {
		if n != 0 {
			add(name, fmt.Sprint(n))
		}
	}
	add("user", r.User)
	add("verbs", strings.Join(r.Verbs, ","))
	add("resource", r.Resource)
	add("namespace", r.Namespace)
	add("name", r.Name)
	number("first", r.First)
	number("nth", r.Nth)
	if r.Probability != 0 {
		add("probability", fmt.Sprint(r.Probability))
		add("seed", fmt.Sprint(r.Seed))
	}
	return strings.Join(text, " ")
}

// Validate returns what is wrong with a rule.
func (r Rule) Validate() error {
	verbs, ok := verbsOf(r.Fault)
	if !ok {
		return fmt.Errorf("unknown fault %q: use a constant such as Conflict", r.Fault)
	}
	var errs []error
	fail := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf(string(r.Fault)+": "+format, args...))
	}
	for _, verb := range r.Verbs {
		if !slices.Contains(verbs, verb) {
			fail("the verb %q is not one that the fault applies to: use %s", verb, strings.Join(verbs, ", "))
		}
	}
	if r.First < 0 || r.Nth < 0 || r.After < 0 || r.Behind < 0 || r.Delay < 0 || r.RetryAfter < 0 {
		fail("first, nth, after, behind, delay and retryAfter must not be negative")
	}
	if r.First > 0 && r.Nth > 0 {
		fail("first and nth exclude each other: use one of them")
	}
	if !(r.Probability >= 0 && r.Probability <= 1) {
		fail("probability %v is not between 0 and 1", r.Probability)
	}
	if r.RetryAfter%time.Second != 0 {
		fail("retryAfter %v is not a whole number of seconds", r.RetryAfter)
	}
	only := func(set bool, name string, faults ...Fault) {
		if set && !slices.Contains(faults, r.Fault) {
			fail("%s has no effect on this fault: leave it out", name)
		}
	}
	only(r.RetryAfter != 0, "retryAfter", TooManyRequests, Unavailable)
	only(r.Delay != 0, "delay", Delay, HoldEvents)
	only(r.After != 0, "after", EndWatch, Expired)
	only(r.Behind != 0, "behind", StaleRead)
	if r.Fault == Delay && r.Delay == 0 {
		fail("delay is required")
	}
	if strings.Count(r.Resource, "/") > 1 {
		fail("resource %q is not of the form resource.group/subresource", r.Resource)
	}
	return errors.Join(errs...)
}

// matchesResource reports whether a pattern, as in [Rule.Resource], matches a resource.
func matchesResource(pattern, group, resource, subresource string) bool {
	if pattern == "" {
		return true
	}
	main, sub, hasSub := strings.Cut(pattern, "/")
	name, inGroup, hasGroup := strings.Cut(main, ".")
	switch {
	case name != "*" && name != resource:
		return false
	case hasGroup && inGroup != "*" && inGroup != group:
		return false
	case !hasSub:
		return subresource == ""
	}
	return sub == "*" || sub == subresource
}
