package schema

import (
	"slices"

	"espalier.dev/internal/nearest"
)

// Report says what Decode or Normalize did to an object.
type Report struct {
	// Changes are sorted by path.
	Changes []Change
	// Truncated says that there were more changes than there is room for.
	Truncated bool

	steps int
}

// maxReportSteps bounds the paths of a report together: in a small text with 10,000
// levels, each level may have something to report.
const maxReportSteps = 1 << 18

// add adds a change whose path is that of parent and rest, if there is room.
func (r *Report) add(c Change, parent, rest Path) {
	n := len(parent) + len(rest)
	if r.steps+n > maxReportSteps {
		r.Truncated = true
		return
	}
	r.steps += n
	c.Path = append(append(make(Path, 0, n), parent...), rest...)
	r.Changes = append(r.Changes, c)
}

// Change is one thing that was done to an object.
type Change struct {
	// Path is where, in the object as it was given (for a default: as it came out).
	Path Path
	Kind ChangeKind
	// Schema is the schema that decided: the one of the object that a field was
	// removed from, or the one of the value that was dropped or filled in.
	Schema NodeRef
}

// Nearest returns the specified field whose name is closest to that of a pruned
// one, if any is close enough to be meant.
func (c *Change) Nearest() string {
	if c.Kind != Pruned || c.Schema == (NodeRef{}) {
		return ""
	}
	props := c.Schema.program.nodes[c.Schema.index].props.list
	return nearest.Name(c.Path[len(c.Path)-1].Key, func(yield func(string) bool) {
		for i := range props {
			if !yield(props[i].name) {
				return
			}
		}
	})
}

// ChangeKind is what was done.
type ChangeKind uint8

const (
	// Pruned is a field that is not specified and was removed.
	Pruned ChangeKind = iota
	// NullDropped is a null that was removed because null is not allowed.
	NullDropped
	// Defaulted is a default that was filled in.
	Defaulted
	// Duplicate is a member that occurs again in the same object; the last one counts.
	Duplicate
	// MetadataDropped is a field of metadata that was malformed in storage and was removed.
	MetadataDropped
)

// String names the kind.
func (k ChangeKind) String() string {
	names := [...]string{"pruned", "null dropped", "defaulted", "duplicate", "metadata dropped"}
	if int(k) >= len(names) {
		return "unknown"
	}
	return names[k]
}

// UnknownFields returns the paths of the pruned fields, sorted, written as
// kube-apiserver writes them in warnings and strict errors.
func (r *Report) UnknownFields() []string { return r.paths(Pruned) }

// DuplicateFields returns the paths of members that occur again, sorted.
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

// metadataPath writes the path of a field that metadata does not have. kube-apiserver
// writes the keys of maps on the way there in brackets, and what is in metadata as
// its decoder does.
func metadataPath(p Path) string {
	inside := 1
	if p[len(p)-2].Kind == Index {
		inside = 3
	}
	return p[:len(p)-inside].FieldPath().String() + "." + p[len(p)-inside:].String()
}

func (r *Report) sort() {
	slices.SortStableFunc(r.Changes, func(a, b Change) int { return a.Path.compare(b.Path) })
}
