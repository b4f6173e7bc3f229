package schema

import (
	"maps"
	"slices"

	"espalier.dev/api"
)

// unionCheck is one union of x-kubernetes-unions: exactly one member is set, and the
// discriminator, if present, names it.
type unionCheck struct {
	discriminator string
	members       []string
	values        []string // of the discriminator, for each member
}

// unionChecks are the unions of a node; nil means none.
type unionChecks []unionCheck

func (u *unionChecks) all() []unionCheck {
	if u == nil {
		return nil
	}
	return *u
}

func newUnionChecks(unions []api.Union) *unionChecks {
	if len(unions) == 0 {
		return nil
	}
	checks := make(unionChecks, 0, len(unions))
	for _, u := range unions {
		if len(u.Fields) == 0 {
			continue
		}
		c := unionCheck{discriminator: u.Discriminator, members: slices.Sorted(maps.Keys(u.Fields))}
		for _, m := range c.members {
			c.values = append(c.values, u.Fields[m])
		}
		checks = append(checks, c)
	}
	return &checks
}

// set returns the index of a member that is set or -1, and the number of members that are
// set.
func (u *unionCheck) set(obj map[string]any) (member, count int) {
	member = -1
	for i, name := range u.members {
		if _, ok := obj[name]; ok {
			member = i
			count++
		}
	}
	return member, count
}

// holds reports whether obj satisfies the union.
func (u *unionCheck) holds(obj map[string]any) bool {
	member, count := u.set(obj)
	return count == 1 && u.agrees(obj, member)
}

// agrees reports whether the discriminator is absent or names the member.
func (u *unionCheck) agrees(obj map[string]any, member int) bool {
	if u.discriminator == "" {
		return true
	}
	v, ok := obj[u.discriminator]
	return !ok || v == u.values[member]
}
