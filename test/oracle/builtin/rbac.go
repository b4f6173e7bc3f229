package builtin

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Attributes is a request to authorize. With Rules, the question is whether the user may grant
// them.
type Attributes struct {
	User        User                `json:"user"`
	Verb        string              `json:"verb,omitempty"`
	Namespace   string              `json:"namespace,omitempty"`
	APIGroup    string              `json:"apiGroup,omitempty"`
	Resource    string              `json:"resource,omitempty"`
	Subresource string              `json:"subresource,omitempty"`
	Name        string              `json:"name,omitempty"`
	Path        string              `json:"path,omitempty"`
	Rules       []rbacv1.PolicyRule `json:"rules,omitempty"`
}

// Decision is the answer to Attributes.
type Decision struct {
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason"`
	Error   string `json:"error"`
}

// Policy is a generated set of roles and bindings, and requests to authorize.
type Policy struct {
	Objects  []runtime.Object
	Requests []Attributes

	rng      *rand.Rand
	rules    map[string][]rbacv1.PolicyRule // by kind, namespace and name of the role
	bindings []policyBinding
}

// policyBinding is what both kinds of bindings have in common.
type policyBinding struct {
	namespace string
	ref       rbacv1.RoleRef
	subjects  []rbacv1.Subject
}

// The values that policies and requests consist of. Some of them are not valid, and still
// evaluated.
var (
	policyVerbs      = []string{"get", "list", "watch", "create", "update", "delete", "bind", "impersonate", "*", ""}
	policyGroups     = []string{"", "apps", "example.com", "rbac.authorization.k8s.io", "*"}
	policyResources  = []string{"pods", "deployments", "crontabs", "nodes", "*"}
	policySub        = []string{"log", "status", "scale", "a/b", "*"}
	policyOdd        = []string{"", "/", "/log", "pods/", "*/", "pods/log/x", "*/*"}
	policyNames      = []string{"a", "b", "c", "*"}
	policyPaths      = []string{"/", "/healthz", "/healthz/ping", "/api", "/apis/example.com", "/a*b", "x"}
	policyURLs       = []string{"/", "*", "/*", "/healthz", "/healthz*", "/healthz/*", "/a*b", "/a**", "/api/**", "", "x"}
	policyNamespaces = []string{"one", "two", "three"}
	policyUsers      = []string{"jane", "joe", "system:serviceaccount:one:default", "system:serviceaccount:two:default", "system:serviceaccount::default", ""}
	policyUserGroups = []string{"admins", "developers", "system:authenticated", "system:masters", ""}
)

// NewPolicy generates roles, bindings and requests. Equal numbers give equal policies.
func NewPolicy(seed, number uint64, requests int) *Policy {
	p := &Policy{rng: rand.New(rand.NewPCG(seed, number)), rules: map[string][]rbacv1.PolicyRule{}}
	for i := range 2 + p.rng.IntN(6) {
		name := fmt.Sprintf("role-%d", i)
		rules := p.newRules()
		p.rules["ClusterRole "+name] = rules
		p.Objects = append(p.Objects, &rbacv1.ClusterRole{TypeMeta: rbacType("ClusterRole"), ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules})
		namespace := p.pick(policyNamespaces)
		rules = p.newRules()
		p.rules["Role "+namespace+"/"+name] = rules
		p.Objects = append(p.Objects, &rbacv1.Role{TypeMeta: rbacType("Role"), ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: rules})
	}
	// The reference evaluates bindings in the order in which it gets them, and we in that of their
	// names.
	for i := range p.rng.IntN(8) {
		b := policyBinding{ref: p.newRef("", "ClusterRole"), subjects: p.newSubjects()}
		p.bindings = append(p.bindings, b)
		p.Objects = append(p.Objects, &rbacv1.ClusterRoleBinding{TypeMeta: rbacType("ClusterRoleBinding"), ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("binding-%d", i)}, RoleRef: b.ref, Subjects: b.subjects})
	}
	for i := range p.rng.IntN(10) {
		namespace := p.pick(policyNamespaces)
		b := policyBinding{namespace: namespace, ref: p.newRef(namespace, p.pick([]string{"Role", "ClusterRole"})), subjects: p.newSubjects()}
		p.bindings = append(p.bindings, b)
		p.Objects = append(p.Objects, &rbacv1.RoleBinding{TypeMeta: rbacType("RoleBinding"), ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: fmt.Sprintf("binding-%d", i)}, RoleRef: b.ref, Subjects: b.subjects})
	}
	for range requests {
		p.Requests = append(p.Requests, p.newRequest())
	}
	return p
}

