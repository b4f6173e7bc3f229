package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"espalier.dev/cmd/espalier/internal/workdir"
)

// A script is a txtar archive in testdata/script. Its files are unpacked into an empty
// directory. The text before them lists commands to run there and their expected results.
// A script whose file name starts with the ID of a requirement tests that requirement; its
// subtest has the name of the file.
//
//	# A comment, like any line that has none of these forms.
//	$ espalier lint -f crd.yaml        runs a command; 'single' and "double" quotes,
//	$ NO_COLOR=1 espalier prune … < f  variables and input from a file work as in a shell;
//	                                   the program can also be kubectl-espalier; $WORK is the directory
//	                                   with the files of the archive
//	$ git commit …                     runs git, or ln, mkdir, mkfifo, mv or rm; commits are reproducible
//	cd DIR                             changes the directory for the commands that follow
//	programs DIR                       makes the commands that follow find programs in DIR, and those of
//	                                   the system; files that begin with #! are executable
//	server                             starts a server, with its own etcd if the script uses $ETCD;
//	                                   commands find them with $KUBECONFIG and $ETCD
//	send METHOD PATH [FILE]            sends a request to it; the response is the standard output,
//	                                   warnings are the standard error, and errors exit with 1
//	exit 1                             expected exit code, 0 by default
//	> a line                           complete standard output
//	2> a line                          complete standard error
//	~ text                             standard output contains the text
//	!~ text                            standard output does not contain the text
//	2~ text, 2!~ text                  the same for standard error
//	stdout FILE                        standard output equals FILE of the archive
//	stderr FILE                        the same for standard error
//	file F is FILE                     file F, after the command, equals FILE of the archive
//
// Expectations refer to the last command. FILEs are unpacked too. With -update, FILEs and
// complete outputs are rewritten:
//
//	go test ./cmd/espalier -run 'TestScripts/NAME' -update
type script struct {
	path    string
	archive *txtar.Archive
	// dir is the directory of the next command.
	dir string
	// programs is the PATH of commands, or empty.
	programs string
	stdout   string
	stderr   string
	code     int
	// ran is set if a command has run, checked if its exit code has been compared.
	ran, checked bool
	last         string
	changed      bool
	// server is nil unless the script starts one. variables replaces variables in commands.
	server    *scriptServer
	variables *strings.Replacer
}

var update = flag.Bool("update", false, "rewrite the expected output in testdata")

