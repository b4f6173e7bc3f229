package generate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/analysis/object"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// Input is a CRD.
type Input struct {
	Definition *crd.Definition
	// Document is the JSON that pointers of findings refer to. If it is empty, they refer to
	// the CRD in v1.
	Document []byte
}

// Problem is a finding about one of the inputs.
type Problem struct {
	// Input is the index of the CRD in the argument of Build.
	Input int
	analysis.Finding
}

const (
	// RuleOpen is the rule about CRDs that preserve all unknown fields.
	RuleOpen = "preserves-all-fields"
	// RuleDuplicate is the rule about kinds that several CRDs define.
	RuleDuplicate = "duplicate-kind"
)

// Rules returns the rules of the problems that Build reports.
func Rules() []analysis.Rule {
	return []analysis.Rule{
		{ID: object.RuleNotStructural, Severity: analysis.Error,
			Summary: "The schema is not structural: no types can be derived from it.", Help: "Run espalier fix."},
		{ID: RuleOpen, Severity: analysis.Error, Summary: "The CRD preserves all unknown fields: no types can be derived from it.",
			Help: "Run espalier fix."},
		{ID: RuleDuplicate, Severity: analysis.Error, Summary: "Several CRDs define the same kind.", Help: "Remove all but one of them."},
	}
}

// Build returns a package for each group and version of the CRDs, sorted by group and
// version. Versions with problems are left out. The time is linear in the size of the schemas.
func Build(inputs []Input) ([]*Package, []Problem) {
	var problems []Problem
	kinds := map[[2]string][]*Kind{}
	for i, in := range inputs {
		checker := object.New(in.Definition, object.Options{Document: func() []byte { return in.Document }})
		for _, v := range in.Definition.Versions() {
			found := blocking(checker, in.Definition, v)
			for _, f := range found {
				problems = append(problems, Problem{i, f})
			}
			if len(found) > 0 {
				continue
			}
			gvk := v.GroupVersionKind()
			key := [2]string{gvk.Group, gvk.Version}
			if same := slices.IndexFunc(kinds[key], func(k *Kind) bool { return k.Name == gvk.Kind }); same >= 0 {
				problems = append(problems, Problem{i, analysis.Finding{
					Rule: RuleDuplicate, Severity: analysis.Error, Path: "spec.names.kind", Pointer: "/spec/names/kind",
					Message: fmt.Sprintf("%s is defined twice in version %s of group %s: remove one of the CRDs", gvk.Kind, gvk.Version,
						gvk.Group),
				}})
				continue
			}
			kinds[key] = append(kinds[key], &Kind{Name: gvk.Kind, Input: i, Version: v})
		}
	}
	var packages []*Package
	for key, list := range kinds {
		slices.SortFunc(list, func(a, b *Kind) int { return cmp.Compare(a.Name, b.Name) })
		p := &Package{Group: key[0], Version: key[1], Kinds: list}
		newBuilder(p).build()
		packages = append(packages, p)
	}
	slices.SortFunc(packages, func(a, b *Package) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version))
	})
	return packages, problems
}

// blocking returns the reasons why no types can be derived from a version.
func blocking(checker *object.Checker, d *crd.Definition, v *crd.Version) (found []analysis.Finding) {
	const advice = "types need a structural schema: espalier fix can make it structural"
	found = checker.NotStructural(v)
	for i := range found {
		found[i].Detail = append(found[i].Detail, advice)
	}
	if len(found) == 0 && d.PreservesUnknownFields() {
		found = append(found, analysis.Finding{
			Rule: RuleOpen, Severity: analysis.Error, Path: "spec.preserveUnknownFields", Pointer: "/spec/preserveUnknownFields",
			Message: "unknown fields of all objects are preserved",
			Detail:  []string{"types would lose these fields: espalier fix --prune stops preserving them"},
		})
	}
	return found
}

// builder finds the types of one package.
type builder struct {
	p       *Package
	digests digests
	names   Names
	// groups holds the occurrences of the schemas of objects by key, and order their
	// keys in the order of their first occurrence.
	groups map[groupKey]*group
	order  []groupKey
}

// groupKey identifies a type: a schema, and what is pruned inside its objects.
type groupKey struct {
	schema  digest
	pruning [2]schema.Pruning
}

func (b *builder) key(c cursors) groupKey { return groupKey{b.digests[c.schema()], c.pruning()} }

// group has the occurrences of one schema.
type group struct {
	occurrences []occurrence
	// types are the types that stand for the schema, by their Doc. There are several if
	// descriptions differ that only the type can hold.
	types map[string]*Type
	first *Type
}

// occurrence is a place where an object with fields occurs.
type occurrence struct {
	at   cursors
	path []string
	kind *Kind
	// needsDoc reports that the description of the type appears here: this is not a field
	// with its own description.
	needsDoc bool
}

func newBuilder(p *Package) *builder {
	return &builder{p: p, digests: digests{}, names: Names{}, groups: map[groupKey]*group{}}
}

