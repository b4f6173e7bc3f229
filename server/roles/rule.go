package roles

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// all is the value that stands for all verbs, API groups or resources.
const all = "*"

// request is what rules decide about.
type request struct {
	verb                               string
	resourceRequest                    bool
	group, resource, subresource, name string
	path                               string
}

func newRequest(a authorizer.Attributes) request {
	q := request{verb: a.GetVerb(), resourceRequest: a.IsResourceRequest()}
	if q.resourceRequest {
		q.group, q.resource, q.subresource, q.name = a.GetAPIGroup(), a.GetResource(), a.GetSubresource(), a.GetName()
	} else {
		q.path = a.GetPath()
	}
	return q
}

// rule is a rule that is prepared for evaluation.
type rule struct {
	*rbacv1.PolicyRule
	anyVerb, anyResource bool
	// names has the resource names if they are many.
	names map[string]struct{}
}

// manyNames is the number of resource names from which on a map is faster than a slice.
const manyNames = 16

func compileRule(p *rbacv1.PolicyRule) rule {
	r := rule{PolicyRule: p, anyVerb: slices.Contains(p.Verbs, all), anyResource: slices.Contains(p.Resources, all)}
	if len(p.ResourceNames) > manyNames {
		r.names = make(map[string]struct{}, len(p.ResourceNames))
		for _, name := range p.ResourceNames {
			r.names[name] = struct{}{}
		}
	}
	return r
}

// allowsResource reports whether the rule allows a request for a resource of a group that the
// rule has.
func (r *rule) allowsResource(q *request) bool {
	return r.matchesResource(q) && r.matchesVerb(q.verb) && r.matchesName(q.name)
}

func (r *rule) allowsPath(q *request) bool {
	return r.matchesVerb(q.verb) && slices.ContainsFunc(r.NonResourceURLs, func(url string) bool { return matchesURL(url, q.path) })
}

func (r *rule) matchesVerb(verb string) bool { return r.anyVerb || slices.Contains(r.Verbs, verb) }

func (r *rule) matchesName(name string) bool {
	switch {
	case len(r.ResourceNames) == 0:
		return true
	case r.names != nil:
		_, ok := r.names[name]
		return ok
	}
	return slices.Contains(r.ResourceNames, name)
}

func (r *rule) matchesResource(q *request) bool {
	if r.anyResource {
		return true
	}
	for _, have := range r.Resources {
		if q.subresource == "" {
			if have == q.resource {
				return true
			}
			continue
		}
		// The resource of a rule is "resource/subresource" or "*/subresource".
		n := len(have) - len(q.subresource) - 1
		if n >= 0 && have[n] == '/' && have[n+1:] == q.subresource && (have[:n] == q.resource || have[:n] == all) {
			return true
		}
	}
	return false
}

// matchesURL reports whether the URL of a rule, which may end with "*", includes a path.
func matchesURL(url, path string) bool {
	if url == path {
		return true
	}
	return strings.HasSuffix(url, all) && strings.HasPrefix(path, strings.TrimRight(url, all))
}

// role has the rules of a role.
type role struct {
	policy []rbacv1.PolicyRule
	// byGroup has the rules for resources of API groups, and anyGroup those for all groups.
	byGroup  map[string][]*rule
	anyGroup []*rule
	// paths has the rules with non-resource URLs.
	paths []*rule
	// err is the reason why the role cannot be read, or nil.
	err error
}

func compileRole(policy []rbacv1.PolicyRule) *role {
	r := &role{policy: policy, byGroup: map[string][]*rule{}}
	rules := make([]rule, len(policy))
	for i := range policy {
		rules[i] = compileRule(&policy[i])
		if len(policy[i].NonResourceURLs) > 0 {
			r.paths = append(r.paths, &rules[i])
		}
		if slices.Contains(policy[i].APIGroups, all) {
			r.anyGroup = append(r.anyGroup, &rules[i])
			continue
		}
		for _, group := range policy[i].APIGroups {
			r.byGroup[group] = append(r.byGroup[group], &rules[i])
		}
	}
	return r
}

// allows reports whether a rule of the role allows a request.
func (r *role) allows(q *request) bool {
	if !q.resourceRequest {
		return slices.ContainsFunc(r.paths, func(one *rule) bool { return one.allowsPath(q) })
	}
	allows := func(one *rule) bool { return one.allowsResource(q) }
	return slices.ContainsFunc(r.byGroup[q.group], allows) || slices.ContainsFunc(r.anyGroup, allows)
}
