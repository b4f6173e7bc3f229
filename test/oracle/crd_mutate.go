package oracle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// CRDMutator generates CRDs, and updates of them, from given ones. The same seed generates
// the same cases.
type CRDMutator struct {
	seed  uint64
	bases []map[string]any
}

// maxBase bounds the size of a base CRD as JSON, because the reference is slow.
const maxBase = 40_000

// NewCRDMutator returns a mutator of the given CRDs.
func NewCRDMutator(seed uint64, crds []map[string]any) *CRDMutator {
	m := &CRDMutator{seed: seed}
	for _, crd := range crds {
		if len(mustJSON(crd)) <= maxBase {
			m.bases = append(m.bases, clone(crd))
		}
	}
	return m
}

// Kinds lists the names of all changes.
func (m *CRDMutator) Kinds() []string {
	var kinds []string
	for _, c := range crdChanges() {
		kinds = append(kinds, c.name)
	}
	for _, c := range schemaChanges() {
		kinds = append(kinds, c.name)
	}
	return kinds
}

// Case generates case n, and returns the names of its changes. One in four is a create.
func (m *CRDMutator) Case(n uint64) (CRDCase, []string) {
	g := &gen{r: rand.New(rand.NewPCG(m.seed, n)), room: 30}
	base := m.base(g)
	c := CRDCase{Name: fmt.Sprintf("seed %d case %d", m.seed, n)}
	var kinds []string
	if g.chance(25) {
		c.New = clone(base)
		kinds = g.changeCRD(c.New, 1+g.r.IntN(3))
		c.Name += " " + strings.Join(kinds, ", ")
		return c, kinds
	}
	c.Old = clone(base)
	if g.chance(70) {
		g.establish(c.Old)
	}
	oldKinds := g.changeCRD(c.Old, g.r.IntN(4))
	c.New = clone(c.Old)
	if g.chance(25) {
		c.New = clone(base)
	}
	kinds = g.changeCRD(c.New, g.r.IntN(4))
	c.Name += fmt.Sprintf(" old: %s; new: %s", strings.Join(oldKinds, ", "), strings.Join(kinds, ", "))
	return c, append(oldKinds, kinds...)
}

// base picks a CRD of the corpus, or generates a small one.
func (m *CRDMutator) base(g *gen) map[string]any {
	if len(m.bases) > 0 && g.chance(40) {
		return pick(g, m.bases)
	}
	schema := func() map[string]any {
		g.room = 8 + g.r.IntN(20)
		return g.rootSchema()
	}
	version := func(name string, storage bool, s map[string]any) map[string]any {
		return object("name", name, "served", true, "storage", storage, "schema", object("openAPIV3Schema", s))
	}
	versions := list(version("v1", true, schema()))
	if g.chance(35) {
		second := schema()
		if g.chance(50) {
			second = clone(versions[0].(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any))
		}
		versions = append(versions, version("v2", false, second))
	}
	return object(
		"apiVersion", "apiextensions.k8s.io/v1", "kind", "CustomResourceDefinition",
		"metadata", object("name", "things.example.com"),
		"spec", object("group", "example.com", "scope", "Namespaced",
			"names", object("plural", "things", "kind", "Thing"),
			"versions", versions))
}

// establish adds the status of a served CRD.
func (g *gen) establish(crd map[string]any) {
	status := object("conditions", list(object("type", "Established", "status", "True")), "acceptedNames", object("plural", "things", "kind", "Thing"))
	crd["status"] = status
}

// crdChange is one way to change a CRD.
type crdChange struct {
	name   string
	change func(g *gen, crd, spec map[string]any)
}

// changeCRD applies n changes and returns their names.
func (g *gen) changeCRD(crd map[string]any, n int) (names []string) {
	for range n {
		spec, _ := crd["spec"].(map[string]any)
		if spec == nil {
			return names
		}
		if g.chance(70) {
			c := pick(g, schemaChanges())
			if s := g.someSchema(spec); s != nil {
				c.change(g, s)
				names = append(names, c.name)
			}
			continue
		}
		c := pick(g, crdChanges())
		c.change(g, crd, spec)
		names = append(names, c.name)
	}
	return names
}

