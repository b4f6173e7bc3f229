package rbac

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// permission is the smallest part of a rule: one verb on one resource of one API group, possibly
// with one name, or one verb on one URL.
type permission struct {
	subject
	verb string
}

// subject is what a permission is for.
type subject struct {
	url             string
	group, resource string
	named           bool
	name            string
	// path is set if it is a URL.
	path bool
}

// permissions returns the permissions of a rule.
func permissions(p *rbacv1.PolicyRule) (out []permission) {
	for _, group := range p.APIGroups {
		for _, resource := range p.Resources {
			for _, verb := range p.Verbs {
				s := subject{group: group, resource: resource}
				if len(p.ResourceNames) == 0 {
					out = append(out, permission{s, verb})
				}
				for _, name := range p.ResourceNames {
					s.named, s.name = true, name
					out = append(out, permission{s, verb})
				}
			}
		}
	}
	for _, url := range p.NonResourceURLs {
		for _, verb := range p.Verbs {
			out = append(out, permission{subject{path: true, url: url}, verb})
		}
	}
	return out
}

// covers reports whether a rule includes a permission.
func covers(p *rbacv1.PolicyRule, want *permission) bool {
	if !has(p.Verbs, want.verb) {
		return false
	}
	if want.path {
		return len(p.ResourceNames) == 0 && slices.ContainsFunc(p.NonResourceURLs, func(url string) bool { return matchesURL(url, want.url) })
	}
	if !has(p.APIGroups, want.group) {
		return false
	}
	if len(p.ResourceNames) > 0 && !(want.named && slices.Contains(p.ResourceNames, want.name)) {
		return false
	}
	if has(p.Resources, want.resource) {
		return true
	}
	_, sub, ok := strings.Cut(want.resource, "/")
	return ok && slices.Contains(p.Resources, all+"/"+sub)
}

// has reports whether a list has a value, or all.
func has(list []string, value string) bool {
	return slices.Contains(list, value) || slices.Contains(list, all)
}

// uncovered returns the permissions of some rules that others do not include.
func uncovered(have, want []rbacv1.PolicyRule) (out []permission) {
	for i := range want {
		for _, p := range permissions(&want[i]) {
			if !slices.ContainsFunc(have, func(one rbacv1.PolicyRule) bool { return covers(&one, &p) }) {
				out = append(out, p)
			}
		}
	}
	return out
}

// describe describes permissions as Kubernetes does: a line for each resource with its verbs, and
// one for each verb of a URL, sorted.
func describe(list []permission) string {
	lines := map[string]bool{}
	var order []subject
	verbs := map[subject][]string{}
	for _, p := range list {
		if p.path {
			lines[fmt.Sprintf("{NonResourceURLs:%q, Verbs:%q}", []string{p.url}, []string{p.verb})] = true
			continue
		}
		if verbs[p.subject] == nil {
			order = append(order, p.subject)
		}
		verbs[p.subject] = append(verbs[p.subject], p.verb)
	}
	for _, s := range order {
		line := fmt.Sprintf("{APIGroups:%q, Resources:%q", []string{s.group}, []string{s.resource})
		if s.named {
			line += fmt.Sprintf(", ResourceNames:%q", []string{s.name})
		}
		lines[line+fmt.Sprintf(", Verbs:%q}", verbs[s])] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(lines)), "\n")
}
