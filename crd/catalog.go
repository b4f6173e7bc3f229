package crd

import (
	"iter"
	"strings"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/api"
	"espalier.dev/internal/persistent"
)

// Catalog is an immutable set of Definitions. The zero value is empty. With and Without
// return a new Catalog, which shares everything that has not changed: a change costs
// O(log n).
type Catalog struct {
	byName persistent.Map[*Definition]
	groups persistent.Map[*group]
}

// group has the Definitions of an API group. It is immutable, and the same in all Catalogs
// until one of its Definitions changes.
type group struct {
	byName persistent.Map[*Definition]
	// uses has the Definitions by the names that they use, see use.
	uses persistent.Map[*Definition]
}

// The ways in which a Definition uses a name. Each is a prefix of the keys of group.uses.
const (
	takesResource = "resource" // an accepted plural, singular or short name
	takesKind     = "kind"     // an accepted kind or list kind
	isKind        = "is"       // the kind of its objects
	waits         = "waits"    // not all of its names are accepted
)

// use returns the prefix of the keys in group.uses for a name. The rest of a key is the name
// of the Definition.
func use(how, name string) string { return how + "\x00" + name + "\x00" }

// uses returns the keys of a Definition in group.uses.
func uses(d *Definition) (keys []string) {
	accepted := &d.crd.Status.AcceptedNames
	add := func(how string, names ...string) {
		for _, name := range names {
			keys = append(keys, use(how, name)+d.Name())
		}
	}
	add(takesResource, accepted.Plural, accepted.Singular)
	add(takesResource, accepted.ShortNames...)
	add(takesKind, accepted.Kind, accepted.ListKind)
	add(isKind, d.Names().Kind)
	if !isTrue(&d.crd.Status, api.NamesAccepted) {
		add(waits, "")
	}
	return keys
}

// with returns the group without old and with d. Either may be nil.
func (g *group) with(old, d *Definition) *group {
	out := &group{}
	if g != nil {
		*out = *g
	}
	if old != nil {
		out.byName = out.byName.Delete(old.Name())
		for _, key := range uses(old) {
			out.uses = out.uses.Delete(key)
		}
	}
	if d != nil {
		out.byName = out.byName.Set(d.Name(), d)
		for _, key := range uses(d) {
			out.uses = out.uses.Set(key, d)
		}
	}
	return out
}

// using returns the Definitions that use a name.
func (g *group) using(how, name string) iter.Seq[*Definition] {
	return func(yield func(*Definition) bool) {
		if g == nil {
			return
		}
		prefix := use(how, name)
		for key, d := range g.uses.From(prefix) {
			if !strings.HasPrefix(key, prefix) || !yield(d) {
				return
			}
		}
	}
}

// takenFrom reports whether a Definition other than d has accepted a name.
func (g *group) takenFrom(d *Definition, how, name string) bool {
	for other := range g.using(how, name) {
		if other.Name() != d.Name() {
			return true
		}
	}
	return false
}

// NewCatalog returns a Catalog of Definitions. If two have the same name, the later one
// is used.
func NewCatalog(definitions ...*Definition) *Catalog {
	c := &Catalog{}
	for _, d := range definitions {
		c.change(d.Name(), d)
	}
	return c
}

// With returns the Catalog with d, which replaces a Definition of the same name.
func (c *Catalog) With(d *Definition) *Catalog {
	out := c.clone()
	out.change(d.Name(), d)
	return out
}

// Without returns the Catalog without the Definition of that name.
func (c *Catalog) Without(name string) *Catalog {
	out := c.clone()
	out.change(name, nil)
	return out
}

func (c *Catalog) clone() *Catalog {
	if c == nil {
		return &Catalog{}
	}
	out := *c
	return &out
}

// change replaces the Definition of a name. d may be nil.
func (c *Catalog) change(name string, d *Definition) {
	if old := c.Get(name); old != nil {
		c.regroup(old.Group(), old, nil)
		c.byName = c.byName.Delete(name)
	}
	if d != nil {
		c.regroup(d.Group(), nil, d)
		c.byName = c.byName.Set(name, d)
	}
}

func (c *Catalog) regroup(name string, old, d *Definition) {
	g := c.group(name).with(old, d)
	if g.byName.Len() == 0 {
		c.groups = c.groups.Delete(name)
		return
	}
	c.groups = c.groups.Set(name, g)
}

// group returns a group, or nil.
func (c *Catalog) group(name string) *group {
	if c == nil {
		return nil
	}
	g, _ := c.groups.Get(name)
	return g
}

// Len returns the number of Definitions.
func (c *Catalog) Len() int {
	if c == nil {
		return 0
	}
	return c.byName.Len()
}

// All returns the Definitions, sorted by name.
func (c *Catalog) All() []*Definition {
	if c == nil {
		return nil
	}
	return values(c.byName)
}

func values(m persistent.Map[*Definition]) []*Definition {
	all := make([]*Definition, 0, m.Len())
	for _, d := range m.All() {
		all = append(all, d)
	}
	return all
}

// Groups returns the names of all groups, sorted.
func (c *Catalog) Groups() []string {
	if c == nil {
		return nil
	}
	names := make([]string, 0, c.groups.Len())
	for name := range c.groups.All() {
		names = append(names, name)
	}
	return names
}

// Group returns the Definitions of a group, sorted by name.
func (c *Catalog) Group(name string) []*Definition {
	if g := c.group(name); g != nil {
		return values(g.byName)
	}
	return nil
}

// SameGroup reports whether no Definition of a group has changed between two Catalogs, of
// which one was made from the other. It is a cheap way to find the groups that changed.
func (c *Catalog) SameGroup(other *Catalog, name string) bool {
	return c.group(name) == other.group(name)
}

// Waiting returns the Definitions of a group whose names are not all accepted, sorted by
// name. Another Definition that goes may leave them theirs.
func (c *Catalog) Waiting(name string) []*Definition {
	var out []*Definition
	for d := range c.group(name).using(waits, "") {
		out = append(out, d)
	}
	return out
}

// Get returns the Definition of that name, or nil.
func (c *Catalog) Get(name string) *Definition {
	if c == nil {
		return nil
	}
	d, _ := c.byName.Get(name)
	return d
}

// Resource returns the version that serves a resource, or nil. The Definition must be
// established and the version served.
func (c *Catalog) Resource(gvr runtimeschema.GroupVersionResource) *Version {
	d := c.Get(gvr.Resource + "." + gvr.Group)
	if d == nil || !d.Established() {
		return nil
	}
	return served(d, gvr.Version)
}

// Kind returns the version that serves a kind, or nil.
func (c *Catalog) Kind(gvk runtimeschema.GroupVersionKind) *Version {
	for d := range c.group(gvk.Group).using(isKind, gvk.Kind) {
		if d.Established() {
			if v := served(d, gvk.Version); v != nil {
				return v
			}
		}
	}
	return nil
}

// Serves reports whether a version of a group has a resource.
func (c *Catalog) Serves(gv runtimeschema.GroupVersion) bool {
	g := c.group(gv.Group)
	if g == nil {
		return false
	}
	for _, d := range g.byName.All() {
		if d.Established() && served(d, gv.Version) != nil {
			return true
		}
	}
	return false
}

func served(d *Definition, version string) *Version {
	if v := d.Version(version); v != nil && v.Served() {
		return v
	}
	return nil
}
