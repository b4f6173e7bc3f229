// Command words reports wordings that the project has replaced by the terms of the field,
// in every text file that git tracks: documents, test scripts, and the comments and string
// literals of Go files. It exits with 1 if it finds one.
//
//	go run ./words DIR
package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A wording is a pattern, and what to write in its place.
type wording struct {
	pattern *regexp.Regexp
	write   string
}

// wordings returns the wordings to replace. If a pattern has a group, the group is the
// wording: the text around it only excludes legitimate uses.
func wordings() []wording {
	list := []wording{}
	for _, w := range []struct{ pattern, write string }{
		{`whoever`, "the user, the caller, clients that …"},
		{`says? whether`, "reports whether"},
		{`mend(?:s|ed|ing)?`, "fix"},
		{`junctors?`, "logical operators"},
		{`refus(?:e|es|ed|ing|als?)`, "reject"},
		{`pass(?:es|ed)? over`, "skip"},
		{`at (?:its|their) word`, "are assumed to be valid"},
		{`stored otherwise`, "stored differently"},
		{`c[ao]mes? to no end`, "was aborted"},
		{`(?:may|can) do everything`, "has full access"},
		{`may do nothing`, "has no access"},
		{`readings? of (?:a )?schemas?`, "schema semantics"},
		{`remarks?`, "finding"},
		{`is no format that`, "unknown format"},
		{`says of no version`, "has no storage version"},
		{`what a rule says when`, "rule message"},
		{`kept as it came`, "previously unvalidated"},
		{`more is more`, "log verbosity"},
		{`does not say its apiVersion`, "apiVersion and kind are required"},
		{`costs up to 18446744073709551615`, "cost is unbounded"},
		{`(?:^|[^e] )(?:an?|the|own|its) (authorit(?:y|ies))`, "certificate authority (CA)"},
	} {
		list = append(list, wording{regexp.MustCompile(`(?i)(?:\b)` + w.pattern + `\b`), w.write})
	}
	return list
}

// allowed matches texts of other programs, and a rule ID, that contain a wording.
var allowed = regexp.MustCompile(`(?i)connection refused|actively refused|ECONNREFUSED|REFUSED_STREAM|(?:semantics|update)-refused`)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: words DIR")
		os.Exit(2)
	}
	found, err := run(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "words:", err)
		os.Exit(2)
	}
	if found > 0 {
		fmt.Fprintf(os.Stderr, "%d wordings to replace\n", found)
		os.Exit(1)
	}
}

func run(dir string) (found int, err error) {
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = dir
	list.Stderr = os.Stderr
	files, err := list.Output()
	if err != nil {
		return 0, fmt.Errorf("list the files of %s: %w", dir, err)
	}
	words := wordings()
	for name := range strings.SplitSeq(strings.Trim(string(files), "\x00"), "\x00") {
		if skip(name) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			return found, err
		}
		if bytes.IndexByte(text, 0) >= 0 {
			continue
		}
		for _, p := range prose(name, text) {
			for i, line := range strings.Split(p.text, "\n") {
				line = allowed.ReplaceAllString(line, "")
				for _, w := range words {
					if m := w.pattern.FindStringSubmatch(line); m != nil {
						fmt.Printf("%s:%d: %q: write %q\n", name, p.line+i, m[len(m)-1], w.write)
						found++
					}
				}
			}
		}
	}
	return found, nil
}

// skip reports whether a file is not the project's own prose. mutations.txt is Go code, and
// test/envtest/testdata and test/e2e/testdata/specs.txt have the names of tests of other projects.
func skip(name string) bool {
	return name == "LICENSE" || strings.HasPrefix(name, "test/tools/words/") || name == "test/tools/mutants/mutations.txt" ||
		strings.HasPrefix(name, "test/envtest/testdata/") || name == "test/e2e/testdata/specs.txt" ||
		slices.Contains([]string{".sum", ".mod", ".png"}, filepath.Ext(name)) || strings.Contains(name, "testdata/fuzz/")
}

// A passage is a text to check and its first line.
type passage struct {
	line int
	text string
}

// prose returns the parts of a file that people read: the whole file, or the comments and
// string literals of a Go file. Identifiers are not prose.
func prose(name string, text []byte) []passage {
	if filepath.Ext(name) != ".go" {
		return []passage{{1, string(text)}}
	}
	var passages []passage
	set := token.NewFileSet()
	file := set.AddFile(name, -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	for {
		pos, tok, lit := s.Scan()
		switch tok {
		case token.EOF:
			return passages
		case token.COMMENT, token.STRING:
			passages = append(passages, passage{set.Position(pos).Line, lit})
		}
	}
}
