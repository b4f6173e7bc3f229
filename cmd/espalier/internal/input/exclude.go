package input

import (
	"fmt"
	"path"
	"strings"
)

// exclusions are patterns of files and directories to skip.
type exclusions []exclusion

type exclusion struct {
	// elements are the elements of the pattern between slashes.
	elements []string
	// base is set if the pattern applies to the base name, at any depth.
	base bool
	// dir is set if the pattern applies to directories only.
	dir bool
}

// parseExclusions parses the patterns of Flags.Exclude.
func parseExclusions(patterns []string) (all exclusions, err error) {
	for _, pattern := range patterns {
		text := strings.TrimPrefix(pattern, "./")
		e := exclusion{dir: strings.HasSuffix(text, "/")}
		text = strings.TrimSuffix(text, "/")
		e.base = !strings.Contains(text, "/")
		e.elements = strings.Split(strings.TrimPrefix(text, "/"), "/")
		for i, element := range e.elements {
			// Shells negate a class with !, package path with ^.
			e.elements[i] = strings.ReplaceAll(element, "[!", "[^")
			if _, err := path.Match(e.elements[i], ""); err != nil || element == "" {
				return nil, fmt.Errorf("--exclude=%s: not a valid pattern: use *, ?, [a-z] and **, as in --exclude='**/generated/*.yaml'", pattern)
			}
		}
		all = append(all, e)
	}
	return all, nil
}

// match reports whether a path is excluded. The path has slashes.
func (all exclusions) match(name string, dir bool) bool {
	if len(all) == 0 {
		return false
	}
	elements := strings.Split(strings.TrimPrefix(path.Clean(name), "/"), "/")
	for _, e := range all {
		if e.dir && !dir {
			// The directories above the file can match.
			for i := 1; i < len(elements); i++ {
				if e.matchElements(elements[:i]) {
					return true
				}
			}
			continue
		}
		// A pattern that matches a directory matches everything below it.
		for i := 1; i <= len(elements); i++ {
			if e.matchElements(elements[:i]) {
				return true
			}
		}
	}
	return false
}

func (e *exclusion) matchElements(elements []string) bool {
	if e.base {
		return matchElement(e.elements[0], elements[len(elements)-1])
	}
	return matchElements(e.elements, elements)
}

// matchElements matches the elements of a path with those of a pattern.
func matchElements(pattern, elements []string) bool {
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
			case j < len(elements):
				current[j] = next[j+1] && matchElement(pattern[i], elements[j])
			}
		}
		next = current
	}
	return next[0]
}

func matchElement(pattern, element string) bool {
	if pattern == "**" {
		return true
	}
	ok, _ := path.Match(pattern, element) // parseExclusions has checked the pattern
	return ok
}
