package analysis

import (
	"strconv"
	"strings"
)

// Pointer writes tokens as a JSON pointer (RFC 6901). No tokens are the whole
// document.
func Pointer(tokens ...string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteByte('/')
		b.WriteString(escaper.Replace(t))
	}
	return b.String()
}

// Tokens reads a JSON pointer.
func Tokens(pointer string) []string {
	if pointer == "" {
		return nil
	}
	tokens := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, t := range tokens {
		tokens[i] = unescaper.Replace(t)
	}
	return tokens
}

// A Replacer is safe for concurrent use and never changes.
var (
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
	unescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

// ComparePointers orders pointers as their places come in a document whose keys
// are sorted: what is around a place before the place, items by their number.
func ComparePointers(a, b string) int {
	for a != "" && b != "" {
		x, y := "", ""
		x, a = cut(a)
		y, b = cut(b)
		if x == y {
			continue
		}
		i, errX := strconv.Atoi(x)
		j, errY := strconv.Atoi(y)
		if errX == nil && errY == nil && i != j {
			return i - j
		}
		return strings.Compare(x, y)
	}
	return len(a) - len(b)
}

// cut takes the first token off a pointer.
func cut(p string) (token, rest string) {
	p = strings.TrimPrefix(p, "/")
	if i := strings.IndexByte(p, '/'); i >= 0 {
		return p[:i], p[i:]
	}
	return p, ""
}
