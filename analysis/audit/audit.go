// Package audit summarizes what package compliance finds in stored objects: problems of the same
// kind at the same path of a CRD's version are one group. Its memory grows with the number of
// different problems, not with the number of objects, and its result does not depend on the order
// of the objects.
package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/crd"
	"espalier.dev/crd/compliance"
	"espalier.dev/schema"
)

// Options configures New.
type Options struct {
	// Examples is the maximum number of objects that a group names.
	Examples int
	// Paths is the maximum number of groups of a kind in a CRD's version. Further paths are one
	// group: the names of unspecified fields can be as many as the objects. Zero means
	// DefaultPaths.
	Paths int
}

// DefaultPaths is the default of [Options].Paths.
const DefaultPaths = 1000

// Audit collects the problems of objects. It is not safe for concurrent use.
type Audit struct {
	options Options
	counts  map[string]*compliance.Counts
	buckets map[bucketKey]*bucket
}

// New returns an Audit of no objects.
func New(o Options) *Audit {
	o.Paths = cmp.Or(o.Paths, DefaultPaths)
	return &Audit{options: o, counts: map[string]*compliance.Counts{}, buckets: map[bucketKey]*bucket{}}
}

// Object is an object that was inspected.
type Object struct {
	Namespace, Name string
	// Where returns the place of the object. It is called for the objects that a group names.
	Where func() string
}

// Example is an object that a group names.
type Example struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Where is the position of the object in its file, or its key in etcd.
	Where string `json:"where,omitempty"`
	// Path is the first path in the object that has the problem.
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
}

// FullName returns namespace and name.
func (e *Example) FullName() string {
	if e.Namespace == "" {
		return e.Name
	}
	return e.Namespace + "/" + e.Name
}

// Group is a problem that objects of a CRD have.
type Group struct {
	// Definition is the CRD.
	Definition *crd.Definition
	// Version is the version whose schema decides. It is empty for objects that cannot be read.
	Version string
	Kind    compliance.Kind
	// Path has * for indices and map keys: spec.containers[*].image. It is empty if
	// whole objects are the problem, and Other if the group stands for many paths.
	Path string
	// Message is one sentence that applies to all objects.
	Message string
	// Objects counts objects, Values the places in them. In a group of many paths, Objects counts
	// an object once for each path.
	Objects, Values int64
	// Examples are the first objects in the order of their names.
	Examples []Example

	key groupKey
}

// Other is the path of a group that stands for more paths than are listed.
const Other = "…"

// bucketKey identifies the groups whose number is limited.
type bucketKey struct {
	definition, version string
	kind                compliance.Kind
}

func (k bucketKey) compare(l bucketKey) int {
	return cmp.Or(strings.Compare(k.definition, l.definition), strings.Compare(k.version, l.version), cmp.Compare(k.kind, l.kind))
}

// bucket has the groups with the smallest keys, and one for all others.
type bucket struct {
	groups map[groupKey]*Group
	// largest is the largest key, if the bucket is full.
	largest groupKey
	other   *Group
}

// groupKey identifies a group in a bucket.
type groupKey struct {
	path      string
	violation schema.ViolationKind
	schema    string
	rule      string
}

func (k groupKey) compare(l groupKey) int {
	return cmp.Or(strings.Compare(k.path, l.path), cmp.Compare(k.violation, l.violation),
		strings.Compare(k.schema, l.schema), strings.Compare(k.rule, l.rule))
}

// Pattern returns the path of a problem without indices and map keys.
func Pattern(p *compliance.Problem) string {
	last := len(p.Path) - 1
	if p.Kind == compliance.Invalid && p.Violation == schema.Required && last >= 0 {
		// A missing field has a name, also if it is the key of a map.
		named := slices.Clone(p.Path)
		named[last].Kind = schema.Field
		return named.Pattern()
	}
	return p.Path.Pattern()
}

// Add adds an object of a CRD and what was found in it.
func (a *Audit) Add(d *crd.Definition, o Object, r *compliance.Report) {
	a.count(d.Name()).Add(r, 1)
	var seen map[*Group]bool
	for i := range r.Problems {
		p := &r.Problems[i]
		g := a.group(d, p)
		g.Values++
		if g.Path != Other {
			// Messages can differ, and the order of the objects must not matter.
			g.Message = min(g.Message, message(p, g.Path))
			if seen[g] {
				continue
			}
			if seen == nil {
				seen = map[*Group]bool{}
			}
			seen[g] = true
		}
		g.Objects++
		a.example(g, o, p)
	}
}

// AddCompliant adds objects of a CRD in which nothing was found.
func (a *Audit) AddCompliant(definition string, n int64) {
	a.count(definition).Objects += n
}

// count returns the counts of a CRD, to be changed.
func (a *Audit) count(definition string) *compliance.Counts {
	counts := a.counts[definition]
	if counts == nil {
		counts = new(compliance.Counts)
		a.counts[definition] = counts
	}
	return counts
}

// Counts returns the counts of a CRD.
func (a *Audit) Counts(definition string) compliance.Counts {
	if c := a.counts[definition]; c != nil {
		return *c
	}
	return compliance.Counts{}
}

