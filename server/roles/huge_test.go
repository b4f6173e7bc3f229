package roles_test

import (
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
)

// numbered returns n values with a prefix.
func numbered(prefix string, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprint(prefix, i))
	}
	return out
}

// TestHugeRoles checks that a small request cannot occupy the server: the permissions of a rule
// are the product of its lists.
func TestHugeRoles(t *testing.T) {
	t.Parallel()
	who := &user.DefaultInfo{Name: "u", Groups: []string{"h"}}
	const n = 1000
	huge := rbacv1.PolicyRule{Verbs: numbered("v", n), APIGroups: numbered("g", n), Resources: numbered("r", n)}
	part := func(from, to int) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: huge.Verbs[from:to], APIGroups: huge.APIGroups, Resources: huge.Resources}
	}
	w := newWorld(t)
	confirm := func(have ...rbacv1.PolicyRule) string {
		a := w.put(clusterRole("r", have...), clusterBinding("b", "r", groupSubject("h")))
		if err := a.Confirm(who, "", []rbacv1.PolicyRule{huge}); err != nil {
			return err.Error()
		}
		return ""
	}
	if text := confirm(); !strings.HasPrefix(text, `user "u" (groups=["h"]) is attempting to grant RBAC permissions not currently held:`+"\n"+`{APIGroups:["g0"], Resources:["r0"], Verbs:["v0" "v1"`) || !strings.HasSuffix(text, "\nand more") || len(text) > 1<<20 || strings.Count(text, `"v`) != 1<<13 {
		t.Errorf("%d bytes: %.200s", len(text), text)
	}
	if text := confirm(part(0, n/2), part(n/2, n)); !strings.Contains(text, "is attempting to grant more RBAC permissions than can be checked") {
		t.Errorf("%d bytes: %.200s", len(text), text)
	}
	if text := confirm(resourceRule("*", "*", "*", "")); text != "" {
		t.Errorf("%.200s", text)
	}
}

// TestManyPermissions checks that a user with many rules can grant all of them.
func TestManyPermissions(t *testing.T) {
	t.Parallel()
	var rules []rbacv1.PolicyRule
	for i := range 2000 {
		rules = append(rules, resourceRule("get list watch create update patch delete", fmt.Sprintf("g%d", i), fmt.Sprintf("r%d r%[1]d/status", i), ""))
	}
	a := newWorld(t).put(clusterRole("r", rules...), clusterBinding("b", "r", groupSubject("h")))
	if err := a.Confirm(&user.DefaultInfo{Name: "u", Groups: []string{"h"}}, "", rules); err != nil {
		t.Errorf("%.200s", err)
	}
}

// TestManyRules checks that the time to read a role or binding is proportional to its size.
func TestManyRules(t *testing.T) {
	t.Parallel()
	const n = 50_000
	var rules []rbacv1.PolicyRule
	var subjects []rbacv1.Subject
	for i := range n {
		rules = append(rules, resourceRule("get", fmt.Sprintf("g%d", i), "things", ""))
		subjects = append(subjects, userSubject(fmt.Sprintf("u%d", i)))
	}
	a := newWorld(t).put(clusterRole("r", append(rules, resourceRule("list", "*", "things", ""))...), clusterBinding("b", "r", subjects...))
	last := fmt.Sprint(n - 1)
	for request, want := range map[string]bool{"get g" + last + " things": true, "list g0 things": true, "list other things": true, "get other things": false} {
		if got, reason := ask(t, a, &user.DefaultInfo{Name: "u" + last}, "", request); got != want {
			t.Errorf("%s: %v %s", request, got, reason)
		}
	}
}
