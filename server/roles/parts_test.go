package roles

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/component-helpers/auth/rbac/validation"

	"espalier.dev/store"
)

// TestCoversLikeKubernetes compares which rules include others with Kubernetes.
func TestCoversLikeKubernetes(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	some := func(of ...string) (out []string) {
		for _, i := range r.Perm(len(of))[:r.IntN(3)] {
			out = append(out, of[i])
		}
		return out
	}
	rules := func() (out []rbacv1.PolicyRule) {
		for range r.IntN(3) {
			p := rbacv1.PolicyRule{Verbs: some("get", "list", "*")}
			if r.IntN(4) == 0 {
				p.NonResourceURLs = some("/a", "/a/*", "*", "/b")
			} else {
				p.APIGroups, p.Resources = some("", "apps", "*"), some("pods", "pods/log", "*/log", "*")
				if r.IntN(3) == 0 {
					p.ResourceNames = some("a", "b")
				}
			}
			out = append(out, p)
		}
		return out
	}
	covered := 0
	for range 20_000 {
		have, want := rules(), rules()
		ok, missing := validation.Covers(have, want)
		got, more := uncovered(have, want)
		if (len(got) == 0) != ok || len(got) != len(missing) || more {
			t.Fatalf("%v in %v: got %v, want %v", want, have, got, missing)
		}
		if ok && len(want) > 0 {
			covered++
		}
	}
	if covered < 1000 {
		t.Errorf("only %d rules are covered", covered)
	}
}

// TestUncoveredLimits checks how much is compared and listed.
func TestUncoveredLimits(t *testing.T) {
	t.Parallel()
	numbers := func(n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprint("v", i))
		}
		return out
	}
	rule := func(verbs []string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: verbs, APIGroups: []string{""}, Resources: []string{"pods"}}
	}
	for n, more := range map[int]bool{maxMissing: false, maxMissing + 1: true} {
		if got, gotMore := uncovered(nil, []rbacv1.PolicyRule{rule(numbers(n))}); len(got) != maxMissing || gotMore != more {
			t.Errorf("%d: %d permissions, more is %v", n, len(got), gotMore)
		}
	}
	// Long lists are compared permission by permission.
	for _, n := range []int{1, maxObvious, maxObvious + 1, 3 * maxObvious} {
		have, want := rule(numbers(n)), rule(numbers(n))
		if coversRule(&have, &want) != (n <= maxObvious) {
			t.Errorf("%d verbs: obvious is %v", n, !(n <= maxObvious))
		}
		if got, more := uncovered([]rbacv1.PolicyRule{have}, []rbacv1.PolicyRule{want}); len(got) != 0 || more {
			t.Errorf("%d verbs: %v, %v", n, got, more)
		}
	}
	p := rbacv1.PolicyRule{Verbs: numbers(1), APIGroups: numbers(2), Resources: numbers(3), ResourceNames: numbers(4), NonResourceURLs: numbers(5)}
	if size(&p) != 15 {
		t.Errorf("size %d", size(&p))
	}
}

// TestTableLikeMap compares a table with a map, and checks that edits do not change the original.
func TestTableLikeMap(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	var tab table[int]
	want := map[string]int{}
	check := func(tab *table[int], want map[string]int) {
		t.Helper()
		if tab.n != len(want) {
			t.Fatalf("%d keys, want %d", tab.n, len(want))
		}
		for i := range 300 {
			if key := fmt.Sprint(i); tab.get(key) != want[key] {
				t.Fatalf("%s is %d, want %d", key, tab.get(key), want[key])
			}
		}
	}
	for range 60 {
		before := map[string]int{}
		for k, v := range want {
			before[k] = v
		}
		e := tab.edit()
		for range r.IntN(40) {
			if key := fmt.Sprint(r.IntN(300)); r.IntN(3) == 0 {
				e.delete(key)
				delete(want, key)
			} else {
				v := 1 + r.IntN(9)
				e.set(key, v)
				want[key] = v
			}
			check(&e.table, want)
		}
		check(&tab, before)
		tab = e.table
	}
	if n := len(tab.shards); n < 2 || n > 8 || n&(n-1) != 0 {
		t.Errorf("%d shards for %d keys", n, tab.n)
	}
}

