package authorization_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"espalier.dev/server/keys"
	"espalier.dev/server/roles"
	"espalier.dev/server/servertest"
	"espalier.dev/store"
)

// TestAggregatedRoles checks that aggregated cluster roles have the rules of those that they
// select, also through several levels, while labels and rules change and requests are authorized.
func TestAggregatedRoles(t *testing.T) {
	t.Parallel()
	o := servertest.Options(t)
	s := servertest.Start(t, o)
	ctx := t.Context()
	clusterRoles := servertest.Clientset(t, s, nil, runtime.ContentTypeProtobuf).RbacV1().ClusterRoles()
	selecting := func(name string, labels map[string]string, selectors ...string) *rbacv1.ClusterRole {
		r := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, AggregationRule: &rbacv1.AggregationRule{}}
		for _, label := range selectors {
			r.AggregationRule.ClusterRoleSelectors = append(r.AggregationRule.ClusterRoleSelectors, metav1.LabelSelector{MatchLabels: map[string]string{label: "true"}})
		}
		return r
	}
	create := func(r *rbacv1.ClusterRole) {
		t.Helper()
		if _, err := clusterRoles.Create(ctx, r, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// top selects middle and what has the label b; middle selects the label a, and would select
	// itself.
	create(selecting("top", nil, "b", "middle"))
	create(selecting("middle", map[string]string{"middle": "true", "a": "true"}, "a"))
	create(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "unrelated"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"x"}, APIGroups: []string{"x"}, Resources: []string{"x"}}}})
	bindings := servertest.Clientset(t, s, nil, runtime.ContentTypeProtobuf).RbacV1().ClusterRoleBindings()
	if _, err := bindings.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "top"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "top"},
		Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "u"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	config := store.Config{Client: servertest.Etcd(t, o), Prefix: string(keys.NewRoot(o.EtcdPrefix))}
	if o.Memory != nil {
		config.Watcher = o.Memory.NewWatcher()
	}
	objects, err := store.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(objects.Close)
	<-objects.Loaded()
	authz := roles.New(objects)
	may := func(resource string) bool {
		t.Helper()
		decision, _, err := authz.Authorize(context.Background(), authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "u"}, Verb: "get", APIGroup: "example.com", Resource: resource, ResourceRequest: true})
		if err != nil {
			t.Error(err)
		}
		return decision == authorizer.DecisionAllow
	}
	const writers, steps = 4, 25
	resource := func(w, step int) string { return fmt.Sprintf("r-%d-%d", w, step) }
	var writing, reading sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		reading.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if may("x") {
					t.Error("the rules of an unrelated role are aggregated")
				}
				may(resource(0, 0))
			}
		})
	}
	model := make([]*rbacv1.ClusterRole, writers)
	for w := range writers {
		writing.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			name := fmt.Sprintf("part-%d", w)
			for step := range steps {
				next := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
				for _, label := range []string{"a", "b", "c"} {
					if rng.IntN(2) == 0 {
						next.Labels[label] = "true"
					}
				}
				for range rng.IntN(3) {
					next.Rules = append(next.Rules, rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"example.com"}, Resources: []string{resource(w, step), resource(rng.IntN(writers), rng.IntN(3))}[:1+rng.IntN(2)]})
				}
				err := clusterRoles.Delete(ctx, name, metav1.DeleteOptions{})
				if rng.IntN(5) > 0 || step == steps-1 || apierrors.IsNotFound(err) {
					if _, err = clusterRoles.Update(ctx, next, metav1.UpdateOptions{}); err != nil {
						t.Error(err) // an update creates what does not exist
					}
					model[w] = next
				} else {
					model[w] = nil
				}
				if step%10 == 5 {
					// Somebody else writes the rules.
					if top, err := clusterRoles.Get(ctx, "top", metav1.GetOptions{}); err != nil {
						t.Error(err)
					} else {
						top.Rules = []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{"example.com"}, Resources: []string{"y"}}}
						if _, err := clusterRoles.Update(ctx, top, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) {
							t.Error(err)
						}
					}
				}
			}
		})
	}
	writing.Wait()
	close(stop)
	reading.Wait()

	// The parts in the order of their names, each rule once.
	collect := func(rules []rbacv1.PolicyRule, label string) []rbacv1.PolicyRule {
		for _, part := range model {
			if part == nil || part.Labels[label] == "" {
				continue
			}
			for _, r := range part.Rules {
				if !slices.ContainsFunc(rules, func(have rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(have, r) }) {
					rules = append(rules, r)
				}
			}
		}
		return rules
	}
	check := func() (top []rbacv1.PolicyRule) {
		t.Helper()
		want := map[string][]rbacv1.PolicyRule{"middle": collect(nil, "a")}
		want["top"] = collect(nil, "b")
		for _, r := range want["middle"] {
			if !slices.ContainsFunc(want["top"], func(have rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(have, r) }) {
				want["top"] = append(want["top"], r)
			}
		}
		for name, rules := range want {
			servertest.Eventually(t, func() error {
				got, err := clusterRoles.Get(ctx, name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				if !equality.Semantic.DeepEqual(got.Rules, rules) {
					return fmt.Errorf("%s has %v, want %v", name, got.Rules, rules)
				}
				return nil
			})
		}
		return want["top"]
	}
	top := check()
	if _, err := objects.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	granted := map[string]bool{}
	for _, r := range top {
		for _, resource := range r.Resources {
			granted[resource] = true
		}
	}
	for w := range writers {
		for step := range steps {
			if got := may(resource(w, step)); got != granted[resource(w, step)] {
				t.Errorf("%s: %v, want %v", resource(w, step), got, slices.Sorted(maps.Keys(granted)))
			}
		}
	}

	// Each change alone: a part is selected, changes, is no longer selected, is selected, and is
	// deleted.
	for w := range writers {
		for step, labels := range []map[string]string{{"a": "true", "b": "true"}, {"a": "true"}, nil, {"b": "true"}} {
			model[w] = &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("part-%d", w), Labels: labels},
				Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{"example.com"}, Resources: []string{fmt.Sprintf("last-%d-%d", w, step)}}}}
			if _, err := clusterRoles.Update(ctx, model[w], metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			check()
		}
		if err := clusterRoles.Delete(ctx, model[w].Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		model[w] = nil
		if top := check(); w == writers-1 && len(top) > 0 {
			t.Errorf("rules without parts: %v", top)
		}
	}
}
