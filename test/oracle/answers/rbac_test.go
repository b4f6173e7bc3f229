package answers

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"espalier.dev/server/etcd/memory"
	"espalier.dev/server/keys"
	"espalier.dev/server/roles"
	"espalier.dev/store"
	"espalier.dev/test/oracle/builtin"
)

// TestRBAC compares decisions about requests with Kubernetes' own evaluation of roles and bindings:
// who may do what, for which reason, and which permissions a user lacks to grant others. RBAC_CASES
// is the number of requests, RBAC_SEED chooses others; both need the reference itself, see
// package builtin.
func TestRBAC(t *testing.T) {
	t.Parallel()
	ref := builtin.Open(t)
	db := memory.Open(memory.Config{})
	t.Cleanup(db.Close)
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
		ours := storeRoles(t, db, fmt.Sprintf("/%d/", n), p.Objects)
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

// storeRoles stores roles and bindings below a prefix, and returns an authorizer of them.
func storeRoles(t *testing.T, db *memory.DB, prefix string, list []runtime.Object) *roles.Authorizer {
	t.Helper()
	client := db.Client()
	t.Cleanup(func() { _ = client.Close() })
	for _, obj := range list {
		kind, m := obj.GetObjectKind().GroupVersionKind().Kind, obj.(metav1.Object)
		value, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		key := keys.NewRoot(prefix).Builtin(rbacv1.Resource(strings.ToLower(kind)+"s")).Key(m.GetNamespace(), m.GetName())
		if _, err := client.Put(t.Context(), key, string(value)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := store.Open(store.Config{Client: client, Watcher: db.NewWatcher(), Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	<-s.Loaded()
	return roles.New(s)
}

// decide asks our authorizer.
func decide(t *testing.T, ours *roles.Authorizer, a *builtin.Attributes) (d builtin.Decision) {
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