// crdVersions returns the versions of a spec.
func crdVersions(spec map[string]any) []map[string]any {
	vs, _ := spec["versions"].([]any)
	var out []map[string]any
	for _, v := range vs {
		if v, ok := v.(map[string]any); ok {
			out = append(out, v)
		}
	}
	return out
}

// someSchema picks one of the schemas of a CRD, at any depth.
func (g *gen) someSchema(spec map[string]any) map[string]any {
	var all []map[string]any
	for _, v := range crdVersions(spec) {
		if s := schemaOf(v["schema"]); s != nil {
			schemasIn(s, &all)
		}
	}
	if len(all) == 0 {
		return nil
	}
	if g.chance(15) {
		return all[0]
	}
	return pick(g, all)
}

// schemasIn lists s and the schemas below it, logical operators included.
func schemasIn(s map[string]any, all *[]map[string]any) {
	*all = append(*all, s)
	for _, k := range sortedKeys(s) {
		switch k {
		case "properties", "patternProperties", "definitions", "dependencies":
			m, _ := s[k].(map[string]any)
			for _, name := range sortedKeys(m) {
				if sub, ok := m[name].(map[string]any); ok {
					schemasIn(sub, all)
				}
			}
		case "items", "additionalProperties", "additionalItems", "not":
			if sub, ok := s[k].(map[string]any); ok {
				schemasIn(sub, all)
			}
		case "allOf", "anyOf", "oneOf":
			subs, _ := s[k].([]any)
			for _, sub := range subs {
				if sub, ok := sub.(map[string]any); ok {
					schemasIn(sub, all)
				}
			}
		}
	}
}

// inVersion turns a change of a version into a change of a CRD.
func inVersion(change func(g *gen, v map[string]any)) func(*gen, map[string]any, map[string]any) {
	return func(g *gen, _, spec map[string]any) {
		if vs := crdVersions(spec); len(vs) > 0 {
			if g.chance(20) {
				for _, v := range vs {
					change(g, v)
				}
				return
			}
			change(g, pick(g, vs))
		}
	}
}

// setOne sets a key to one of the values, or removes it.
func setOne(key string, values ...any) func(*gen, map[string]any) {
	return func(g *gen, m map[string]any) {
		if g.chance(15) {
			delete(m, key)
			return
		}
		m[key] = cloneAny(pick(g, values))
	}
}

func inSpec(change func(*gen, map[string]any)) func(*gen, map[string]any, map[string]any) {
	return func(g *gen, _, spec map[string]any) { change(g, spec) }
}

func inNames(change func(*gen, map[string]any)) func(*gen, map[string]any, map[string]any) {
	return func(g *gen, _, spec map[string]any) {
		if names, ok := spec["names"].(map[string]any); ok {
			change(g, names)
		}
	}
}

func inMeta(change func(*gen, map[string]any)) func(*gen, map[string]any, map[string]any) {
	return func(g *gen, crd, _ map[string]any) {
		if meta, ok := crd["metadata"].(map[string]any); ok {
			change(g, meta)
		}
	}
}

// inStatus makes a change to the status. A create drops the status; the object that an update
// replaces keeps it.
func inStatus(change func(*gen, map[string]any)) func(*gen, map[string]any, map[string]any) {
	return func(g *gen, crd, _ map[string]any) {
		status, ok := crd["status"].(map[string]any)
		if !ok {
			status = object("conditions", list(), "acceptedNames", object("plural", "", "kind", ""))
			crd["status"] = status
		}
		change(g, status)
	}
}

func long(n int) string { return strings.Repeat("a", n) }

func repeat(n int, make func(i int) any) []any {
	out := []any{}
	for i := range n {
		out = append(out, make(i))
	}
	return out
}

// rotate returns values with the first moved to the end.
func rotate(values []any) []any {
	if len(values) < 2 {
		return values
	}
	return append(slices.Clone(values[1:]), values[0])
}
