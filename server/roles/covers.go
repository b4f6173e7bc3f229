package roles

import (
	"fmt"
	"iter"
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

// permissions returns the permissions of a rule. They are the product of its lists, so a small
// rule can have billions.
func permissions(p *rbacv1.PolicyRule) iter.Seq[permission] {
	return func(yield func(permission) bool) {
		names := p.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range p.APIGroups {
			for _, resource := range p.Resources {
				for _, verb := range p.Verbs {
					for _, name := range names {
						if !yield(permission{subject{group: group, resource: resource,
							named: len(p.ResourceNames) > 0, name: name}, verb}) {
							return
						}
					}
				}
			}
		}
		for _, url := range p.NonResourceURLs {
			for _, verb := range p.Verbs {
				if !yield(permission{subject{path: true, url: url}, verb}) {
					return
				}
			}
		}
	}
}

// covers reports whether a rule includes a permission.
func covers(p *rbacv1.PolicyRule, want *permission) bool {
	if !has(p.Verbs, want.verb) {
		return false
	}
	if want.path {
		return len(p.ResourceNames) == 0 && slices.ContainsFunc(p.NonResourceURLs,
			func(url string) bool { return matchesURL(url, want.url) })
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

// The limits of what uncovered does, so that no role occupies the server: the number of
// comparisons of texts, which take seconds at most, and the number of permissions that an error
// lists.
const (
	maxCompared = 1 << 29
	maxMissing  = 1 << 13
)

// uncovered returns the permissions of some rules that others do not include. more reports that
// these are not all, because there are too many permissions.
func uncovered(have, want []rbacv1.PolicyRule) (out []permission, more bool) {
	each := 1 // comparisons for a permission
	for i := range have {
		each += 1 + size(&have[i])
	}
	compared := 0
	for i := range want {
		if compared += 2 * each; compared > maxCompared {
			return out, true
		}
		if slices.ContainsFunc(have, func(one rbacv1.PolicyRule) bool { return coversRule(&one, &want[i]) }) {
			continue // without a look at each permission
		}
		for p := range permissions(&want[i]) {
			if compared += each; compared > maxCompared || len(out) >= maxMissing {
				return out, true
			}
			if !slices.ContainsFunc(have, func(one rbacv1.PolicyRule) bool { return covers(&one, &p) }) {
				out = append(out, p)
			}
		}
	}
	return out, false
}

// size returns the number of values in the lists of a rule.
func size(p *rbacv1.PolicyRule) int {
	return len(p.Verbs) + len(p.APIGroups) + len(p.Resources) + len(p.ResourceNames) + len(p.NonResourceURLs)
}

// coversRule reports whether a rule obviously includes another one: all verbs, groups, resources
// and URLs of it.
func coversRule(p, want *rbacv1.PolicyRule) bool {
	includes := func(have, want []string) bool {
		return slices.Contains(have, all) || len(want) <= maxObvious && !slices.ContainsFunc(want,
			func(value string) bool { return !slices.Contains(have, value) })
	}
	return len(p.ResourceNames) == 0 && includes(p.Verbs, want.Verbs) &&
		(len(want.Resources) == 0 || includes(p.APIGroups, want.APIGroups) && includes(p.Resources, want.Resources)) &&
		includes(p.NonResourceURLs, want.NonResourceURLs)
}

// maxObvious is the maximum length of lists that coversRule compares value by value.
const maxObvious = 64

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