func TestScripts(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Fatal("there are no scripts")
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			absolute, err := filepath.Abs(path)
			if err != nil {
				t.Fatal(err)
			}
			archive, err := txtar.ParseFile(absolute)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			for _, f := range archive.Files {
				file := filepath.Join(dir, filepath.FromSlash(f.Name))
				writeFile(t, file, f.Data)
				if bytes.HasPrefix(f.Data, []byte("#!")) {
					if err := os.Chmod(file, 0o755); err != nil {
						t.Fatal(err)
					}
				}
			}
			s := &script{path: absolute, archive: archive, dir: dir, variables: strings.NewReplacer("$WORK", dir)}
			s.run(t)
			if s.changed {
				if err := os.WriteFile(s.path, txtar.Format(s.archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func writeFile(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// run runs the commands and checks the expectations.
func (s *script) run(t *testing.T) {
	t.Helper()
	lines := strings.Split(string(s.archive.Comment), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "$":
			s.checkCode(t, exitClean)
			s.command(t, rest)
		case "cd":
			s.dir = filepath.Join(s.dir, rest)
		case "programs":
			s.programs = strings.Join([]string{filepath.Join(s.dir, rest), "/usr/local/bin", "/usr/bin", "/bin"}, string(filepath.ListSeparator))
		case "server":
			s.serve(t)
		case "send":
			s.checkCode(t, exitClean)
			s.send(t, rest)
		case "exit":
			want, err := strconv.Atoi(strings.TrimSpace(rest))
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			s.checkCode(t, want)
		case ">", "2>":
			start, block := i, []string{rest}
			for i+1 < len(lines) && (lines[i+1] == word || strings.HasPrefix(lines[i+1], word+" ")) {
				i++
				_, rest, _ := strings.Cut(lines[i], " ")
				block = append(block, rest)
			}
			want := strings.Join(block, "\n") + "\n"
			if got := s.stream(word); *update && got != want && got != "" {
				lines = slices.Replace(lines, start, i+1, quoteLines(word, got)...)
				i = start + strings.Count(got, "\n") - 1
				s.archive.Comment, s.changed = []byte(strings.Join(lines, "\n")), true
				continue
			}
			s.same(t, word, want, s.stream(word))
		case "~", "2~":
			if !strings.Contains(s.stream(word), rest) {
				t.Errorf("$ %s\nlacks %q:\n%s", s.last, rest, s.stream(word))
			}
		case "!~", "2!~":
			if strings.Contains(s.stream(word), rest) {
				t.Errorf("$ %s\nhas %q:\n%s", s.last, rest, s.stream(word))
			}
		case "stdout", "stderr":
			s.golden(t, strings.TrimSpace(rest), map[string]string{"stdout": s.stdout, "stderr": s.stderr}[word])
		case "file":
			name, want, ok := strings.Cut(rest, " is ")
			if !ok {
				continue
			}
			got, err := os.ReadFile(filepath.Join(s.dir, name))
			if err != nil {
				t.Error(err)
				continue
			}
			s.golden(t, strings.TrimSpace(want), string(got))
		}
	}
	s.checkCode(t, exitClean)
	if !s.ran {
		t.Error("the script runs no command")
	}
}

// quoteLines returns the lines of a text as a script expects them.
func quoteLines(word, text string) (lines []string) {
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimRight(word+" "+line, " \n"))
	}
	return lines
}

// exitClean is the default of the expected exit code.
const exitClean = 0

func (s *script) stream(word string) string {
	if strings.HasPrefix(word, "2") {
		return s.stderr
	}
	return s.stdout
}

// checkCode compares the exit code of the last command, once.
func (s *script) checkCode(t *testing.T, want int) {
	t.Helper()
	if s.ran && !s.checked && s.code != want {
		t.Errorf("$ %s\nexits with %d, want %d\nstdout:\n%s\nstderr:\n%s", s.last, s.code, want, s.stdout, s.stderr)
	}
	s.checked = true
}

func (s *script) command(t *testing.T, line string) {
	t.Helper()
	words, err := splitWords(line)
	if err != nil {
		t.Fatalf("$ %s: %v", line, err)
	}
	for i := range words {
		words[i] = s.variables.Replace(words[i])
	}
	var stdin bytes.Buffer
	if n := len(words); n > 2 && words[n-2] == "<" {
		data, err := os.ReadFile(filepath.Join(s.dir, words[n-1]))
		if err != nil {
			t.Fatal(err)
		}
		stdin.Write(data)
		words = words[:n-2]
	}
	env := map[string]string{}
	if s.programs != "" {
		env["PATH"] = s.programs
	}
	for len(words) > 0 {
		name, value, ok := strings.Cut(words[0], "=")
		if !ok {
			break
		}
		env[name] = value
		words = words[1:]
	}
	var stdout, stderr bytes.Buffer
	switch {
	case len(words) > 0 && slices.Contains([]string{"git", "ln", "mkdir", "mkfifo", "mv", "rm"}, words[0]):
		s.code = runProgram(t, s.dir, words, env, &stdout, &stderr)
		s.stdout, s.stderr = stdout.String(), stderr.String()
		s.ran, s.checked, s.last = true, false, line
		return
	case len(words) == 0 || words[0] != "espalier" && words[0] != "kubectl-espalier":
		t.Fatalf("$ %s: only espalier, git and a few others can be run", line)
	}
	if _, ok := env["PATH"]; ok {
		// Programs are found with the environment of the process.
		p := startIn(t, s.dir, &stdin, []string{"PATH=" + env["PATH"]}, words[1:]...)
		s.code = p.exit(t)
		s.stdout, s.stderr = p.stdout.String(), p.stderr.String()
	} else {
		a := &app{program: words[0], stdin: &stdin, stdout: &stdout, stderr: &stderr, dir: workdir.Dir(s.dir), environ: func(name string) (string, bool) {
			value, ok := env[name]
			return value, ok
		}}
		s.code = a.run(t.Context(), words[1:])
		s.stdout, s.stderr = stdout.String(), stderr.String()
	}
	if len(words) > 1 && slices.Contains([]string{"serve", "backup", "restore"}, words[1]) || slices.Contains(words, "--snapshot") {
		// The server and its snapshots know only absolute paths.
		s.stderr = strings.ReplaceAll(s.stderr, s.dir+string(filepath.Separator), "")
	}
	s.ran, s.checked, s.last = true, false, line
}

// runProgram runs a program other than espalier in a directory, and returns its exit code. What git does depends
// on neither the user's settings nor the time.
func runProgram(t testing.TB, dir string, words []string, env map[string]string, stdout, stderr io.Writer) int {
	t.Helper()
	path, err := exec.LookPath(words[0])
	if err != nil {
		t.Skipf("there is no %s", words[0])
	}
	c := exec.CommandContext(t.Context(), path, words[1:]...)
	c.Dir, c.Stdout, c.Stderr = dir, stdout, stderr
	const name, mail, date = "Espalier", "espalier@example.com", "2026-01-02T03:04:05Z"
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_ALLOW_PROTOCOL=file",
		"GIT_AUTHOR_NAME="+name, "GIT_AUTHOR_EMAIL="+mail, "GIT_AUTHOR_DATE="+date,
		"GIT_COMMITTER_NAME="+name, "GIT_COMMITTER_EMAIL="+mail, "GIT_COMMITTER_DATE="+date)
	for name, value := range env {
		c.Env = append(c.Env, name+"="+value)
	}
	var exit *exec.ExitError
	if err := c.Run(); errors.As(err, &exit) {
		return exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return 0
}

// splitWords splits a line as a shell does, without expanding anything.
func splitWords(line string) (words []string, err error) {
	var word strings.Builder
	open, started := rune(0), false
	for _, r := range line {
		switch {
		case open != 0 && r == open:
			open = 0
		case open != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			open, started = r, true
		case r == ' ' || r == '\t':
			if started {
				words = append(words, word.String())
				word.Reset()
				started = false
			}
		default:
			word.WriteRune(r)
			started = true
		}
	}
	if open != 0 {
		return nil, fmt.Errorf("a %c is not closed", open)
	}
	if started {
		words = append(words, word.String())
	}
	return words, nil
}

// golden compares got with a file of the archive, or updates the file.
func (s *script) golden(t *testing.T, name, got string) {
	t.Helper()
	for i := range s.archive.Files {
		f := &s.archive.Files[i]
		if f.Name != name {
			continue
		}
		if *update && string(f.Data) != got {
			f.Data, s.changed = []byte(got), true
			return
		}
		s.same(t, name, string(f.Data), got)
		return
	}
	if *update {
		s.archive.Files = append(s.archive.Files, txtar.File{Name: name, Data: []byte(got)})
		s.changed = true
		return
	}
	t.Errorf("the archive has no file %s", name)
}

func (s *script) same(t *testing.T, what, want, got string) {
	t.Helper()
	if got != want {
		t.Errorf("$ %s\n%s: got\n%s\nwant\n%s\n%s", s.last, what, got, want, firstDifference(got, want))
	}
}

// firstDifference shows the first line in which two texts differ.
func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		var a, b string
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a != b {
			return fmt.Sprintf("line %d: got %q, want %q", i+1, a, b)
		}
	}
	return ""
}
