package impact

import "regexp/syntax"

// samePattern reports whether two patterns are spellings of the same one, so that they match
// the same strings. It may return false although the answer is yes.
func samePattern(a, b string) bool {
	first, ok := canonicalPattern(a)
	if !ok {
		return false
	}
	second, ok := canonicalPattern(b)
	return ok && first == second
}

// canonicalPattern returns a pattern in the form that does not depend on its spelling, without
// its capturing groups, which do not affect what it matches.
func canonicalPattern(pattern string) (string, bool) {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return "", false
	}
	// What was in a group is only joined with its surroundings if it is parsed again.
	re, err = syntax.Parse(withoutCaptures(re).String(), syntax.Perl)
	if err != nil {
		return "", false
	}
	return re.Simplify().String(), true
}

// withoutCaptures replaces capturing groups by their contents.
func withoutCaptures(re *syntax.Regexp) *syntax.Regexp {
	for re.Op == syntax.OpCapture {
		re = re.Sub[0]
	}
	for i, sub := range re.Sub {
		re.Sub[i] = withoutCaptures(sub)
	}
	return re
}
