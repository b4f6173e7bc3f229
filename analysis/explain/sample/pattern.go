package sample

import (
	"regexp"
	"regexp/syntax"
	"strings"
)

// matching returns strings that match a regular expression, at least minLength long if
// possible. It returns none for a pattern that is not a regular expression.
func matching(pattern string, minLength int64, variation int) (list []string) {
	check, err := regexp.Compile(pattern)
	if err != nil {
		return nil
	}
	tree, _ := syntax.Parse(pattern, syntax.Perl) // as Compile does
	seen := map[string]bool{}
	for _, repeats := range []int{1, 0, 2, 3, 4, 6, 8, 12, 20, 36, 63, int(min(minLength, maxText))} {
		for branch := range 4 {
			w := patternWriter{repeats: repeats, branch: branch, variation: variation}
			w.write(tree)
			s := w.String()
			if !w.failed && !seen[s] && check.MatchString(s) {
				seen[s] = true
				list = append(list, s)
			}
		}
	}
	return list
}

// maxText limits the length of generated strings.
const maxText = 10_000

// patternWriter writes a string that matches a regular expression, except for its
// assertions. The caller must check the result.
type patternWriter struct {
	strings.Builder
	// repeats is the count for repetitions, branch the index of the alternative to use.
	repeats, branch int
	// variation selects among the characters of a class.
	variation int
	failed    bool
}

func (w *patternWriter) write(re *syntax.Regexp) {
	if w.Len() > maxText {
		w.failed = true
	}
	if w.failed {
		return
	}
	switch re.Op {
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			w.WriteRune(r)
		}
	case syntax.OpCharClass:
		w.WriteRune(ofClass(re.Rune, w.variation))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		w.WriteRune('a' + rune(w.variation%26))
	case syntax.OpCapture, syntax.OpConcat:
		for _, sub := range re.Sub {
			w.write(sub)
		}
	case syntax.OpAlternate:
		w.write(re.Sub[w.branch%len(re.Sub)])
	case syntax.OpStar:
		w.times(re.Sub[0], 0, -1)
	case syntax.OpPlus:
		w.times(re.Sub[0], 1, -1)
	case syntax.OpQuest:
		w.times(re.Sub[0], 0, 1)
	case syntax.OpRepeat:
		w.times(re.Sub[0], re.Min, re.Max)
	}
}

func (w *patternWriter) times(re *syntax.Regexp, least, most int) {
	n := max(w.repeats, least)
	if most >= 0 {
		n = min(n, most)
	}
	for range n {
		w.write(re)
	}
}

// ofClass returns a character of a class, given as pairs of the lowest and highest character
// of a range: preferably a letter, then a digit, then any printable character.
func ofClass(ranges []rune, variation int) rune {
	var found []rune
	for _, from := range [][2]rune{{'a', 'z'}, {'A', 'Z'}, {'0', '9'}, {'!', '~'}} {
		for i := 0; i < len(ranges) && len(found) <= variation; i += 2 {
			for r := max(ranges[i], from[0]); r <= min(ranges[i+1], from[1]) && len(found) <= variation; r++ {
				found = append(found, r)
			}
		}
	}
	switch {
	case len(found) > 0:
		return found[variation%len(found)]
	case len(ranges) > 0:
		return ranges[0]
	}
	return 'a'
}
