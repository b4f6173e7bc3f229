package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// servingCommands run until they are stopped: their examples are not run here.
func servingCommands() map[string]bool { return map[string]bool{"serve": true} }

// TestHelpExamples runs every example of every command's help, among the files of
// testdata/examples. None may fail: to find something is not to fail.
func TestHelpExamples(t *testing.T) {
	examples, err := filepath.Abs("testdata/examples")
	if err != nil {
		t.Fatal(err)
	}
	visitCommands(newRootCommand(&app{program: "espalier"}), func(c *cobra.Command) {
		if !c.Runnable() || c.Hidden || c.Name() == "help" || !c.HasParent() || c.Parent().Name() == "completion" || servingCommands()[c.Name()] {
			return
		}
		t.Run(strings.ReplaceAll(c.CommandPath(), " ", "_"), func(t *testing.T) {
			lines := exampleLines(c.Example)
			if len(lines) == 0 {
				t.Error("the help has no examples")
			}
			if c.Short == "" || c.Long == "" && c.Name() != "version" {
				t.Error("the help says too little")
			}
			for _, line := range lines {
				dir := t.TempDir()
				if err := os.CopyFS(dir, os.DirFS(examples)); err != nil {
					t.Fatal(err)
				}
				t.Chdir(dir)
				runExample(t, line)
			}
		})
	})
}

func visitCommands(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		visitCommands(sub, visit)
	}
}

// exampleLines are the commands among the lines of an example. One that ends in a
// backslash goes on in the next.
func exampleLines(example string) (lines []string) {
	for _, line := range strings.Split(strings.ReplaceAll(example, "\\\n", " "), "\n") {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "espalier ") || strings.Contains(line, "| espalier ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// runExample runs an example, with a file piped into it and its output into a file,
// if it says so.
func runExample(t *testing.T, line string) {
	t.Helper()
	var stdin, stdout, stderr bytes.Buffer
	command := line
	if source, rest, ok := strings.Cut(line, " | "); ok {
		name, ok := strings.CutPrefix(source, "cat ")
		if !ok {
			t.Fatalf("%s: only cat can come before espalier", line)
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		stdin.Write(data)
		command = rest
	}
	command, _, _ = strings.Cut(command, " > ")
	words, err := splitWords(command)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	a := &app{program: "espalier", stdin: &stdin, stdout: &stdout, stderr: &stderr, environ: func(string) (string, bool) { return "", false }}
	if code := a.run(context.Background(), words[1:]); code != 0 && code != 1 {
		t.Errorf("$ %s\nexits with %d:\n%s%s", line, code, stdout.String(), stderr.String())
	}
}

// TestCompletionAndMan writes what shells and man read.
func TestCompletionAndMan(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		out, code := runApp(t, "completion", shell)
		if code != 0 || !strings.Contains(out, "espalier") {
			t.Errorf("completion %s exits with %d:\n%.200s", shell, code, out)
		}
	}
	dir := filepath.Join(t.TempDir(), "man1")
	if out, code := runApp(t, "man", dir); code != 0 {
		t.Fatalf("man exits with %d: %s", code, out)
	}
	var pages []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			pages = append(pages, filepath.Base(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"espalier.1", "espalier-prune.1", "espalier-validate.1"} {
		text, err := os.ReadFile(filepath.Join(dir, want))
		if err != nil || !bytes.Contains(text, []byte(".SH")) {
			t.Errorf("%s: %v (there are %v)", want, err, pages)
		}
	}
	if out, code := runApp(t, "man", filepath.Join(dir, "espalier.1", "below")); code != 2 {
		t.Errorf("man into a file exits with %d: %s", code, out)
	}
}

// runApp runs the program and returns all that it wrote.
func runApp(t *testing.T, args ...string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	a := &app{program: "espalier", stdin: strings.NewReader(""), stdout: &out, stderr: &out, environ: func(string) (string, bool) { return "", false }}
	code := a.run(context.Background(), args)
	return out.String(), code
}
