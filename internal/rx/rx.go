// Package rx removes capturing groups from regular expressions, and bounds the work of matching.
// Go's regular expressions are safe in time, but if a pattern has many groups, matching a few bytes can allocate
// gigabytes: space for the match of each group, for each position in the pattern. This module
// never uses the groups.
package rx

import (
	"regexp/syntax"
	"strings"
)

// Uncaptured returns source, or, if it has more than max groups, an equivalent pattern
// without groups.
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

// uncapture replaces the groups of a tree with their contents.
func uncapture(re *syntax.Regexp) *syntax.Regexp {
	for re.Op == syntax.OpCapture {
		re = re.Sub[0]
	}
	for i, sub := range re.Sub {
		re.Sub[i] = uncapture(sub)
	}
	return re
}