func rbacType(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
}

// Request returns the request to the reference.
func (p *Policy) Request() (*Request, error) {
	req := &Request{Op: "rbac", Attributes: p.Requests}
	for _, obj := range p.Objects {
		data, err := json.Marshal(obj)
		if err != nil {
			return nil, err
		}
		req.Existing = append(req.Existing, data)
	}
	return req, nil
}

func (p *Policy) pick(from []string) string { return from[p.rng.IntN(len(from))] }

// some returns up to n values, and rarely none.
func (p *Policy) some(n int, next func() string) (out []string) {
	if p.rng.IntN(12) == 0 {
		return nil
	}
	for range 1 + p.rng.IntN(n) {
		out = append(out, next())
	}
	return out
}

func (p *Policy) oneOf(from []string) func() string { return func() string { return p.pick(from) } }

func (p *Policy) newResource() string {
	switch p.rng.IntN(10) {
	case 0:
		return p.pick(policyOdd)
	case 1, 2, 3:
		return p.pick(policyResources) + "/" + p.pick(policySub)
	}
	return p.pick(policyResources)
}

func (p *Policy) newRules() (out []rbacv1.PolicyRule) {
	for range p.rng.IntN(6) {
		r := rbacv1.PolicyRule{Verbs: p.some(4, p.oneOf(policyVerbs))}
		if p.rng.IntN(4) > 0 {
			r.APIGroups, r.Resources = p.some(3, p.oneOf(policyGroups)), p.some(4, p.newResource)
			if p.rng.IntN(3) == 0 {
				r.ResourceNames = p.some(3, p.oneOf(policyNames))
			}
			if p.rng.IntN(20) == 0 {
				for i := range 30 {
					r.ResourceNames = append(r.ResourceNames, fmt.Sprintf("name-%d", i))
				}
			}
		}
		if p.rng.IntN(4) == 0 {
			r.NonResourceURLs = p.some(3, p.oneOf(policyURLs))
		}
		out = append(out, r)
	}
	return out
}

func (p *Policy) newRef(namespace, kind string) rbacv1.RoleRef {
	if p.rng.IntN(20) == 0 {
		kind = p.pick([]string{"Role", "Odd"})
	}
	// Most of them exist.
	name := fmt.Sprintf("role-%d", p.rng.IntN(7))
	for range 3 {
		if p.rules["ClusterRole "+name] == nil || kind == "Role" && p.rules["Role "+namespace+"/"+name] == nil {
			name = fmt.Sprintf("role-%d", p.rng.IntN(7))
		}
	}
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}

func (p *Policy) newSubjects() (out []rbacv1.Subject) {
	for range p.rng.IntN(5) {
		switch p.rng.IntN(7) {
		case 0, 1:
			out = append(out, rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: p.pick(policyUsers)})
		case 2, 3, 4:
			out = append(out, rbacv1.Subject{Kind: "Group", APIGroup: rbacv1.GroupName, Name: p.pick(policyUserGroups)})
		case 5:
			out = append(out, rbacv1.Subject{Kind: "ServiceAccount", Namespace: p.pick([]string{"", "one", "two"}), Name: "default"})
		case 6:
			out = append(out, rbacv1.Subject{Kind: p.pick([]string{"Odd", "ServiceAccount"}), Name: p.pick(policyUsers)})
		}
	}
	return out
}

