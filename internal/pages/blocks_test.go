package pages

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestBlocks checks that a test can tell what each code block below docs is, so that none is
// left out silently:
//
//   - "$ espalier …" and other commands with their output: run by cmd/espalier, or by
//     test/conformance/kubectl if the page needs a server
//   - file="NAME": a file that the commands of the page use
//   - go source="PATH": lines of a Go file of the repository, which its tests compile and run; "…"
//     stands for lines that are left out
//   - file="NAME" source="PATH": a file that the commands of the page use, and that the repository has, too
//   - yaml and json: must have correct syntax
//   - text: anything that is neither code nor a command
//   - skip="REASON": not run; reported here with the reason
func TestBlocks(t *testing.T) {
	root := Root(t)
	for _, p := range Below(t, root, "docs") {
		for _, b := range p.Blocks {
			t.Run(p.position(b), func(t *testing.T) {
				if reason := b.Attributes["skip"]; reason != "" {
					t.Skip(reason)
				}
				if err := check(root, b); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// check reports what is wrong with a block.
func check(root string, b Block) error {
	for name := range b.Attributes {
		if !slices.Contains([]string{"file", "append", "source", "skip", "wait"}, name) {
			return fmt.Errorf("unknown attribute %q", name)
		}
	}
	switch {
	case b.Attributes["source"] != "":
		return checkSource(root, b)
	case b.Language == "yaml" || b.Language == "json":
		for document := range strings.SplitSeq(b.Text, "\n---\n") {
			var value any
			if err := yaml.Unmarshal([]byte(document), &value); err != nil {
				return err
			}
		}
		return nil
	case b.IsSession(), b.Attributes["file"] != "", b.Language == "text":
		return nil
	}
	return fmt.Errorf("a block with the language %q is not tested: see TestBlocks", b.Language)
}

// checkSource compares a block with the lines of its source. Indentation may differ.
func checkSource(root string, b Block) error {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(b.Attributes["source"])))
	if err != nil {
		return err
	}
	if b.Attributes["file"] != "" && b.Text != string(text) {
		return fmt.Errorf("%s differs", b.Attributes["source"])
	}
	source := trimmed(string(text))
	var part []string
	for _, line := range append(trimmed(b.Text), "…") {
		if line != "…" {
			part = append(part, line)
			continue
		}
		if !strings.Contains("\n"+strings.Join(source, "\n")+"\n", "\n"+strings.Join(part, "\n")+"\n") {
			return fmt.Errorf("%s does not have\n%s", b.Attributes["source"], strings.Join(part, "\n"))
		}
		part = nil
	}
	return nil
}

// trimmed returns the lines of a text without indentation and without empty lines.
func trimmed(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// TestCheck checks that wrong blocks are found.
func TestCheck(t *testing.T) {
	for name, b := range map[string]Block{
		"no such line":      {Language: "go", Text: "package nothing\n", Attributes: map[string]string{"source": "internal/pages/pages.go"}},
		"lines in between":  {Language: "go", Text: "package pages\nimport (\n\"os\"\n", Attributes: map[string]string{"source": "internal/pages/pages.go"}},
		"no such file":      {Language: "go", Text: "package pages\n", Attributes: map[string]string{"source": "missing.go"}},
		"a part of a file":  {Language: "go", Text: "package pages\n", Attributes: map[string]string{"source": "internal/pages/pages.go", "file": "pages.go"}},
		"no source":         {Language: "go", Text: "package pages\n"},
		"a shell":           {Language: "sh", Text: "make\n"},
		"no command":        {Text: "espalier lint\n"},
		"invalid YAML":      {Language: "yaml", Text: "a: b: c\n"},
		"unknown attribute": {Language: "text", Attributes: map[string]string{"ignore": "true"}},
	} {
		if check(Root(t), b) == nil {
			t.Errorf("%s: the block is accepted", name)
		}
	}
	for name, b := range map[string]Block{
		"source":  {Language: "go", Text: "package pages\n…\n\t\"os\"\n", Attributes: map[string]string{"source": "internal/pages/pages.go"}},
		"session": {Text: "$ espalier lint\nno findings\n"},
		"file":    {Language: "toml", Attributes: map[string]string{"file": "a.toml"}},
	} {
		if err := check(Root(t), b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, test := range []struct {
		want, got string
		matches   bool
	}{
		{"a\nb\n", "a\nb\n", true},
		{"a\n", "a\nb\n", false},
		{"a …\n", "a b c\n", true},
		{"a …\n", "a b\nc\n", false},
		{"a\n…\nd\n", "a\nb\nc\nd\n", true},
		{"a\n…\nd\n", "a\nb\nc\n", false},
		{"a.c\n", "abc\n", false},
		{"", "", true},
	} {
		if Matches(test.want, test.got) != test.matches {
			t.Errorf("Matches(%q, %q) is not %v", test.want, test.got, test.matches)
		}
	}
}

// TestRun follows a page, and expects the commands, files and failures in their order.
func TestRun(t *testing.T) {
	p, err := Parse("a.md", "```yaml file=\"d/a.yaml\"\na: 1\n```\n```yaml file=\"d/a.yaml\" append=\"true\"\nb: 2\n```\n"+
		"```\n$ one\n$ two\nout …\n```\n```sh skip=\"slow\"\nmake\n```\n```console wait=\"ready\"\n$ serve\n```\n```\n$ kubectl get\n```\n")
	if err != nil {
		t.Fatal(err)
	}
	if !p.NeedsServer() {
		t.Error("the page needs a server")
	}
	dir := t.TempDir()
	var ran []string
	p.Run(t, Runner{
		Dir: dir,
		Run: func(_ *testing.T, line string) string {
			ran = append(ran, line)
			return map[string]string{"two": "out put\n"}[line]
		},
		Start: func(_ *testing.T, line, file string) { ran = append(ran, line+" "+file) },
	})
	if want := []string{"one", "two", "serve ready", "kubectl get"}; !slices.Equal(ran, want) {
		t.Errorf("ran %q, expected %q", ran, want)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "d", "a.yaml")); err != nil || string(text) != "a: 1\nb: 2\n" {
		t.Errorf("the file has %q: %v", text, err)
	}
}
