package crd

import (
	"slices"
	"strings"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
)

// Catalog is an immutable set of Definitions. The zero value is empty. With and Without
// return a new Catalog, which shares everything that has not changed.
type Catalog struct {
	byName map[string]*Definition
	// byGroup lists the Definitions of a group, sorted by name.
	byGroup map[string][]*Definition
}

// NewCatalog returns a Catalog of Definitions. If two have the same name, the later one
// is used.
func NewCatalog(definitions ...*Definition) *Catalog {
	c := &Catalog{byName: make(map[string]*Definition, len(definitions)), byGroup: map[string][]*Definition{}}
	for _, d := range definitions {
		c.byName[d.Name()] = d
	}
	for _, d := range c.byName {
		c.byGroup[d.Group()] = append(c.byGroup[d.Group()], d)
	}
	for _, group := range c.byGroup {
		sortDefinitions(group)
	}
	return c
}

func sortDefinitions(list []*Definition) {
	slices.SortFunc(list, func(a, b *Definition) int { return strings.Compare(a.Name(), b.Name()) })
}

// With returns the Catalog with d, which replaces a Definition of the same name.
func (c *Catalog) With(d *Definition) *Catalog { return c.change(d.Name(), d) }

// Without returns the Catalog without the Definition of that name.
func (c *Catalog) Without(name string) *Catalog { return c.change(name, nil) }

func (c *Catalog) change(name string, d *Definition) *Catalog {
	out := &Catalog{byName: make(map[string]*Definition, c.Len()+1), byGroup: map[string][]*Definition{}}
	if c != nil {
		for k, v := range c.byName {
			out.byName[k] = v
		}
		for k, v := range c.byGroup {
			out.byGroup[k] = v
		}
	}
	old := out.byName[name]
	if old != nil {
		out.regroup(old, nil)
		delete(out.byName, name)
	}
	if d != nil {
		out.byName[name] = d
		out.regroup(nil, d)
	}
	return out
}

// regroup removes a Definition from its group, or adds one. It replaces the list of the
// group, because other Catalogs share it.
func (c *Catalog) regroup(remove, add *Definition) {
	if remove != nil {
		group := slices.DeleteFunc(slices.Clone(c.byGroup[remove.Group()]), func(d *Definition) bool { return d == remove })
		c.byGroup[remove.Group()] = group
		if len(group) == 0 {
			delete(c.byGroup, remove.Group())
		}
	}
	if add != nil {
		group := append(slices.Clone(c.byGroup[add.Group()]), add)
		sortDefinitions(group)
		c.byGroup[add.Group()] = group
	}
}

// Len returns the number of Definitions.
func (c *Catalog) Len() int {
	if c == nil {
		return 0
	}
	return len(c.byName)
}

// All returns the Definitions, sorted by name.
func (c *Catalog) All() []*Definition {
	if c == nil {
		return nil
	}
	all := make([]*Definition, 0, len(c.byName))
	for _, d := range c.byName {
		all = append(all, d)
	}
	sortDefinitions(all)
	return all
}

// Groups returns the names of all groups, sorted.
func (c *Catalog) Groups() []string {
	if c == nil {
		return nil
	}
	return sortedKeys(c.byGroup)
}

// Group returns the Definitions of a group, sorted by name.
func (c *Catalog) Group(group string) []*Definition {
	if c == nil {
		return nil
	}
	return slices.Clone(c.byGroup[group])
}

// Get returns the Definition of that name, or nil.
func (c *Catalog) Get(name string) *Definition {
	if c == nil {
		return nil
	}
	return c.byName[name]
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
	if c == nil {
		return nil
	}
	for _, d := range c.byGroup[gvk.Group] {
		if d.Names().Kind == gvk.Kind && d.Established() {
			if v := served(d, gvk.Version); v != nil {
				return v
			}
		}
	}
	return nil
}

func served(d *Definition, version string) *Version {
	if v := d.Version(version); v != nil && v.Served() {
		return v
	}
	return nil
}