// TestNewBinding checks the subjects of a binding.
func TestNewBinding(t *testing.T) {
	t.Parallel()
	subjects := []rbacv1.Subject{
		{Kind: "User", Name: "u"}, {Kind: "Group", Name: "u"}, {Kind: "User", Name: "u"}, {Kind: "ServiceAccount", Name: "s"},
		{Kind: "ServiceAccount", Name: "s", Namespace: "m"}, {Kind: "Robot", Name: "r"}, {Kind: "Group", Name: "g"},
	}
	for _, test := range []struct {
		namespace, kind, role string
		subjects              []string
		reason                string
	}{
		{"", "ClusterRole", "/r", []string{"u", "u", "system:serviceaccount:m:s", "g"}, `RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to User "u"`},
		{"n", "ClusterRole", "/r", []string{"u", "u", "system:serviceaccount:n:s", "system:serviceaccount:m:s", "g"}, `RBAC: allowed by RoleBinding "b/n" of ClusterRole "r" to User "u"`},
		{"n", "Role", "n/r", []string{"u", "u", "system:serviceaccount:n:s", "system:serviceaccount:m:s", "g"}, `RBAC: allowed by RoleBinding "b/n" of Role "r" to User "u"`},
		{"", "Role", "", []string{"u", "u", "system:serviceaccount:m:s", "g"}, `RBAC: allowed by ClusterRoleBinding "b" of Role "r" to User "u"`},
		{"n", "Other", "", []string{"u", "u", "system:serviceaccount:n:s", "system:serviceaccount:m:s", "g"}, `RBAC: allowed by RoleBinding "b/n" of Other "r" to User "u"`},
	} {
		b := newBinding(test.namespace, "b", rbacv1.RoleRef{Kind: test.kind, Name: "r"}, subjects)
		var names []string
		for i, g := range b.grants {
			names = append(names, g.subject)
			if g.group != (i == 1 || i == len(b.grants)-1) {
				t.Errorf("%s is a group: %v", g.subject, g.group)
			}
		}
		if b.role != test.role || !slices.Equal(names, test.subjects) || b.grants[0].reason != test.reason {
			t.Errorf("%+v: role %q, subjects %v, %s", test, b.role, names, b.grants[0].reason)
		}
	}
}

// TestVisitOrder checks that the roles of a user are visited in the order of the names of their
// bindings, each once, those of the cluster first, whatever the number of groups.
func TestVisitOrder(t *testing.T) {
	t.Parallel()
	for _, groups := range []int{1, 7, 8, 9, 20} {
		c := (*index)(nil).change()
		who := &user.DefaultInfo{Name: "u"}
		for i := range groups {
			who.Groups = append(who.Groups, fmt.Sprintf("g%02d", i))
		}
		var want []string
		for _, namespace := range []string{"", "n"} {
			for i := range groups {
				name := fmt.Sprintf("%s%02d", namespace, groups-i)
				subjects := []rbacv1.Subject{{Kind: "Group", Name: who.Groups[i]}}
				if i == 0 {
					subjects = append(subjects, rbacv1.Subject{Kind: "User", Name: "u"})
				}
				c.setBinding(namespace+"/"+name, newBinding(namespace, name, rbacv1.RoleRef{Kind: "ClusterRole", Name: "r"}, subjects))
			}
			for i := range groups {
				want = append(want, fmt.Sprintf("%s%02d", namespace, i+1))
			}
		}
		x := c.apply()
		visited := func(namespace string) (names []string) {
			x.visit(who, namespace, func(b *binding, r *role) bool {
				if r != nil {
					t.Error("a role that does not exist")
				}
				names = append(names, b.name)
				return true
			})
			return names
		}
		if got := visited("n"); !slices.Equal(got, want) {
			t.Errorf("%d groups: got %v, want %v", groups, got, want)
		}
		if got := visited(""); !slices.Equal(got, want[:groups]) {
			t.Errorf("%d groups: got %v", groups, got)
		}
		n := 0
		if x.visit(who, "n", func(*binding, *role) bool { n++; return n < 1 }); n != 1 {
			t.Errorf("%d groups: visited %d after the end", groups, n)
		}
		// Without its bindings, a namespace takes no memory.
		c = x.change()
		for i := range groups {
			c.setBinding(fmt.Sprintf("n/n%02d", i+1), nil)
		}
		if y := c.apply(); y.spaces.n != 0 || x.spaces.n != 1 || y.bindings.n != groups {
			t.Errorf("%d groups: %d namespaces, %d bindings", groups, y.spaces.n, y.bindings.n)
		}
	}
}

// TestManyNames checks rules with few and with many resource names.
func TestManyNames(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, manyNames, manyNames + 1, 100} {
		p := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}
		for i := range n {
			p.ResourceNames = append(p.ResourceNames, fmt.Sprint("n", i))
		}
		r := compileRole([]rbacv1.PolicyRule{p})
		for name, want := range map[string]bool{"n0": true, fmt.Sprint("n", n-1): true, fmt.Sprint("n", n): false, "": false} {
			if got := r.allows(&request{verb: "get", resourceRequest: true, resource: "pods", name: name}); got != want {
				t.Errorf("%q of %d names: %v", name, n, got)
			}
		}
	}
}