// build fills in the types of the package.
func (b *builder) build() {
	for _, k := range b.p.Kinds {
		if isTypeName(k.Name) {
			b.names[k.Name] = true
		}
	}
	for _, k := range b.p.Kinds {
		name := k.Name
		if !isTypeName(name) {
			name = b.names.Unique(CamelCase(name))
		}
		k.Type = &Type{Name: name, Kind: k, Path: k.Name, Schema: k.Version.Structural()}
		if k.Type.Schema == nil {
			k.Type.Schema = &schema.Structural{Generic: schema.Generic{Type: "object"},
				Extensions: schema.Extensions{XPreserveUnknownFields: true}}
		}
		k.Type.at = rootCursors(k.Type.Schema)
		k.Type.Doc, k.Type.Open = k.Type.Schema.Description, k.Type.at.keepUnknown()
		b.p.Types = append(b.p.Types, k.Type)
		b.digests.add(k.Type.Schema)
	}
	// The names of list types and of what packages declare besides types.
	for _, k := range b.p.Kinds {
		b.names[k.Type.Name+"List"] = true
	}
	for _, name := range []string{"GroupVersion", "SchemeBuilder", "AddToScheme"} {
		b.names[name] = true
	}
	for _, o := range b.occurrences() {
		key := b.key(o.at)
		g := b.groups[key]
		if g == nil {
			g = &group{types: map[string]*Type{}}
			b.groups[key] = g
			b.order = append(b.order, key)
		}
		g.occurrences = append(g.occurrences, o)
	}
	for _, d := range b.order {
		b.nameTypes(b.groups[d])
	}
	for _, t := range slices.Clone(b.p.Types) {
		b.fields(t)
	}
	slices.SortFunc(b.p.Types, func(a, b *Type) int { return cmp.Compare(a.Name, b.Name) })
}

// occurrences returns all objects with fields below the roots, in the order in which they get
// names: those with the shortest paths first.
func (b *builder) occurrences() (all []occurrence) {
	for _, k := range b.p.Kinds {
		for _, name := range slices.Sorted(maps.Keys(k.Type.Schema.Properties)) {
			if !IsMeta(name) {
				all = b.visit(all, occurrence{k.Type.at.field(name), []string{name}, k, false})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b occurrence) int { return cmp.Compare(len(a.path), len(b.path)) })
	return all
}

func (b *builder) visit(all []occurrence, o occurrence) []occurrence {
	below := func(c cursors, step string, elem bool) {
		all = b.visit(all, occurrence{c, append(slices.Clip(o.path), step), o.kind, elem})
	}
	switch o.at.kind() {
	case List:
		below(o.at.items(), "item", true)
	case Map:
		below(o.at.mapValue(), "value", true)
	case Object:
		s := o.at.schema()
		o.needsDoc = o.needsDoc || s.Description == ""
		all = append(all, o)
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			below(o.at.field(name), name, false)
		}
	}
	return all
}

// typeName returns the name of a type that is named after its occurrence.
func (o occurrence) typeName() string {
	name := o.kind.Type.Name
	for _, step := range o.path {
		name += CamelCase(step)
	}
	return name
}

// nameTypes creates the types of a group: one for each description that only a type can hold,
// usually one.
func (b *builder) nameTypes(g *group) {
	add := func(o occurrence) {
		named, s := o, o.at.schema()
		if g.first == nil {
			named = g.occurrences[0]
		}
		t := &Type{Name: b.names.Unique(named.typeName()), Doc: s.Description,
			Path: named.kind.Name + "." + strings.Join(named.path, "."), Schema: s}
		t.Open, t.Embedded, t.at = o.at.keepUnknown(), s.XEmbeddedResource, o.at
		g.types[t.Doc] = t
		if g.first == nil {
			g.first = t
		}
		b.p.Types = append(b.p.Types, t)
	}
	for _, o := range g.occurrences {
		if o.needsDoc && g.types[o.at.schema().Description] == nil {
			add(o)
		}
	}
	if g.first == nil {
		add(g.occurrences[0])
	}
}

// fields fills in the fields of a type.
func (b *builder) fields(t *Type) {
	required := map[string]bool{}
	if v := t.Schema.ValueValidation; v != nil {
		for _, name := range v.Required {
			required[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Schema.Properties)) {
		if t.Kind != nil && IsMeta(name) {
			continue
		}
		f := &Field{Name: name, Required: required[name], Value: b.value(t.at.field(name), false)}
		for i := range t.Schema.XUnions {
			u := &t.Schema.XUnions[i]
			if _, member := u.Fields[name]; member {
				f.Union = u
			}
			if u.Discriminator == name {
				f.Discriminates = u
			}
		}
		t.Fields = append(t.Fields, f)
	}
}

// value returns the type of a value. elem reports that it is an item of a list or a value of
// a map.
func (b *builder) value(c cursors, elem bool) *Value {
	s := c.schema()
	v := &Value{Kind: c.kind(), Schema: s}
	switch v.Kind {
	case List:
		v.Elem = b.value(c.items(), true)
	case Map:
		v.Elem = b.value(c.mapValue(), true)
	case Object:
		g := b.groups[b.key(c)]
		v.Type = g.first
		if elem || s.Description == "" {
			v.Type = g.types[s.Description]
		}
	case JSON:
		if s == nil {
			v.Schema = &schema.Structural{Extensions: schema.Extensions{XPreserveUnknownFields: true}}
		}
	}
	return v
}
