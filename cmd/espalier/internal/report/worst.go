package report

import (
	"iter"
	"slices"

	"espalier.dev/analysis"
)

// ranks is the number of values of severityRank.
const ranks = 4

// severityRank returns the rank of a finding, 0 for the worst: inputs that could not be processed,
// then the severities.
func severityRank(f *Finding) int {
	switch {
	case f.Failed:
		return 0
	case f.Severity == analysis.Error:
		return 1
	case f.Severity == analysis.Warning:
		return 2
	}
	return 3
}

// worst keeps the worst items, by rank and then in the order in which they were added.
type worst[T any] struct {
	// most is the maximum number of items.
	most   int
	byRank [ranks][]T
	count  int
}

// add adds an item. If there are too many then, it drops the mildest and returns it.
func (w *worst[T]) add(rank int, item T) (dropped T, full bool) {
	w.byRank[rank] = append(w.byRank[rank], item)
	if w.count++; w.count <= w.most {
		return dropped, false
	}
	return w.drop(), true
}

// drop drops the mildest item, of which there must be one, and returns it.
func (w *worst[T]) drop() (dropped T) {
	rank := w.mildest()
	items := w.byRank[rank]
	last := len(items) - 1
	dropped = items[last]
	var none T
	items[last] = none // it may be large
	w.byRank[rank] = items[:last]
	w.count--
	return dropped
}

// mildest returns the rank of the mildest item, of which there must be one.
func (w *worst[T]) mildest() int {
	rank := ranks - 1
	for len(w.byRank[rank]) == 0 {
		rank--
	}
	return rank
}

// all returns the items, the worst first.
func (w *worst[T]) all() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, items := range w.byRank {
			for _, item := range items {
				if !yield(item) {
					return
				}
			}
		}
	}
}

// sections are the sections of a report, in the order of their first findings.
type sections []string

// saw adds a section, unless it is known.
func (s *sections) saw(section string) {
	if !slices.Contains(*s, section) {
		*s = append(*s, section)
	}
}

// each calls visit for the indices of n items, section after section.
func (s sections) each(n int, section func(i int) string, visit func(i int)) {
	for _, of := range s {
		for i := range n {
			if section(i) == of {
				visit(i)
			}
		}
	}
}
