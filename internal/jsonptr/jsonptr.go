// Package jsonptr builds, reads, compares and displays JSON pointers (RFC 6901).
//
// A pointer is a plain string everywhere in this module, so that exported types need no type
// of an internal package. The empty pointer is the whole document. Pointers are joined by
// concatenation.
package jsonptr

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// New returns the pointer made of the tokens.
func New(tokens ...string) string { return string(Append(nil, tokens...)) }

// Child returns the pointer p followed by the tokens.
func Child(p string, tokens ...string) string { return p + New(tokens...) }

// Append appends the tokens to a pointer, each escaped and preceded by a slash.
func Append(p []byte, tokens ...string) []byte {
	for _, token := range tokens {
		p = append(p, '/')
		p = append(p, Escape(token)...)
	}
	return p
}

// Valid reports whether p is a JSON pointer: empty, or starting with a slash.
func Valid(p string) bool { return p == "" || p[0] == '/' }

// Parse returns the tokens of a pointer, unescaped, or an error if p is not Valid.
func Parse(p string) ([]string, error) {
	if !Valid(p) {
		return nil, fmt.Errorf("%q is not a JSON pointer: it must start with /", p)
	}
	return Split(p), nil
}

// Split returns the tokens of a valid pointer, unescaped.
func Split(p string) []string {
	var tokens []string
	for p != "" {
		var token string
		token, p = Cut(p)
		tokens = append(tokens, token)
	}
	return tokens
}

// Cut returns the first token of a pointer, unescaped, and the rest.
func Cut(p string) (token, rest string) {
	token, rest = cut(p)
	return Unescape(token), rest
}

// cut is Cut, but leaves the token escaped.
func cut(p string) (token, rest string) {
	p = strings.TrimPrefix(p, "/")
	if i := strings.IndexByte(p, '/'); i >= 0 {
		return p[:i], p[i:]
	}
	return p, ""
}

// Parent returns the pointer without its last token. The parent of the whole
// document is the whole document.
func Parent(p string) string { return p[:max(0, strings.LastIndexByte(p, '/'))] }

// CutPrefix returns the pointer from prefix to p, and whether p is at or below prefix.
func CutPrefix(p, prefix string) (rest string, ok bool) {
	if rest, ok = strings.CutPrefix(p, prefix); ok && Valid(rest) {
		return rest, true
	}
	return p, false
}

// Escape returns a name as a pointer token.
func Escape(name string) string {
	if !strings.ContainsAny(name, "~/") {
		return name
	}
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

// Unescape returns the name that a pointer token encodes.
func Unescape(token string) string {
	if strings.IndexByte(token, '~') < 0 {
		return token
	}
	return strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
}

// Compare orders pointers by their position in a document with sorted keys: a value comes
// before its contents, and list items are ordered by index.
func Compare(a, b string) int {
	for a != "" && b != "" {
		var x, y string
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

// Display returns the pointer as Kubernetes writes paths: spec.versions[0].name. A pointer
// does not distinguish fields from map keys: keyed names the fields that hold a map, whose
// keys are written in brackets like indexes.
func Display(p string, keyed ...string) string {
	var b strings.Builder
	inMap := false
	for _, token := range Split(p) {
		_, err := strconv.Atoi(token)
		if inMap || err == nil {
			b.WriteString("[" + token + "]")
			inMap = false
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(token)
		inMap = slices.Contains(keyed, token)
	}
	return b.String()
}

// FromPath returns the pointer of a path that Display wrote. It reads properties[a.b] as two
// tokens, but cannot detect a name that contains a dot outside of brackets.
func FromPath(path string) string {
	var p []byte
	for path != "" {
		var token string
		if path[0] == '[' {
			token, path, _ = strings.Cut(path[1:], "]")
		} else {
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			token, path = path[:end], path[end:]
		}
		p = Append(p, token)
		path = strings.TrimPrefix(path, ".")
	}
	return string(p)
}
