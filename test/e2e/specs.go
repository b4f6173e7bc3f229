package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// specsFile has a line for each spec of the selection: its class and its name. Lines before them,
// with #, describe the classes.
const specsFile = "testdata/specs.txt"

// Classes with a meaning to the driver. The head of specsFile describes all classes.
const (
	// classPasses is the class of specs that pass with the real kube-apiserver.
	classPasses = "passes"
	// classSteady is the class of specs that pass with the real kube-apiserver unless it is
	// killed while they run.
	classSteady = "steady"
	// classFails and classUntried are the classes of specs that have no class yet.
	classFails   = "fails"
	classUntried = "untried"
)

// specs are the specs with their classes.
type specs struct {
	head    []string          // the lines that describe the classes
	classes map[string]string // from the head: class → description
	class   map[string]string // spec → class
}

// headPattern matches a line that describes a class.
var headPattern = regexp.MustCompile(`^#   (\S+)\s+(\S.*)$`)

// readSpecs reads a file of specs.
func readSpecs(path string) (*specs, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s, err := parseSpecs(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// parseSpecs parses a file of specs.
func parseSpecs(data []byte) (*specs, error) {
	s := &specs{classes: map[string]string{}, class: map[string]string{}}
	scanner := bufio.NewScanner(bytes.NewReader(data))
	for number := 1; scanner.Scan(); number++ {
		line := scanner.Text()
		if strings.HasPrefix(line, "#") {
			if len(s.class) > 0 {
				return nil, fmt.Errorf("line %d: a comment between specs", number)
			}
			s.head = append(s.head, line)
			if m := headPattern.FindStringSubmatch(line); m != nil {
				s.classes[m[1]] = m[2]
			}
			continue
		}
		class, name, ok := strings.Cut(line, " ")
		name = strings.TrimLeft(name, " ")
		switch _, known := s.classes[class]; {
		case !ok || name == "":
			return nil, fmt.Errorf("line %d: want a class and a name, got %q", number, line)
		case !known && class != classFails && class != classUntried:
			return nil, fmt.Errorf("line %d: the head does not describe the class %q", number, class)
		case s.class[name] != "":
			return nil, fmt.Errorf("line %d: %q is listed twice", number, name)
		}
		s.class[name] = class
	}
	return s, scanner.Err()
}

// write writes the file.
func (s *specs) write(path string) error { return os.WriteFile(path, s.format(), 0o644) }

// format returns the text of the file: the specs are in the order of their names.
func (s *specs) format() []byte {
	width := 0
	for _, class := range s.class {
		width = max(width, len(class))
	}
	var out bytes.Buffer
	for _, line := range s.head {
		fmt.Fprintln(&out, line)
	}
	for _, name := range slices.Sorted(maps.Keys(s.class)) {
		fmt.Fprintf(&out, "%-*s %s\n", width, s.class[name], name)
	}
	return out.Bytes()
}

// reconcile compares the specs with those that the suite has. With add, new ones are added as
// untried, and others are removed.
func (s *specs) reconcile(listed []string, add bool) (*specs, error) {
	var problems []error
	out := &specs{head: s.head, classes: s.classes, class: map[string]string{}}
	for _, name := range listed {
		class, ok := s.class[name]
		switch {
		case !ok && add:
			class = classUntried
		case !ok:
			problems = append(problems, fmt.Errorf("not in %s: %s", specsFile, name))
		}
		out.class[name] = class
	}
	for _, name := range slices.Sorted(maps.Keys(s.class)) {
		if _, ok := out.class[name]; !ok && !add {
			problems = append(problems, fmt.Errorf("not in the suite: %s", name))
		}
	}
	return out, errors.Join(problems...)
}

// selected returns the names of the specs that the options select.
func (s *specs) selected(o *options) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.class)) {
		if slices.Contains(o.classes, s.class[name]) && o.focus.MatchString(name) && (o.skip == nil || !o.skip.MatchString(name)) {
			names = append(names, name)
		}
	}
	return names
}

// result is that of a spec.
type result struct {
	state   string // as ginkgo names it: passed, failed, timedout, …
	took    time.Duration
	failure string
}

func (r result) passed() bool { return r.state == "passed" }

// results are those of specs, by their names.
type results map[string]result

// verdict returns an error for each spec that must pass, and did not.
func (r results) verdict(golden *specs) error {
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(r)) {
		class := golden.class[name]
		if (class == classPasses || class == classSteady) && !r[name].passed() {
			problems = append(problems, fmt.Errorf("%s: %s\n%s", r[name].state, name, r[name].failure))
		}
	}
	return errors.Join(problems...)
}

// update returns the specs with the classes that follow from results with the real kube-apiserver.
func (s *specs) update(r results) *specs {
	out := &specs{head: s.head, classes: s.classes, class: map[string]string{}}
	for name, class := range s.class {
		result, ran := r[name]
		switch {
		case ran && result.passed() && class != classSteady:
			class = classPasses
		case ran && !result.passed() && (class == classPasses || class == classSteady || class == classUntried):
			class = classFails
		}
		out.class[name] = class
	}
	return out
}

// print prints the number of specs of each class, and of those that ran and passed.
func (s *specs) print(w io.Writer, r results) {
	listed, ran, passed := map[string]int{}, map[string]int{}, map[string]int{}
	for name, class := range s.class {
		listed[class]++
		if result, ok := r[name]; ok {
			ran[class]++
			if result.passed() {
				passed[class]++
			}
		}
	}
	fmt.Fprintf(w, "%-12s %6s %6s %6s  %s\n", "CLASS", "SPECS", "RAN", "PASSED", "MEANING")
	for _, class := range slices.Sorted(maps.Keys(listed)) {
		fmt.Fprintf(w, "%-12s %6d %6d %6d  %s\n", class, listed[class], ran[class], passed[class], s.classes[class])
	}
}
