package roles

import "slices"

// changes changes a copy of an index.
type changes struct {
	base *index
	// fresh is set if no reader has the grants of the copy: they are added in order.
	fresh    bool
	roles    *edit[*role]
	bindings *edit[*binding]
	// spaces has the bindings that change, by namespace.
	spaces map[string]*spaceEdit
}

type spaceEdit struct{ users, groups *edit[[]*grant] }

// change returns the changes of an index. A nil index is empty.
func (x *index) change() *changes {
	fresh := x == nil
	if fresh {
		x = &index{}
	}
	return &changes{base: x, fresh: fresh, roles: x.roles.edit(), bindings: x.bindings.edit(), spaces: map[string]*spaceEdit{}}
}

// setRole sets a role, or removes it if it is nil.
func (c *changes) setRole(key string, r *role) {
	if r == nil {
		c.roles.delete(key)
		return
	}
	c.roles.set(key, r)
}

// setBinding sets the binding with a key in the store, or removes it if it is nil.
func (c *changes) setBinding(key string, b *binding) {
	if old := c.bindings.get(key); old != nil {
		s := c.space(old.namespace)
		for _, g := range old.grants {
			s.of(g).remove(g)
		}
		c.bindings.delete(key)
	}
	if b == nil {
		return
	}
	c.bindings.set(key, b)
	s := c.space(b.namespace)
	for _, g := range b.grants {
		s.of(g).add(g, c.fresh)
	}
}

func (c *changes) space(namespace string) *spaceEdit {
	s := c.spaces[namespace]
	if s == nil {
		old := c.base.space(namespace)
		if old == nil {
			old = &space{}
		}
		s = &spaceEdit{users: old.users.edit(), groups: old.groups.edit()}
		c.spaces[namespace] = s
	}
	return s
}

// grants are those of users or groups.
type grants struct{ *edit[[]*grant] }

func (s *spaceEdit) of(g *grant) grants {
	if g.group {
		return grants{s.groups}
	}
	return grants{s.users}
}

func (e grants) add(g *grant, fresh bool) {
	list := e.get(g.subject)
	at, _ := slices.BinarySearchFunc(list, g, (*grant).compare)
	if fresh && at == len(list) {
		e.set(g.subject, append(list, g))
		return
	}
	out := make([]*grant, 0, len(list)+1)
	out = append(append(append(out, list[:at]...), g), list[at:]...)
	e.set(g.subject, out)
}

func (e grants) remove(g *grant) {
	list := e.get(g.subject)
	at := slices.Index(list, g)
	if at < 0 {
		return
	}
	if len(list) == 1 {
		e.delete(g.subject)
		return
	}
	e.set(g.subject, append(slices.Clone(list[:at]), list[at+1:]...))
}

// apply returns the changed index.
func (c *changes) apply() *index {
	out := &index{roles: c.roles.table, bindings: c.bindings.table, cluster: c.base.cluster, spaces: c.base.spaces}
	edited := out.spaces.edit()
	for namespace, s := range c.spaces {
		changed := &space{users: s.users.table, groups: s.groups.table}
		switch {
		case namespace == "":
			out.cluster = changed
		case changed.users.n+changed.groups.n == 0:
			edited.delete(namespace)
		default:
			edited.set(namespace, changed)
		}
	}
	out.spaces = edited.table
	return out
}