// Total returns the counts of all CRDs.
func (a *Audit) Total() (total compliance.Counts) {
	for _, c := range a.counts {
		total.Objects += c.Objects
		total.Failing += c.Failing
		for k, n := range c.Of {
			total.Of[k] += n
		}
	}
	return total
}

// group returns the group of a problem.
func (a *Audit) group(d *crd.Definition, p *compliance.Problem) *Group {
	in := bucketKey{definition: d.Name(), kind: p.Kind}
	if p.Version != nil {
		in.version = p.Version.Name()
	}
	b := a.buckets[in]
	if b == nil {
		b = &bucket{groups: map[groupKey]*Group{}}
		a.buckets[in] = b
	}
	key := groupKey{path: Pattern(p), violation: p.Violation, rule: p.Rule}
	if p.Kind == compliance.Contradiction || p.Kind == compliance.Invalid {
		key.schema = p.Schema.String()
	}
	if g := b.groups[key]; g != nil {
		return g
	}
	full := len(b.groups) == a.options.Paths
	if full && key.compare(b.largest) > 0 {
		return b.others(d, in)
	}
	g := &Group{Definition: d, Version: in.version, Kind: in.kind, Path: key.path, Message: message(p, key.path), key: key}
	b.groups[key] = g
	if full {
		b.others(d, in).merge(b.groups[b.largest], a.options.Examples)
		delete(b.groups, b.largest)
	}
	if len(b.groups) == a.options.Paths {
		b.largest = slices.MaxFunc(slices.Collect(maps.Keys(b.groups)), groupKey.compare)
	}
	return g
}

// others returns the group for the paths that have no group of their own.
func (b *bucket) others(d *crd.Definition, in bucketKey) *Group {
	if b.other == nil {
		b.other = &Group{Definition: d, Version: in.version, Kind: in.kind, Path: Other,
			Message: "further paths have problems of the same kind"}
	}
	return b.other
}

// merge adds the objects of another group.
func (g *Group) merge(other *Group, limit int) {
	g.Objects += other.Objects
	g.Values += other.Values
	for _, e := range other.Examples {
		g.keep(e, limit)
	}
}

// message returns the message of a group. A message about a value names the path.
func message(p *compliance.Problem, pattern string) string {
	switch {
	case p.Kind == compliance.Unreadable:
		return "the stored value cannot be read"
	case p.Summary == "":
		return p.Message
	}
	return strings.ReplaceAll(p.Summary, p.Path.String(), pattern)
}

// example names an object in a group, if it is among the first.
func (a *Audit) example(g *Group, o Object, p *compliance.Problem) {
	limit := a.options.Examples
	e := Example{Namespace: o.Namespace, Name: o.Name, Path: p.Path.String(), Message: p.Message}
	if limit == 0 || len(g.Examples) == limit && compareExamples(e, g.Examples[limit-1]) > 0 {
		return
	}
	if o.Where != nil {
		e.Where = o.Where()
	}
	g.keep(e, limit)
}

// keep inserts an example in order.
func (g *Group) keep(e Example, limit int) {
	i, _ := slices.BinarySearchFunc(g.Examples, e, compareExamples)
	g.Examples = slices.Insert(g.Examples, i, e)
	g.Examples = g.Examples[:min(len(g.Examples), limit)]
}

func compareExamples(a, b Example) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name),
		strings.Compare(a.Path, b.Path), strings.Compare(a.Message, b.Message), strings.Compare(a.Where, b.Where))
}

// Groups returns the groups, sorted by CRD, version, kind and path.
func (a *Audit) Groups() (all []*Group) {
	for _, in := range slices.SortedFunc(maps.Keys(a.buckets), bucketKey.compare) {
		b := a.buckets[in]
		all = append(all, slices.SortedFunc(maps.Values(b.groups), func(g, h *Group) int { return g.key.compare(h.key) })...)
		if b.other != nil {
			all = append(all, b.other)
		}
	}
	return all
}

// Finding returns the group as a finding. Its details list the examples.
func (g *Group) Finding() analysis.Finding {
	f := analysis.Finding{Rule: RuleID(g.Kind), Severity: severity(g.Kind), Path: g.Path}
	f.Message = fmt.Sprintf("%s (%s of %s)", g.Message, analysis.Plural(int(g.Objects), "object"), g.Definition.Name())
	for i := range g.Examples {
		f.Detail = append(f.Detail, g.line(&g.Examples[i]))
	}
	if rest := g.Objects - int64(len(g.Examples)); rest > 0 && len(g.Examples) > 0 {
		f.Detail = append(f.Detail, fmt.Sprintf("and %d more", rest))
	}
	return f
}

// line describes an example. It does not repeat what the group says.
func (g *Group) line(e *Example) string {
	text := e.FullName()
	if e.Where != "" {
		text += " (" + e.Where + ")"
	}
	if e.Path != g.Path && e.Path != "" {
		text += ": " + e.Path
	}
	if e.Message != g.Message {
		text += ": " + e.Message
	}
	return text
}
