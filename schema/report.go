package schema

import (
	"maps"
	"slices"

	"espalier.dev/internal/nearest"
)

// Report lists the changes that Decode or Normalize made to an object.
type Report struct {
	// Changes are sorted by path.
	Changes []Change
	// Truncated is true if there were more changes than are listed.
	Truncated bool

	steps int
}

// maxReportSteps bounds the total length of the paths in a report: in a small text with
// 10,000 nested levels, each level may have a change. A long key counts as several steps: it
// is in the paths of all changes below it.
const maxReportSteps = 1 << 18

// bytesPerStep is the length of a key that counts as one step.
const bytesPerStep = 32

// add adds a change with the path parent + rest, unless the report is full.
func (r *Report) add(c Change, parent, rest Path) {
	n, long := len(parent)+len(rest), 0
	for _, path := range [...]Path{parent, rest} {
		for i := range path {
			long += len(path[i].Key) / bytesPerStep
		}
	}
	if r.steps+n+long > maxReportSteps {
		r.Truncated = true
		return
	}
	r.steps += n + long
	c.Path = append(append(make(Path, 0, n), parent...), rest...)
	r.Changes = append(r.Changes, c)
}

// Change is a change to an object.
type Change struct {
	// Path is the path in the original object or, for a default, in the result.
	Path Path
	Kind ChangeKind
	// Schema is the schema that caused the change: that of the object from which a
	// field was removed, or that of the value that was dropped or filled in.
	Schema NodeRef
	// Known are the fields that an object of a built-in kind has at the place of a pruned field.
	// It is nil if a schema specifies the fields.
	Known []string
}

// Nearest returns the specified field whose name is most similar to that of a pruned
// field, or "" if none is similar.
func (c *Change) Nearest() string {
	if c.Kind != Pruned {
		return ""
	}
	if c.Known != nil {
		return nearest.Name(c.Path[len(c.Path)-1].Key, slices.Values(c.Known))
	}
	if c.Schema == (NodeRef{}) {
		return nearest.Name(c.Path[len(c.Path)-1].Key, slices.Values(metadataFields(c.Path)))
	}
	var names []string
	for _, p := range c.Schema.program.nodes[c.Schema.index].props.list {
		names = append(names, p.name)
	}
	if len(c.Path) == 1 {
		names = append(names, "apiVersion", "kind", "metadata") // which every object has
	}
	return nearest.Name(c.Path[len(c.Path)-1].Key, slices.Values(names))
}

// ChangeKind is the kind of a Change.
type ChangeKind uint8

const (
	// Pruned is an unspecified field that was removed.
	Pruned ChangeKind = iota
	// NullDropped is a null that was removed because null is not allowed.
	NullDropped
	// Defaulted is a default that was filled in.
	Defaulted
	// Duplicate is a member that occurs more than once in an object; the last one is
	// used.
	Duplicate
	// MetadataDropped is a malformed field in the metadata of a stored object that was
	// removed.
	MetadataDropped
)

// String returns the name of the kind.
func (k ChangeKind) String() string {
	names := [...]string{"pruned", "null dropped", "defaulted", "duplicate", "metadata dropped"}
	if int(k) >= len(names) {
		return "unknown"
	}
	return names[k]
}

// UnknownFields returns the paths of the pruned fields, sorted, in the form of
// kube-apiserver's warnings and strict errors.
func (r *Report) UnknownFields() []string { return r.paths(Pruned) }

// DuplicateFields returns the paths of duplicate members, sorted.
func (r *Report) DuplicateFields() []string { return r.paths(Duplicate) }

func (r *Report) paths(k ChangeKind) []string {
	if r == nil {
		return nil
	}
	var paths []string
	for _, c := range r.Changes {
		if c.Kind != k {
			continue
		}
		if k == Pruned && c.Schema == (NodeRef{}) {
			paths = append(paths, metadataPath(c.Path))
		} else {
			paths = append(paths, c.Path.String())
		}
	}
	slices.Sort(paths)
	return paths
}

// metadataPath returns the path of an unknown field in metadata. In front of metadata,
// kube-apiserver writes map keys in brackets.
func metadataPath(p Path) string {
	last := len(p) - 1
	return p[:last].FieldPath().String() + "." + p[last].Key
}

// metadataFields returns the names of the fields that metadata has next to an unknown one.
func metadataFields(p Path) []string {
	t := objectMetaType()
	switch n := len(p); {
	case n > 3 && p[n-4].Key == "metadata" && p[n-2].Kind == Index && t.fields[p[n-3].Key] != nil:
		t = t.fields[p[n-3].Key].elem
	case n < 2 || p[n-2].Key != "metadata":
		return nil // the change has no schema and is not in metadata
	}
	return slices.Sorted(maps.Keys(t.fields))
}

func (r *Report) sort() {
	slices.SortStableFunc(r.Changes, func(a, b Change) int { return a.Path.compare(b.Path) })
}
