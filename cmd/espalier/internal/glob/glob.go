// Package glob matches paths of files and of fields with patterns.
package glob

import (
	"errors"
	"path"
	"strings"
)

// Match reports whether elements match a pattern, element by element. In an element of the
// pattern, *, ? and [a-z] work as in path.Match; the element ** matches any number of
// elements.
func Match(pattern, elements []string) bool {
	// next[j] reports whether the pattern from i+1 on matches elements[j:], current the
	// same for i.
	next := make([]bool, len(elements)+1)
	next[len(elements)] = true
	for i := len(pattern) - 1; i >= 0; i-- {
		current := make([]bool, len(elements)+1)
		for j := len(elements); j >= 0; j-- {
			switch {
			case pattern[i] == "**":
				current[j] = next[j] || j < len(elements) && current[j+1]
			case j < len(elements) && next[j+1]:
				current[j], _ = path.Match(pattern[i], elements[j]) // Check has checked the pattern
			}
		}
		next = current
	}
	return next[0]
}

// MatchPrefix reports whether a pattern matches elements, or the first of them: a pattern
// that matches a directory or a field matches everything below it.
func MatchPrefix(pattern, elements []string) bool {
	for i := 1; i <= len(elements); i++ {
		if Match(pattern, elements[:i]) {
			return true
		}
	}
	return false
}

// Check returns an error if an element of a pattern is malformed.
func Check(pattern []string) error {
	for _, element := range pattern {
		if _, err := path.Match(element, ""); err != nil || element == "" {
			return errors.New("not a valid pattern: use *, ?, [a-z] and **, as in **/generated/*.yaml")
		}
	}
	return nil
}

// File is a pattern of files and directories.
type File struct {
	elements []string
	// dir is set if the pattern applies to directories only.
	dir bool
}

// ParseFile parses a pattern. A pattern without a slash applies to base names at any depth,
// as in .gitignore; write ./NAME otherwise. A trailing slash restricts it to directories.
func ParseFile(pattern string) (File, error) {
	// Shells negate a class with !, package path with ^.
	text := strings.ReplaceAll(strings.TrimPrefix(pattern, "./"), "[!", "[^")
	f := File{dir: strings.HasSuffix(text, "/")}
	text = strings.TrimSuffix(text, "/")
	f.elements = strings.Split(strings.TrimPrefix(text, "/"), "/")
	if !strings.Contains(text, "/") && !strings.HasPrefix(pattern, "./") {
		f.elements = []string{"**", text}
	}
	return f, Check(f.elements)
}

// Match reports whether the pattern matches a path, which has slashes, or a directory above
// it. isDir is set if the path is one of a directory.
func (f File) Match(name string, isDir bool) bool {
	elements := strings.Split(strings.TrimPrefix(path.Clean(name), "/"), "/")
	if f.dir && !isDir {
		elements = elements[:len(elements)-1]
	}
	return MatchPrefix(f.elements, elements)
}

// Literal returns the path that the pattern matches, if exact is set, and else the directory
// in which all files that it matches are, as far as it is known without looking. It returns
// "." for the root. Everything below a path matches too.
func (f File) Literal() (base string, exact bool) {
	n := 0
	for n < len(f.elements) && !strings.ContainsAny(f.elements[n], `*?[\`) {
		n++
	}
	return path.Join(append([]string{"."}, f.elements[:n]...)...), n == len(f.elements)
}
