// Package rx tames regular expressions. Go's are safe in time, but when a pattern has
// many groups, matching a few bytes can allocate gigabytes: room for what each group
// matched, once for each place in the pattern. Nobody here asks what groups matched.
package rx

import (
	"regexp/syntax"
	"strings"
)

// Uncaptured returns source, or, if it has more than max groups, a pattern that
// matches the same strings and has none.
func Uncaptured(source string, max int) string {
	if strings.Count(source, "(") <= max {
		return source
	}
	tree, err := syntax.Parse(source, syntax.Perl)
	if err != nil || tree.MaxCap() <= max {
		return source
	}
	return uncapture(tree).String()
}

// uncapture replaces the groups of a tree by what is in them.
func uncapture(re *syntax.Regexp) *syntax.Regexp {
	for re.Op == syntax.OpCapture {
		re = re.Sub[0]
	}
	for i, sub := range re.Sub {
		re.Sub[i] = uncapture(sub)
	}
	return re
}
