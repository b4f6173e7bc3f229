// Package defaults has the roles and bindings that exist on every server with RBAC, as
// kube-apiserver creates them, and brings stored ones up to date.
package defaults

import (
	_ "embed" // for the list
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

//go:embed policy.txt
var list string

// aggregateTo begins the labels of cluster roles that others include.
const aggregateTo = rbacv1.GroupName + "/aggregate-to-"

// Policy is a set of roles and bindings.
type Policy struct {
	ClusterRoles        []*rbacv1.ClusterRole
	Roles               []*rbacv1.Role
	ClusterRoleBindings []*rbacv1.ClusterRoleBinding
	RoleBindings        []*rbacv1.RoleBinding
}

// Object is a role or a binding.
type Object interface {
	runtime.Object
	metav1.Object
}

// New returns the roles and bindings of Kubernetes. Aggregated cluster roles have the rules of
// the other ones.
func New() (*Policy, error) {
	p := &Policy{}
	if err := p.parse(list); err != nil {
		return nil, fmt.Errorf("the default roles and bindings: %w", err)
	}
	p.aggregate()
	return p, nil
}

// Objects returns all roles and bindings.
func (p *Policy) Objects() (all []Object) {
	for _, o := range p.ClusterRoles {
		all = append(all, o)
	}
	for _, o := range p.Roles {
		all = append(all, o)
	}
	for _, o := range p.ClusterRoleBindings {
		all = append(all, o)
	}
	for _, o := range p.RoleBindings {
		all = append(all, o)
	}
	return all
}

// metadata returns the metadata of an object with a name or, separated by a slash, a namespace
// and a name.
func metadata(name string, namespaced bool) metav1.ObjectMeta {
	m := metav1.ObjectMeta{
		Name:        name,
		Labels:      map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"},
		Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"},
	}
	if namespaced {
		m.Namespace, m.Name, _ = strings.Cut(name, "/")
	}
	return m
}

// parse adds what a list has. The list explains its format.
func (p *Policy) parse(list string) error {
	var rules *[]rbacv1.PolicyRule // of the last role
	n := 0
	for line := range strings.Lines(list) {
		n++
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "#":
			continue
		case strings.HasPrefix(line, " "):
			rule, ok := parseRule(words)
			if !ok || rules == nil {
				return fmt.Errorf("line %d: not a rule", n)
			}
			*rules = append(*rules, rule)
			continue
		case len(words) == 1:
			return fmt.Errorf("line %d: no name", n)
		}
		m, values := metadata(words[1], strings.HasPrefix(words[0], "role")), words[2:]
		rules = nil
		switch words[0] {
		case "clusterrole":
			r := &rbacv1.ClusterRole{ObjectMeta: m}
			for _, v := range values {
				if to, ok := strings.CutPrefix(v, "aggregate-to="); ok {
					r.Labels[aggregateTo+to] = "true"
				} else if from, ok := strings.CutPrefix(v, "aggregates="); ok {
					r.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{aggregateTo + from: "true"}}}}
				} else {
					return fmt.Errorf("line %d: unknown word %q", n, v)
				}
			}
			p.ClusterRoles, rules = append(p.ClusterRoles, r), &r.Rules
		case "role":
			r := &rbacv1.Role{ObjectMeta: m}
			p.Roles, rules = append(p.Roles, r), &r.Rules
		case "clusterrolebinding":
			b := &rbacv1.ClusterRoleBinding{ObjectMeta: m,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: m.Name}}
			if err := parseBinding(values, &b.RoleRef, &b.Subjects); err != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
			p.ClusterRoleBindings = append(p.ClusterRoleBindings, b)
		case "rolebinding":
			b := &rbacv1.RoleBinding{ObjectMeta: m, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: m.Name}}
			if err := parseBinding(values, &b.RoleRef, &b.Subjects); err != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
			p.RoleBindings = append(p.RoleBindings, b)
		default:
			return fmt.Errorf("line %d: unknown word %q", n, words[0])
		}
	}
	return nil
}

// parseRule returns the rule of a line.
func parseRule(words []string) (r rbacv1.PolicyRule, ok bool) {
	if len(words) < 3 || len(words) > 4 {
		return r, false
	}
	r.Verbs = strings.Split(words[0], ",")
	if words[1] == "path" {
		r.NonResourceURLs = strings.Split(words[2], ",")
		return r, len(words) == 3
	}
	r.APIGroups, r.Resources = strings.Split(words[1], ","), strings.Split(words[2], ",")
	for i, g := range r.APIGroups {
		if g == "core" {
			r.APIGroups[i] = ""
		}
	}
	if len(words) == 4 {
		r.ResourceNames = strings.Split(words[3], ",")
	}
	return r, true
}

// parseBinding sets the role and the subjects of a binding.
func parseBinding(words []string, ref *rbacv1.RoleRef, subjects *[]rbacv1.Subject) error {
	for _, w := range words {
		if name, ok := strings.CutPrefix(w, "role="); ok {
			ref.Name = name
			continue
		}
		kind, name, ok := strings.Cut(w, ":")
		if !ok {
			return fmt.Errorf("unknown word %q", w)
		}
		s := rbacv1.Subject{APIGroup: rbacv1.GroupName, Name: name}
		switch kind {
		case "user":
			s.Kind = rbacv1.UserKind
		case "group":
			s.Kind = rbacv1.GroupKind
		case "serviceaccount":
			s.Kind, s.APIGroup = rbacv1.ServiceAccountKind, ""
			s.Namespace, s.Name, _ = strings.Cut(name, "/")
		default:
			return fmt.Errorf("unknown word %q", w)
		}
		*subjects = append(*subjects, s)
	}
	return nil
}

// aggregate sets the rules of the aggregated cluster roles to those of the ones that they select,
// in the order of their names, each rule once. A controller does so later, too; roles that have
// their rules from the start need not wait for it.
func (p *Policy) aggregate() {
	for range p.ClusterRoles {
		changed := false
		for _, r := range p.ClusterRoles {
			if r.AggregationRule != nil && p.fill(r) {
				changed = true
			}
		}
		if !changed {
			return // also those that select aggregated roles are complete
		}
	}
}

// fill sets the rules of an aggregated cluster role, and reports whether they have changed.
func (p *Policy) fill(r *rbacv1.ClusterRole) bool {
	before := r.Rules
	r.Rules = nil
	for _, other := range p.ClusterRoles {
		for label := range r.AggregationRule.ClusterRoleSelectors[0].MatchLabels {
			if other == r || other.Labels[label] == "" {
				continue
			}
			for _, rule := range other.Rules {
				if !slices.ContainsFunc(r.Rules, func(have rbacv1.PolicyRule) bool { return equalRules(&have, &rule) }) {
					r.Rules = append(r.Rules, rule)
				}
			}
		}
	}
	return len(r.Rules) != len(before)
}

func equalRules(a, b *rbacv1.PolicyRule) bool {
	return slices.Equal(a.Verbs, b.Verbs) && slices.Equal(a.APIGroups, b.APIGroups) && slices.Equal(a.Resources, b.Resources) &&
		slices.Equal(a.ResourceNames, b.ResourceNames) && slices.Equal(a.NonResourceURLs, b.NonResourceURLs)
}
