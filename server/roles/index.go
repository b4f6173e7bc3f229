package roles

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// index has all roles and bindings at one revision. It is immutable.
type index struct {
	// roles has the roles, and cluster roles with an empty namespace, by roleKey.
	roles table[*role]
	// bindings has the bindings by their key in the store.
	bindings table[*binding]
	// cluster has the cluster role bindings, spaces the role bindings of each namespace.
	cluster *space
	spaces  table[*space]
}

// space has the bindings of a namespace, or those of the cluster, by their subjects. Service
// accounts are users.
type space struct{ users, groups table[[]*grant] }

// binding binds a role to subjects.
type binding struct {
	name, namespace string
	ref             rbacv1.RoleRef
	role            string // the roleKey of the role
	grants          []*grant
}

// grant is a subject of a binding.
type grant struct {
	binding *binding
	// position is that of the subject in the binding.
	position int
	group    bool
	subject  string // the name of the user or group
	// reason is the reason for what it allows.
	reason string
}

// compare orders grants by the name of their binding, and in a binding by position.
func (g *grant) compare(other *grant) int {
	if g.binding == other.binding {
		return g.position - other.position
	}
	return strings.Compare(g.binding.name, other.binding.name)
}

// roleKey returns the key of a role in an index. The namespace of a cluster role is empty.
func roleKey(namespace, name string) string { return namespace + "/" + name }

// newBinding returns a binding. Its namespace is empty if it is a ClusterRoleBinding.
func newBinding(namespace, name string, ref rbacv1.RoleRef, subjects []rbacv1.Subject) *binding {
	b := &binding{name: name, namespace: namespace, ref: ref}
	kind, title := "ClusterRoleBinding", name
	if namespace != "" {
		kind, title = "RoleBinding", name+"/"+namespace
	}
	switch ref.Kind {
	case "Role":
		b.role = roleKey(namespace, ref.Name)
		if namespace == "" {
			b.role = "" // a role has a namespace: there is none
		}
	case "ClusterRole":
		b.role = roleKey("", ref.Name)
	}
	type identity struct {
		group   bool
		subject string
	}
	seen := make(map[identity]bool, len(subjects))
	for i := range subjects {
		s := &subjects[i]
		g := &grant{binding: b, position: i, subject: s.Name}
		described := s.Name
		switch s.Kind {
		case rbacv1.UserKind:
		case rbacv1.GroupKind:
			g.group = true
		case rbacv1.ServiceAccountKind:
			of := s.Namespace
			if of == "" {
				of = namespace
			}
			if of == "" {
				continue
			}
			g.subject, described = serviceaccount.MakeUsername(of, s.Name), s.Name+"/"+of
		default:
			continue
		}
		if seen[identity{g.group, g.subject}] {
			continue // the first one counts
		}
		seen[identity{g.group, g.subject}] = true
		g.reason = fmt.Sprintf("RBAC: allowed by %s %q of %s %q to %s %q", kind, title, ref.Kind, ref.Name, s.Kind, described)
		b.grants = append(b.grants, g)
	}
	return b
}

// space returns the bindings of a namespace, or nil if there are none.
func (x *index) space(namespace string) *space {
	if namespace == "" {
		return x.cluster
	}
	return x.spaces.get(namespace)
}

// allowed returns the reason why a user may do something in a namespace, or an empty string.
// unresolved reports that a role of the user does not exist or cannot be read.
func (x *index) allowed(q *request, who user.Info, namespace string) (reason string, unresolved bool) {
	reason, unresolved = x.allowedIn(x.cluster, q, who)
	if reason == "" && namespace != "" {
		var more bool
		reason, more = x.allowedIn(x.space(namespace), q, who)
		unresolved = unresolved || more
	}
	return reason, unresolved
}

func (x *index) allowedIn(s *space, q *request, who user.Info) (reason string, unresolved bool) {
	var c cursor
	c.open(s, who)
	for g := c.next(); g != nil; g = c.next() {
		switch r := x.roles.get(g.binding.role); {
		case r == nil || r.err != nil:
			unresolved = true
		case r.allows(q):
			return g.reason, unresolved
		}
	}
	return "", unresolved
}

// visit calls f with all roles that a user has in a namespace, in the order in which they are
// evaluated, until f returns false. A role that does not exist is nil.
func (x *index) visit(who user.Info, namespace string, f func(*binding, *role) bool) {
	spaces := []*space{x.cluster}
	if namespace != "" {
		spaces = append(spaces, x.space(namespace))
	}
	for _, s := range spaces {
		var c cursor
		c.open(s, who)
		var last *binding
		for g := c.next(); g != nil; g = c.next() {
			// A binding may have several of the user's names: it counts once.
			if g.binding != last && !f(g.binding, x.roles.get(g.binding.role)) {
				return
			}
			last = g.binding
		}
	}
}

// cursor returns the grants of a user in the order of their bindings. It does not allocate,
// unless the user is in many groups with bindings.
type cursor struct {
	n     int
	few   [8][]*grant
	lists [][]*grant // if they are more
}

// open begins with the grants of a user in a space.
func (c *cursor) open(s *space, who user.Info) {
	if s == nil {
		return
	}
	c.add(s.users.get(who.GetName()))
	if s.groups.n == 0 {
		return
	}
	for _, group := range who.GetGroups() {
		c.add(s.groups.get(group))
	}
}

func (c *cursor) add(list []*grant) {
	switch {
	case len(list) == 0:
	case c.lists != nil:
		c.lists = append(c.lists, list)
	case c.n == len(c.few):
		c.lists = append(slices.Clone(c.few[:]), list)
	default:
		c.few[c.n] = list
		c.n++
	}
}

// next returns the next grant, or nil.
func (c *cursor) next() (first *grant) {
	if c.lists != nil {
		return pop(c.lists)
	}
	return pop(c.few[:c.n])
}

// pop removes the first of all grants.
func pop(lists [][]*grant) (first *grant) {
	from := 0
	for i, list := range lists {
		if len(list) > 0 && (first == nil || list[0].compare(first) < 0) {
			first, from = list[0], i
		}
	}
	if first != nil {
		lists[from] = lists[from][1:]
	}
	return first
}
