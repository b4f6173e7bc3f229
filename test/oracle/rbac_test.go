package oracle

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"espalier.dev/server/rbac"
	"espalier.dev/test/oracle/builtin"
)

// TestRBAC compares decisions about requests with Kubernetes' own evaluation of roles and bindings:
// who may do what, for which reason, and which permissions a user lacks to grant others. RBAC_CASES
// is the number of requests, RBAC_SEED chooses others; both need the reference itself, see
// package builtin.
func TestRBAC(t *testing.T) {
	t.Parallel()
	ref := startReference(t)
	const requests = 500
	cases, seed := number("RBAC_CASES", 3000), uint64(number("RBAC_SEED", 0))
	// Policies differ, and every answer must be common enough that it is tested.
	counts := map[string]int{}
	for n := range uint64((cases + requests - 1) / requests) {
		p := builtin.NewPolicy(seed, n, requests)
		req, err := p.Request()
		if err != nil {
			t.Fatal(err)
		}
		answer, err := ref.Ask(req)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Panic != "" || len(answer.Decisions) != requests {
			t.Fatalf("policy %d: %s, %d decisions", n, answer.Panic, len(answer.Decisions))
		}
		ours, err := rbac.Static(p.Objects...)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range p.Requests {
			want, got := answer.Decisions[i], decide(t, ours, &a)
			counts[kindOfDecision(&a, &want)]++
			if normalizeDecision(got) == normalizeDecision(want) {
				continue
			}
			text, _ := json.Marshal(a)
			t.Errorf("policy %d, request %d: %s\nours: %+v\nreference: %+v\nRBAC_SEED=%d", n, i, text, got, want, seed)
			if t.Failed() && counts["different"] == 10 {
				t.FailNow()
			}
			counts["different"]++
		}
	}
	t.Logf("%v", counts)
	for _, kind := range []string{"allowed resource", "denied resource", "denied resource with errors", "allowed path", "denied path", "allowed grant", "denied grant"} {
		if counts[kind] < cases/400 {
			t.Errorf("only %d answers are %q: %v", counts[kind], kind, counts)
		}
	}
}

// decide asks our authorizer.
func decide(t *testing.T, ours *rbac.Authorizer, a *builtin.Attributes) (d builtin.Decision) {
	t.Helper()
	who := &user.DefaultInfo{Name: a.User.Name, Groups: a.User.Groups}
	if a.Rules != nil {
		err := ours.Confirm(who, a.Namespace, a.Rules)
		if d.Allowed = err == nil; err != nil {
			d.Error = err.Error()
		}
		return d
	}
	decision, reason, err := ours.Authorize(context.Background(), authorizer.AttributesRecord{
		User: who, Verb: a.Verb, Namespace: a.Namespace, APIGroup: a.APIGroup, Resource: a.Resource, Subresource: a.Subresource, Name: a.Name,
		ResourceRequest: a.Path == "", Path: a.Path,
	})
	if err != nil {
		d.Error = err.Error()
	}
	d.Allowed, d.Reason = decision == authorizer.DecisionAllow, reason
	return d
}

// normalizeDecision removes the texts about roles that do not exist, which are those of the reference's
// informers only in a cluster.
func normalizeDecision(d builtin.Decision) builtin.Decision {
	if !d.Allowed && d.Reason != "" {
		d.Reason = "errors"
	}
	if text, _, ok := strings.Cut(d.Error, "; resolution errors: "); ok {
		d.Error = text + " and errors"
	}
	return d
}

func kindOfDecision(a *builtin.Attributes, d *builtin.Decision) string {
	out := "denied"
	if d.Allowed {
		out = "allowed"
	}
	switch {
	case a.Rules != nil:
		return out + " grant"
	case a.Path != "":
		return out + " path"
	case d.Reason != "" && !d.Allowed:
		return out + " resource with errors"
	}
	return out + " resource"
}
