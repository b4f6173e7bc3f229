package defaults

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func byName(t *testing.T, p *Policy, name string) *rbacv1.ClusterRole {
	t.Helper()
	i := slices.IndexFunc(p.ClusterRoles, func(r *rbacv1.ClusterRole) bool { return r.Name == name })
	if i < 0 {
		t.Fatalf("there is no cluster role %s", name)
	}
	return p.ClusterRoles[i]
}

func defaults(t *testing.T) *Policy {
	t.Helper()
	p, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestAggregate checks that admin includes edit, and edit includes view.
func TestAggregate(t *testing.T) {
	t.Parallel()
	p := defaults(t)
	includes := func(role, part string) bool {
		all := byName(t, p, role).Rules
		for _, rule := range byName(t, p, part).Rules {
			if !slices.ContainsFunc(all, func(r rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(r, rule) }) {
				return false
			}
		}
		return true
	}
	for _, tt := range []struct {
		role, part string
		want       bool
	}{
		{"view", "system:aggregate-to-view", true}, {"edit", "view", true}, {"edit", "system:aggregate-to-edit", true},
		{"admin", "edit", true}, {"admin", "view", true}, {"admin", "system:aggregate-to-admin", true},
		{"view", "edit", false}, {"edit", "admin", false},
	} {
		if includes(tt.role, tt.part) != tt.want {
			t.Errorf("%s includes %s: %v", tt.role, tt.part, !tt.want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"  get core pods", "clusterrole", "clusterrole x other", "clusterrole x\n  get core", "clusterrole x\n  get path /a b",
		"clusterrolebinding x user", "clusterrolebinding x robot:y", "binding x", "rolebinding a/b c",
	} {
		if err := (&Policy{}).parse(text); err == nil || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestReconcile(t *testing.T) {
	t.Parallel()
	rule := func(verbs string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: strings.Split(verbs, ","), APIGroups: []string{""}, Resources: resources}
	}
	meta := func(extra ...string) metav1.ObjectMeta {
		m := metadata("x", false)
		for _, e := range extra {
			m.Labels[e] = "true"
		}
		return m
	}
	protected := meta()
	protected.Annotations[rbacv1.AutoUpdateAnnotationKey] = "false"
	aggregation := func(labels ...string) *rbacv1.AggregationRule {
		a := &rbacv1.AggregationRule{}
		for _, l := range labels {
			a.ClusterRoleSelectors = append(a.ClusterRoleSelectors, metav1.LabelSelector{MatchLabels: map[string]string{l: "true"}})
		}
		return a
	}
	role := func(m metav1.ObjectMeta, a *rbacv1.AggregationRule, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
		return &rbacv1.ClusterRole{ObjectMeta: m, AggregationRule: a, Rules: rules}
	}
	binding := func(m metav1.ObjectMeta, ref string, users ...string) *rbacv1.ClusterRoleBinding {
		b := &rbacv1.ClusterRoleBinding{ObjectMeta: m, RoleRef: rbacv1.RoleRef{Name: ref}}
		for _, u := range users {
			b.Subjects = append(b.Subjects, rbacv1.Subject{Kind: "User", Name: u})
		}
		return b
	}
	get, list := rule("get", "pods"), rule("list", "pods")
	for _, tt := range []struct {
		name                   string
		stored, wanted, result Object
		want                   Change
	}{
		{"equal role", role(meta(), nil, get), role(meta(), nil, get), role(meta(), nil, get), Keep},
		{"covered rule", role(meta(), nil, rule("*", "*")), role(meta(), nil, get), role(meta(), nil, rule("*", "*")), Keep},
		{"extra rule", role(meta(), nil, get, list), role(meta(), nil, get), role(meta(), nil, get, list), Keep},
		{"missing rule", role(meta(), nil, list), role(meta(), nil, get), role(meta(), nil, list, get), Update},
		{"protected", role(protected, nil), role(meta(), nil, get), role(protected, nil), Keep},
		{"extra label", role(meta("l"), nil), role(meta(), nil), role(meta("l"), nil), Keep},
		{"missing label", role(meta(), nil), role(meta("l"), nil), role(meta("l"), nil), Update},
		{"no metadata", role(metav1.ObjectMeta{}, nil), role(meta(), nil), role(metav1.ObjectMeta{Labels: meta().Labels, Annotations: meta().Annotations}, nil), Update},
		{"aggregated", role(meta(), aggregation("a")), role(meta(), aggregation("a"), get), role(meta(), aggregation("a")), Keep},
		{"not aggregated yet", role(meta(), nil, list), role(meta(), aggregation("a"), get), role(meta(), aggregation("a"), list), Update},
		{"another selector", role(meta(), aggregation("b")), role(meta(), aggregation("a")), role(meta(), aggregation("b", "a")), Update},
		{"aggregated no more", role(meta(), aggregation("b"), get), role(meta(), nil, get), role(meta(), nil, get), Update},
		{"equal binding", binding(meta(), "r", "u"), binding(meta(), "r", "u"), binding(meta(), "r", "u"), Keep},
		{"missing subject", binding(meta(), "r", "u"), binding(meta(), "r", "v"), binding(meta(), "r", "u", "v"), Update},
		{"extra subject", binding(meta(), "r", "u", "v"), binding(meta(), "r", "v"), binding(meta(), "r", "u", "v"), Keep},
		{"other role", binding(meta(), "s", "u"), binding(meta(), "r", "v"), binding(meta(), "s", "u"), Recreate},
		{"protected binding", binding(protected, "s", "u"), binding(meta(), "r", "v"), binding(protected, "s", "u"), Keep},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wanted := tt.wanted.DeepCopyObject()
			if got := Reconcile(tt.stored, tt.wanted); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
			if !equality.Semantic.DeepEqual(tt.stored, tt.result) {
				t.Errorf("got %+v, want %+v", tt.stored, tt.result)
			}
			if !equality.Semantic.DeepEqual(tt.wanted, wanted) {
				t.Error("the wanted object has changed")
			}
		})
	}
}