// TestOnlyCollected checks which updates are those of the garbage collector.
func TestOnlyCollected(t *testing.T) {
	t.Parallel()
	old := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"a": "b"}}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}}}}
	for name, test := range map[string]struct {
		change func(*rbacv1.Role)
		want   bool
	}{
		"nothing":        {func(*rbacv1.Role) {}, true},
		"owners":         {func(r *rbacv1.Role) { r.OwnerReferences = []metav1.OwnerReference{{Name: "o"}} }, true},
		"finalizers":     {func(r *rbacv1.Role) { r.Finalizers = []string{"f"} }, true},
		"managed fields": {func(r *rbacv1.Role) { r.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}} }, true},
		"self link":      {func(r *rbacv1.Role) { r.SetSelfLink("s") }, true},
		"label":          {func(r *rbacv1.Role) { r.Labels = nil }, false},
		"rules":          {func(r *rbacv1.Role) { r.Rules = nil }, false},
	} {
		obj := old.DeepCopy()
		test.change(obj)
		if got := onlyCollected(obj, old); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
	for _, objects := range [][2]runtime.Object{{old, nil}, {old, &metav1.Status{}}, {&metav1.Status{}, old}} {
		if onlyCollected(objects[0], objects[1]) {
			t.Errorf("%T, %T", objects[0], objects[1])
		}
	}
}

// TestForbidden checks that only escalations are forbidden requests.
func TestForbidden(t *testing.T) {
	t.Parallel()
	gr, other := rbacv1.Resource("roles"), errors.New("broken")
	if err := forbidden(gr, "a", &escalation{"too much"}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "too much") {
		t.Error(err)
	}
	if err := forbidden(gr, "a", other); !errors.Is(err, other) || apierrors.IsForbidden(err) {
		t.Error(err)
	}
	for kind, says := range map[string]string{"Role": `roles.rbac.authorization.k8s.io "r" not found`, "ClusterRole": `clusterroles.rbac.authorization.k8s.io "r" not found`, "Other": `unsupported role reference kind: "Other"`} {
		if err := resolved(rbacv1.RoleRef{Kind: kind, Name: "r"}, nil, storage); err == nil || err.Error() != says {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if err := resolved(rbacv1.RoleRef{Kind: "Role", Name: "r"}, nil, lister); err == nil || err.Error() != `role.rbac.authorization.k8s.io "r" not found` {
		t.Error(err)
	}
	if err := resolved(rbacv1.RoleRef{Kind: "Role", Name: "r"}, &role{err: other}, lister); !errors.Is(err, other) {
		t.Error(err)
	}
	if err := resolved(rbacv1.RoleRef{Kind: "Role", Name: "r"}, &role{}, lister); err != nil {
		t.Error(err)
	}
}

// TestDecode checks which stored values are roles.
func TestDecode(t *testing.T) {
	t.Parallel()
	const good = `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"a"},"rules":[{"verbs":["get"],"nonResourceURLs":["/a"]}]}`
	broken := errors.New("broken")
	for text, says := range map[string]string{
		good: "", strings.Replace(good, "/v1", "/v2", 1): "/k: unexpected rbac.authorization.k8s.io/v2 Role", strings.Replace(good, `"Role"`, `"ClusterRole"`, 1): "/k: unexpected rbac.authorization.k8s.io/v1 ClusterRole",
		good[1:]: "/k: ", strings.Replace(good, `["get"]`, `"get"`, 1): "/k: ", "k8s\x00\xff": "/k: ",
	} {
		r := &rbacv1.Role{}
		err := Decode(&store.Entry{Key: "/k", Value: []byte(text)}, "Role", r)
		if (err == nil) != (says == "") || err != nil && !strings.HasPrefix(err.Error(), says) || err == nil && r.Name != "a" {
			t.Errorf("%q: %v, %v", text, r, err)
		}
		namespaced, cluster := readRole(&store.Entry{Key: "/k", Value: []byte(text)}, "n"), readRole(&store.Entry{Key: "/k", Value: []byte(text)}, "")
		if (namespaced.err == nil) != (says == "") || (cluster.err == nil) != strings.HasSuffix(says, "/v1 ClusterRole") {
			t.Errorf("%q: %v, %v", text, namespaced.err, cluster.err)
		}
	}
	if err := Decode(&store.Entry{Key: "/k", Value: []byte(good), Err: broken}, "Role", &rbacv1.Role{}); !errors.Is(err, broken) {
		t.Error(err)
	}
	if readRole(nil, "n") != nil || readBinding(nil, "n", "a") != nil {
		t.Error("something is read from nothing")
	}
	for kind, namespace := range map[string]string{"RoleBinding": "n", "ClusterRoleBinding": ""} {
		value := []byte(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"` + kind + `","metadata":{"name":"a"},"roleRef":{"kind":"ClusterRole","name":"r"},"subjects":[{"kind":"User","name":"u"}]}`)
		if b := readBinding(&store.Entry{Value: value}, namespace, "a"); b == nil || b.role != "/r" || b.namespace != namespace || len(b.grants) != 1 {
			t.Errorf("%s: %v", kind, b)
		}
		if b := readBinding(&store.Entry{Value: value[1:]}, namespace, "a"); b != nil {
			t.Errorf("%s: %v", kind, b)
		}
	}
}
