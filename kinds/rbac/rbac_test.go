package rbac_test

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/kinds/kind/kindtest"
	"espalier.dev/kinds/rbac"
)

func TestRoles(t *testing.T) {
	t.Parallel()
	valid := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "system:a", Namespace: "b"},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{""}, Resources: []string{"pods"}}},
	}
	kindtest.Create(t, rbac.Rules()["roles"], valid)(func(r *rbacv1.Role) {
		r.Name = "a/b"
		r.Rules = []rbacv1.PolicyRule{{}, {NonResourceURLs: []string{"/"}, Verbs: []string{"get"}, APIGroups: []string{""}}}
	},
		`metadata.name: Invalid value: "a/b": may not contain '/'`,
		`rules[0].verbs: Required value: verbs must contain at least one value`,
		`rules[0].apiGroups: Required value: resource rules must supply at least one api group`,
		`rules[0].resources: Required value: resource rules must supply at least one resource`,
		`rules[1].nonResourceURLs: Invalid value: ["/"]: namespaced rules cannot apply to non-resource URLs`,
		`rules[1].nonResourceURLs: Invalid value: ["/"]: rules cannot apply to both regular resources and non-resource URLs`)
	kindtest.Update(t, rbac.Rules()["roles"], "", valid)(func(r *rbacv1.Role) { r.UID = "x" }, `metadata.uid: Invalid value: "x": field is immutable`)

	cluster := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	create := kindtest.Create(t, rbac.Rules()["clusterroles"], cluster)
	create(func(r *rbacv1.ClusterRole) {
		r.Rules = []rbacv1.PolicyRule{{NonResourceURLs: []string{"/"}, Verbs: []string{"get"}}}
	})
	create(func(r *rbacv1.ClusterRole) { r.AggregationRule = &rbacv1.AggregationRule{} },
		`aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil`)
	create(func(r *rbacv1.ClusterRole) {
		r.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "x"}}}}}
	},
		`aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator: Invalid value: "x": not a valid selector operator`,
		`aggregationRule.clusterRoleSelectors[0]: Invalid value: null: invalid label selector.`)
}

func TestBindings(t *testing.T) {
	t.Parallel()
	valid := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b"},
		RoleRef:    rbacv1.RoleRef{Kind: "Role", Name: "c"},
		Subjects:   []rbacv1.Subject{{Kind: "User", Name: "u"}, {Kind: "Group", Name: "g"}, {Kind: "ServiceAccount", Name: "s"}},
	}
	create := kindtest.Create(t, rbac.Rules()["rolebindings"], valid)
	got := create(func(*rbacv1.RoleBinding) {})
	const group = "rbac.authorization.k8s.io"
	if got.RoleRef.APIGroup != group || got.Subjects[0].APIGroup != group || got.Subjects[1].APIGroup != group || got.Subjects[2].APIGroup != "" {
		t.Errorf("got %+v", got)
	}
	create(func(b *rbacv1.RoleBinding) {
		b.RoleRef = rbacv1.RoleRef{APIGroup: "x", Kind: "y"}
		b.Subjects = []rbacv1.Subject{{}, {Kind: "User", Name: "u", APIGroup: "x"}, {Kind: "ServiceAccount", Name: "A", APIGroup: "x"}}
	},
		`roleRef.apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io"`,
		`roleRef.kind: Unsupported value: "y": supported values: "Role", "ClusterRole"`,
		`roleRef.name: Required value`,
		`subjects[0].name: Required value`,
		`subjects[0].kind: Unsupported value: "": supported values: "ServiceAccount", "User", "Group"`,
		`subjects[1].apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io"`,
		`subjects[2].name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
		`subjects[2].apiGroup: Unsupported value: "x": supported values: ""`)
	kindtest.Update(t, rbac.Rules()["rolebindings"], "", valid)(func(b *rbacv1.RoleBinding) { b.RoleRef.Name = "d" },
		`roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"Role","Name":"d"}: cannot change roleRef`)

	cluster := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "a"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "c"}}
	kindtest.Create(t, rbac.Rules()["clusterrolebindings"], cluster)(func(b *rbacv1.ClusterRoleBinding) {
		b.RoleRef.Kind = "Role"
		b.Subjects = []rbacv1.Subject{{Kind: "ServiceAccount", Name: "s"}}
	},
		`roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"`,
		`subjects[0].namespace: Required value`)
	kindtest.Update(t, rbac.Rules()["clusterrolebindings"], "", cluster)(func(b *rbacv1.ClusterRoleBinding) { b.RoleRef.Name = "d" },
		`roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"ClusterRole","Name":"d"}: cannot change roleRef`)
}
