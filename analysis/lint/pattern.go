package lint

import "strings"

// lacks returns the constructs in a pattern that RE2 does not support. Kubernetes uses RE2
// syntax.
func lacks(pattern string) []string {
	var found []string
	add := func(what string) {
		line := "RE2 has no " + what
		for _, f := range found {
			if f == line {
				return
			}
		}
		found = append(found, line)
	}
	inClass := false
	for i := 0; i < len(pattern); i++ {
		rest := pattern[i:]
		switch {
		case rest[0] == '\\' && len(rest) > 1:
			i++
			if inClass {
				continue
			}
			switch c := rest[1]; {
			case c >= '1' && c <= '9':
				add(`backreferences (\` + string(c) + ")")
			case (c == 'k' || c == 'g') && len(rest) > 2 && strings.ContainsRune("<{'", rune(rest[2])):
				add(`named backreferences (\` + string(c) + ")")
			case c == 'Z', c == 'G', c == 'X', c == 'R', c == 'K', c == 'h', c == 'H':
				add(`\` + string(c))
			case c == 'u':
				add(`\u: write \x{…}`)
			case c == 'c':
				add(`control escapes (\c)`)
			}
		case inClass:
			inClass = rest[0] != ']'
		case rest[0] == '[':
			inClass = true
			// A closing bracket right after the opening one is a literal.
			for _, prefix := range [...]string{"[^]", "[]"} {
				if strings.HasPrefix(rest, prefix) {
					i += len(prefix) - 1
					break
				}
			}
		case strings.HasPrefix(rest, "(?"):
			if what := group(rest[2:]); what != "" {
				add(what)
			}
		case len(rest) > 1 && rest[1] == '+' && strings.ContainsRune("*+?}", rune(rest[0])) && i > 0:
			add("possessive quantifiers (" + rest[:2] + ")")
		}
	}
	return found
}

// group returns the kind of group that starts with "(?" and rest if RE2 does not support
// it, or "".
func group(rest string) string {
	for _, g := range [...]struct{ prefix, what string }{
		{"=", "lookahead (?=…)"}, {"!", "negative lookahead (?!…)"},
		{"<=", "lookbehind (?<=…)"}, {"<!", "negative lookbehind (?<!…)"},
		{">", "atomic groups (?>…)"}, {"(", "conditionals (?(…)…)"}, {"|", "branch resets (?|…)"},
		{"#", "comments (?#…)"}, {"P=", "named backreferences (?P=…)"}, {"P>", "recursion (?P>…)"},
		{"R", "recursion (?R)"}, {"&", "recursion (?&…)"},
		{"x", "flag x"},
	} {
		if strings.HasPrefix(rest, g.prefix) {
			return g.what
		}
	}
	return ""
}
