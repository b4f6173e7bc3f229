package roles_test

import (
	"context"
	"reflect"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"espalier.dev/server/roles"
)

func words(text string) []string { return strings.Fields(text) }

// resourceRule returns a rule for resources. An API group "core" is the empty one.
func resourceRule(verbs, groups, resources, names string) rbacv1.PolicyRule {
	r := rbacv1.PolicyRule{Verbs: words(verbs), Resources: words(resources), ResourceNames: words(names)}
	for _, g := range words(groups) {
		if g == "core" {
			g = ""
		}
		r.APIGroups = append(r.APIGroups, g)
	}
	return r
}

func pathRule(verbs, urls string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: words(verbs), NonResourceURLs: words(urls)}
}

func clusterRole(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
}

func role(namespace, name string, rules ...rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: rules}
}

func clusterBinding(name, clusterRole string, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole}, Subjects: subjects}
}

func roleBinding(namespace, name, kind, role string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role}, Subjects: subjects}
}

func userSubject(name string) rbacv1.Subject  { return rbacv1.Subject{Kind: "User", Name: name} }
func groupSubject(name string) rbacv1.Subject { return rbacv1.Subject{Kind: "Group", Name: name} }
func accountSubject(namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: "ServiceAccount", Namespace: namespace, Name: name}
}

// ask asks for a decision. The request is "verb group resource[/subresource] [name]", or
// "verb /path".
func ask(t testing.TB, a *roles.Authorizer, who user.Info, namespace, request string) (bool, string) {
	t.Helper()
	part := append(words(request), "", "")
	r := authorizer.AttributesRecord{User: who, Verb: part[0], Namespace: namespace}
	if strings.HasPrefix(part[1], "/") {
		r.Path = part[1]
	} else {
		r.ResourceRequest, r.APIGroup, r.Name = true, strings.TrimPrefix(part[1], "core"), part[3]
		r.Resource, r.Subresource, _ = strings.Cut(part[2], "/")
	}
	decision, reason, err := a.Authorize(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if decision == authorizer.DecisionDeny {
		t.Fatalf("%s: denied", request)
	}
	return decision == authorizer.DecisionAllow, reason
}

func TestBindings(t *testing.T) {
	t.Parallel()
	get := resourceRule("get", "core", "pods", "")
	list := resourceRule("list", "core", "pods", "")
	a := newWorld(t).put(
		clusterRole("getter", get, pathRule("get", "/x")), role("a", "lister", list), role("b", "lister", resourceRule("watch", "core", "pods", "")),
		clusterBinding("all", "getter", groupSubject("admins"), accountSubject("a", "s"), accountSubject("", "none")),
		clusterBinding("broken", "nothing", userSubject("lost"), groupSubject("lost")),
		clusterBinding("broken2", "nothing", groupSubject("lost")),
		roleBinding("a", "by-cluster-role", "ClusterRole", "getter", userSubject("u"), userSubject("u"), groupSubject("g")),
		roleBinding("a", "lists", "Role", "lister", userSubject("u"), accountSubject("", "s"), accountSubject("b", "s")),
		roleBinding("b", "lists", "Role", "lister", userSubject("u")),
		roleBinding("a", "gone", "Role", "gone", userSubject("lost")),
		roleBinding("a", "odd", "Odd", "gone", userSubject("odd")),
	)
	for _, test := range []struct {
		who, namespace, request string
		allowed                 bool
		reason                  string
	}{
		{"x,admins", "", "get core pods", true, `RBAC: allowed by ClusterRoleBinding "all" of ClusterRole "getter" to Group "admins"`},
		{"x,admins", "z", "get core pods", true, `RBAC: allowed by ClusterRoleBinding "all" of ClusterRole "getter" to Group "admins"`},
		{"x,admins", "", "get /x", true, `RBAC: allowed by ClusterRoleBinding "all" of ClusterRole "getter" to Group "admins"`},
		{"x,admins", "", "list core pods", false, ``},
		{"admins", "", "get core pods", false, ``},
		{"system:serviceaccount:a:s", "", "get core pods", true, `RBAC: allowed by ClusterRoleBinding "all" of ClusterRole "getter" to ServiceAccount "s/a"`},
		{"system:serviceaccount:a:s", "a", "list core pods", true, `RBAC: allowed by RoleBinding "lists/a" of Role "lister" to ServiceAccount "s/a"`},
		{"system:serviceaccount:b:s", "a", "list core pods", true, `RBAC: allowed by RoleBinding "lists/a" of Role "lister" to ServiceAccount "s/b"`},
		{"system:serviceaccount:c:s", "a", "list core pods", false, ``},
		{"system:serviceaccount::none", "", "get core pods", false, ``},
		{"u", "a", "get core pods", true, `RBAC: allowed by RoleBinding "by-cluster-role/a" of ClusterRole "getter" to User "u"`},
		{"v,g", "a", "get core pods", true, `RBAC: allowed by RoleBinding "by-cluster-role/a" of ClusterRole "getter" to Group "g"`},
		{"u,g", "a", "get core pods", true, `RBAC: allowed by RoleBinding "by-cluster-role/a" of ClusterRole "getter" to User "u"`},
		{"u", "b", "get core pods", false, ``},
		{"u", "", "get core pods", false, ``},
		{"u", "a", "list core pods", true, `RBAC: allowed by RoleBinding "lists/a" of Role "lister" to User "u"`},
		{"u", "b", "list core pods", false, ``},
		{"u", "b", "watch core pods", true, `RBAC: allowed by RoleBinding "lists/b" of Role "lister" to User "u"`},
		{"u", "", "list core pods", false, ``},
		{"lost", "", "get core pods", false, `RBAC: clusterrole.rbac.authorization.k8s.io "nothing" not found`},
		{"lost", "a", "get core pods", false, `RBAC: [clusterrole.rbac.authorization.k8s.io "nothing" not found, role.rbac.authorization.k8s.io "gone" not found]`},
		{"lost,lost", "", "get core pods", false, `RBAC: clusterrole.rbac.authorization.k8s.io "nothing" not found`},
		{"odd", "a", "get core pods", false, `RBAC: unsupported role reference kind: "Odd"`},
	} {
		names := strings.Split(test.who, ",")
		allowed, reason := ask(t, a, &user.DefaultInfo{Name: names[0], Groups: names[1:]}, test.namespace, test.request)
		if allowed != test.allowed || reason != test.reason {
			t.Errorf("%s in %q: %s: %v %q", test.who, test.namespace, test.request, allowed, reason)
		}
	}

	resources, paths, incomplete, err := a.RulesFor(context.Background(), &user.DefaultInfo{Name: "u", Groups: []string{"admins", "lost"}}, "a")
	if incomplete || err == nil || err.Error() != `clusterrole.rbac.authorization.k8s.io "nothing" not found` {
		t.Errorf("%v %v", incomplete, err)
	}
	var verbs []string
	for _, r := range resources {
		verbs = append(verbs, r.GetVerbs()...)
	}
	// The rules of all, by-cluster-role and lists.
	if !reflect.DeepEqual(verbs, []string{"get", "get", "list"}) || len(paths) != 2 {
		t.Errorf("%v %v", verbs, paths)
	}
}
