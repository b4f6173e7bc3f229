package server

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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	rbacclient "k8s.io/client-go/kubernetes/typed/rbac/v1"

	"espalier.dev/server/roles"
)

// TestAggregatedRoles checks that aggregated cluster roles have the rules of those that they
// select, also through several levels, while labels and rules change and requests are authorized.
func TestAggregatedRoles(t *testing.T) {
	t.Parallel()
	s := startServer(t, testOptions(t))
	ctx := t.Context()
	clusterRoles := clientset(t, s, nil, runtime.ContentTypeProtobuf).RbacV1().ClusterRoles()
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
	bindings := clientset(t, s, nil, runtime.ContentTypeProtobuf).RbacV1().ClusterRoleBindings()
	if _, err := bindings.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "top"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "top"},
		Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "u"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	authz := roles.New(s.db.store)
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
			eventually(t, func() error {
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

// TestRBAC checks that a binding counts for the next request, and that users cannot grant more
// than they have.
func TestRBAC(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	o.Authorization.Modes = []string{"RBAC"}
	s := startServer(t, o)
	ctx := t.Context()
	admin := clientset(t, s, nil, runtime.ContentTypeProtobuf).RbacV1()
	ref := func(kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	}
	subject := func(name string) []rbacv1.Subject {
		return []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: name}}
	}
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	configMaps := rbacv1.PolicyRule{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}
	secrets := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	create := func(c rbacclient.RbacV1Interface, obj metav1.Object) (err error) {
		switch o := obj.(type) {
		case *rbacv1.Role:
			_, err = c.Roles("default").Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.ClusterRole:
			_, err = c.ClusterRoles().Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.RoleBinding:
			_, err = c.RoleBindings("default").Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.ClusterRoleBinding:
			_, err = c.ClusterRoleBindings().Create(ctx, o, metav1.CreateOptions{})
		}
		return err
	}
	must(create(admin, &rbacv1.ClusterRole{ObjectMeta: named("reads-maps"), Rules: []rbacv1.PolicyRule{configMaps}}))
	must(create(admin, &rbacv1.ClusterRole{ObjectMeta: named("reads-secrets"), Rules: []rbacv1.PolicyRule{secrets}}))
	reader := clientset(t, s, userConfig(t, s, "reader"), runtime.ContentTypeProtobuf)
	reads := func() error {
		_, err := reader.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		return err
	}
	for i := range 30 {
		if err := reads(); !apierrors.IsForbidden(err) {
			t.Fatalf("round %d: %v", i, err)
		}
		switch i % 3 {
		case 0:
			must(create(admin, &rbacv1.ClusterRoleBinding{ObjectMeta: named("b"), RoleRef: ref("ClusterRole", "reads-maps"), Subjects: subject("reader")}))
		case 1:
			must(create(admin, &rbacv1.RoleBinding{ObjectMeta: named("b"), RoleRef: ref("ClusterRole", "reads-maps"), Subjects: subject("reader")}))
		case 2:
			must(create(admin, &rbacv1.RoleBinding{ObjectMeta: named("b"), RoleRef: ref("ClusterRole", "reads-maps"), Subjects: subject("other")}))
			_, err := admin.RoleBindings("default").Patch(ctx, "b", types.JSONPatchType, []byte(`[{"op":"replace","path":"/subjects/0/name","value":"reader"}]`), metav1.PatchOptions{})
			must(err)
		}
		if err := reads(); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		switch i % 3 {
		case 0:
			must(admin.ClusterRoleBindings().Delete(ctx, "b", metav1.DeleteOptions{}))
		case 1:
			must(admin.RoleBindings("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
		case 2:
			must(admin.RoleBindings("default").Delete(ctx, "b", metav1.DeleteOptions{}))
		}
	}

	// The user may write roles and bindings, and read config maps.
	must(create(admin, &rbacv1.ClusterRole{ObjectMeta: named("writes-roles"), Rules: []rbacv1.PolicyRule{
		configMaps, {Verbs: []string{"create", "update", "patch", "get"}, APIGroups: []string{rbacv1.GroupName}, Resources: []string{"*"}},
	}}))
	must(create(admin, &rbacv1.ClusterRoleBinding{ObjectMeta: named("writer"), RoleRef: ref("ClusterRole", "writes-roles"), Subjects: subject("writer")}))
	writer := clientset(t, s, userConfig(t, s, "writer"), runtime.ContentTypeJSON).RbacV1()
	const held = `user "writer" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:` + "\n"
	const missing = `{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}`
	refused := func(err error, want string) {
		t.Helper()
		if !apierrors.IsForbidden(err) || err.Error() != want {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
	must(create(writer, &rbacv1.Role{ObjectMeta: named("mine"), Rules: []rbacv1.PolicyRule{configMaps}}))
	must(create(writer, &rbacv1.RoleBinding{ObjectMeta: named("mine"), RoleRef: ref("Role", "mine")}))
	must(create(writer, &rbacv1.ClusterRoleBinding{ObjectMeta: named("mine"), RoleRef: ref("ClusterRole", "reads-maps")}))
	refused(create(writer, &rbacv1.Role{ObjectMeta: named("more"), Rules: []rbacv1.PolicyRule{configMaps, secrets}}), `roles.rbac.authorization.k8s.io "more" is forbidden: `+held+missing)
	refused(create(writer, &rbacv1.ClusterRole{ObjectMeta: named("more"), Rules: []rbacv1.PolicyRule{configMaps, secrets}}), `clusterroles.rbac.authorization.k8s.io "more" is forbidden: `+held+missing)
	refused(create(writer, &rbacv1.RoleBinding{ObjectMeta: named("more"), RoleRef: ref("ClusterRole", "reads-secrets")}), `rolebindings.rbac.authorization.k8s.io "more" is forbidden: `+held+missing)
	refused(create(writer, &rbacv1.ClusterRoleBinding{ObjectMeta: named("more"), RoleRef: ref("ClusterRole", "reads-secrets")}), `clusterrolebindings.rbac.authorization.k8s.io "more" is forbidden: `+held+missing)
	if err := create(writer, &rbacv1.RoleBinding{ObjectMeta: named("more"), RoleRef: ref("Role", "nothing")}); !apierrors.IsNotFound(err) {
		t.Errorf("a binding to a role that does not exist: %v", err)
	}
	// All ways to change a role that exists, and to create one by an update.
	mine := &rbacv1.Role{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"}, ObjectMeta: named("mine"), Rules: []rbacv1.PolicyRule{secrets}}
	_, err := writer.Roles("default").Update(ctx, mine, metav1.UpdateOptions{})
	refused(err, `roles.rbac.authorization.k8s.io "mine" is forbidden: `+held+missing)
	other := mine.DeepCopy()
	other.Name = "other"
	_, err = writer.Roles("default").Update(ctx, other, metav1.UpdateOptions{})
	refused(err, `roles.rbac.authorization.k8s.io "other" is forbidden: `+held+missing)
	for media, patch := range map[types.PatchType]string{
		types.JSONPatchType:           `[{"op":"replace","path":"/rules/0/resources/0","value":"secrets"},{"op":"replace","path":"/rules/0/verbs","value":["get"]}]`,
		types.MergePatchType:          `{"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}]}`,
		types.StrategicMergePatchType: `{"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}]}`,
		types.ApplyPatchType:          `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"mine"},"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}]}`,
	} {
		force := true
		options := metav1.PatchOptions{}
		if media == types.ApplyPatchType {
			options = metav1.PatchOptions{FieldManager: "m", Force: &force}
		}
		_, err := writer.Roles("default").Patch(ctx, "mine", media, []byte(patch), options)
		refused(err, `roles.rbac.authorization.k8s.io "mine" is forbidden: `+held+missing)
	}
	if got, err := admin.Roles("default").Get(ctx, "mine", metav1.GetOptions{}); err != nil || !equality.Semantic.DeepEqual(got.Rules, []rbacv1.PolicyRule{configMaps}) {
		t.Errorf("the role has changed: %v %v", got, err)
	}
	_, err = writer.ClusterRoles().Patch(ctx, "reads-maps", types.MergePatchType, []byte(`{"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"a":"b"}}]}}`), metav1.PatchOptions{})
	refused(err, `clusterroles.rbac.authorization.k8s.io "reads-maps" is forbidden: must have cluster-admin privileges to use the aggregationRule`)

	// The verbs escalate and bind.
	must(create(admin, &rbacv1.ClusterRole{ObjectMeta: named("escalates"), Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"escalate"}, APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles"}},
		{Verbs: []string{"bind"}, APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, ResourceNames: []string{"reads-secrets"}},
	}}))
	must(create(admin, &rbacv1.RoleBinding{ObjectMeta: named("escalates"), RoleRef: ref("ClusterRole", "escalates"), Subjects: subject("writer")}))
	must(create(writer, &rbacv1.Role{ObjectMeta: named("more"), Rules: []rbacv1.PolicyRule{configMaps, secrets}}))
	must(create(writer, &rbacv1.RoleBinding{ObjectMeta: named("more"), RoleRef: ref("ClusterRole", "reads-secrets")}))
	refused(create(writer, &rbacv1.ClusterRoleBinding{ObjectMeta: named("more"), RoleRef: ref("ClusterRole", "reads-secrets")}), `clusterrolebindings.rbac.authorization.k8s.io "more" is forbidden: `+held+missing)
}
