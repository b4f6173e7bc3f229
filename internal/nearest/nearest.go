// Package nearest suggests the name that the user probably meant, or the names that there are.
package nearest

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Name returns the candidate that is closest to name, or "" if none is close enough for a
// typo to be likely. At least one character must match: a different single letter is not a
// typo. Case is ignored. If several candidates are equally close, the first one wins.
func Name(name string, candidates iter.Seq[string]) string {
	best, bestDistance := "", min(1+max(1, len(name)/3), len(name))
	lower := strings.ToLower(name)
	for candidate := range candidates {
		if abs(len(candidate)-len(name)) >= bestDistance {
			continue
		}
		if d := editDistance(lower, strings.ToLower(candidate), bestDistance); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// DidYouMean returns the end of an error that suggests a name, or "" if the name is empty.
func DidYouMean(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(": did you mean %q?", name)
}

// Hint returns the end of an error about an unknown name: the nearest name or, if it is empty, the
// first of the known ones.
func Hint(nearest string, known []string) string {
	const most = 12
	switch {
	case nearest != "":
		return DidYouMean(nearest)
	case len(known) == 0:
		return ""
	case len(known) > most:
		return fmt.Sprintf(": there are %s and %d more", strings.Join(known[:most], ", "), len(known)-most)
	}
	return ": there are " + strings.Join(known, ", ")
}

// First joins the first n names, and says how many there are in addition.
func First(names []string, n int) string {
	if rest := len(names) - n; rest > 0 {
		names = append(slices.Clone(names[:n]), fmt.Sprintf("and %d more", rest))
	}
	return strings.Join(names, ", ")
}

func abs(i int) int { return max(i, -i) }

// editDistance returns the number of insertions, deletions, replacements and swaps of
// neighbours that turn a into b, or limit if it is not below limit.
func editDistance(a, b string, limit int) int {
	if len(a) > 256 || len(b) > 256 {
		return limit
	}
	before, previous, current := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(a); i++ {
		current[0] = i
		low := i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(previous[j]+1, current[j-1]+1, previous[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, before[j-2]+1)
			}
			current[j] = d
			low = min(low, d)
		}
		if low >= limit {
			return limit
		}
		before, previous, current = previous, current, before
	}
	return min(previous[len(b)], limit)
}