// newRequest returns a request. Most are made from a rule that the user has, with one change.
func (p *Policy) newRequest() Attributes {
	a := Attributes{
		User: User{Name: p.pick(policyUsers), Groups: p.some(4, p.oneOf(policyUserGroups))}, Verb: p.pick(policyVerbs),
		Namespace: p.pick(append([]string{""}, policyNamespaces...)),
	}
	if p.rng.IntN(5) == 0 {
		a.Path = p.pick(policyPaths)
	} else {
		a.APIGroup, a.Name = p.pick(policyGroups), p.pick(append([]string{"", "name-7"}, policyNames...))
		a.Resource, a.Subresource, _ = strings.Cut(p.newResource(), "/")
	}
	if len(p.bindings) > 0 && p.rng.IntN(5) > 0 {
		p.aim(&a, p.bindings[p.rng.IntN(len(p.bindings))])
	}
	if p.rng.IntN(6) == 0 {
		a.Rules = p.newRules()
		if held := p.held(a.User, a.Namespace); len(held) > 0 && p.rng.IntN(3) > 0 {
			a.Rules = []rbacv1.PolicyRule{*held[p.rng.IntN(len(held))].DeepCopy()}
			p.spoil(&a.Rules[0])
		}
		if len(a.Rules) == 0 {
			a.Rules = []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/"}}}
		}
	}
	return a
}

// aim makes a request one that a binding may allow.
func (p *Policy) aim(a *Attributes, b policyBinding) {
	role := b.ref.Kind + " " + b.ref.Name
	if b.ref.Kind == "Role" {
		role = "Role " + b.namespace + "/" + b.ref.Name
	}
	rules := p.rules[role]
	keep := p.rng.IntN(12)
	if len(b.subjects) > 0 && keep != 0 {
		switch s := b.subjects[p.rng.IntN(len(b.subjects))]; s.Kind {
		case "User":
			a.User.Name = s.Name
		case "Group":
			a.User.Groups = append(a.User.Groups, s.Name)
		case "ServiceAccount":
			namespace := s.Namespace
			if namespace == "" {
				namespace = b.namespace
			}
			a.User.Name = "system:serviceaccount:" + namespace + ":" + s.Name
		}
	}
	if b.namespace != "" && keep != 1 {
		a.Namespace = b.namespace
	}
	if len(rules) == 0 {
		return
	}
	r := rules[p.rng.IntN(len(rules))]
	if len(r.Verbs) > 0 && keep != 2 {
		a.Verb = p.pick(r.Verbs)
	}
	if a.Path != "" {
		if len(r.NonResourceURLs) > 0 && keep != 3 {
			a.Path = p.pick(r.NonResourceURLs)
			if a.Path == "" || p.rng.IntN(3) == 0 {
				a.Path = strings.ReplaceAll(a.Path, "*", "") + "x"
			}
		}
		return
	}
	if len(r.APIGroups) > 0 && keep != 4 {
		a.APIGroup = p.pick(r.APIGroups)
	}
	if len(r.Resources) > 0 && keep != 5 {
		a.Resource, a.Subresource, _ = strings.Cut(p.pick(r.Resources), "/")
		if a.Resource == "*" && p.rng.IntN(2) == 0 {
			a.Resource = p.pick(policyResources)
		}
	}
	if len(r.ResourceNames) > 0 && keep != 6 {
		a.Name = p.pick(r.ResourceNames)
	}
}

// held returns rules that a user may have.
func (p *Policy) held(u User, namespace string) (out []rbacv1.PolicyRule) {
	for _, b := range p.bindings {
		if b.namespace != "" && b.namespace != namespace {
			continue
		}
		if slices.ContainsFunc(b.subjects, func(s rbacv1.Subject) bool { return s.Name == u.Name || slices.Contains(u.Groups, s.Name) }) {
			out = append(out, p.rules["ClusterRole "+b.ref.Name]...)
		}
	}
	return out
}

// spoil changes a rule a little, or not at all.
func (p *Policy) spoil(r *rbacv1.PolicyRule) {
	switch p.rng.IntN(8) {
	case 0:
		r.Verbs = append(r.Verbs, p.pick(policyVerbs))
	case 1:
		r.ResourceNames = nil
	case 2:
		r.ResourceNames = append(r.ResourceNames, "a")
	case 3:
		r.Resources = append(r.Resources, p.newResource())
	case 4:
		r.NonResourceURLs = append(r.NonResourceURLs, p.pick(policyURLs))
	case 5:
		r.APIGroups = append(r.APIGroups, p.pick(policyGroups))
	}
}
