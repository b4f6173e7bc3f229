package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"espalier.dev/server"
	"espalier.dev/server/pki"
)

// TestHelpExamples runs every example of every command's help text in testdata/examples.
// Examples may find problems (exit code 1), but may not fail. The flags of serve, lsp and ui, which run
// until they are stopped, and of commands that need a server, are only parsed.
func TestHelpExamples(t *testing.T) {
	t.Parallel()
	examples, err := filepath.Abs("testdata/examples")
	if err != nil {
		t.Fatal(err)
	}
	visitCommands(newRootCommand(&app{program: "espalier"}), func(c *cobra.Command) {
		if !c.Runnable() || c.Hidden || c.Name() == "help" || !c.HasParent() || c.Parent().Name() == "completion" {
			return
		}
		t.Run(strings.ReplaceAll(c.CommandPath(), " ", "_"), func(t *testing.T) {
			lines := exampleLines(c.Example)
			if len(lines) == 0 {
				t.Error("the help has no examples")
			}
			if !strings.Contains(c.Long, "Exit codes: ") || c.Flags().Lookup("fail-on") != nil && !strings.Contains(c.Long, "--fail-on") {
				t.Error("the help does not describe the exit codes")
			}
			if c.Short == "" || !strings.HasPrefix(c.Long, c.Short+".") {
				t.Errorf("the help text does not start with the summary: %q", c.Long)
			}
			for _, line := range lines {
				if name := strings.Fields(line)[1]; name == "serve" || name == "migrate" || name == "lsp" || name == "ui" || strings.Contains(line, "--from-cluster") || strings.Contains(line, "--etcd-servers") || strings.Contains(line, "--helm") {
					parseExample(t, line)
					continue
				}
				p := newPlace(t)
				dir := p.dir
				if err := os.CopyFS(dir, os.DirFS(examples)); err != nil {
					t.Fatal(err)
				}
				writeSnapshot(t, filepath.Join(dir, "snapshot.db"), storedManifests(t, dir, map[string]string{
					"apiextensions.k8s.io/customresourcedefinitions/crontabs.stable.example.com": "crontab-crd.yaml",
					"stable.example.com/crontabs/default/nightly":                                "crontab-typo.yaml",
				}))
				if strings.Contains(line, "git:") || strings.Contains(line, "--base") {
					p.git("init -q", "add -A", "commit -q -m one", "tag v1.2.0", "update-ref refs/remotes/origin/main HEAD")
				}
				switch c.Name() {
				case "backup":
					createData(t, p.path("espalier-data"), p.path("older.db"))
				case "kubeconfig":
					if _, err := pki.Ensure(pki.Config{Dir: p.path("espalier-data/pki")}); err != nil {
						t.Fatal(err)
					}
				case "envtest":
					if line == "espalier envtest" { // it writes to the user's cache
						parseExample(t, line)
						continue
					}
				case "restore":
					createData(t, p.path("espalier-data"), p.path("backup.db"))
				}
				p.example(line)
			}
		})
	})
}

// parseExample parses the flags and arguments of an example.
func parseExample(t *testing.T, line string) {
	t.Helper()
	if err := parseCommand(line); err != nil {
		t.Errorf("$ %s\n%v", line, err)
	}
}

// parseCommand parses the command, the flags and the arguments of a line.
func parseCommand(line string) error {
	words, err := splitWords(line)
	if err != nil {
		return err
	}
	root := newRootCommand(&app{program: "espalier"})
	root.InitDefaultCompletionCmd()
	c, args, err := root.Find(words[1:])
	if err != nil {
		return err
	}
	if err := c.ParseFlags(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return nil
		}
		return err
	}
	return c.ValidateArgs(c.Flags().Args())
}

// TestFlagGroups makes sure that each flag of a command, apart from those that all commands
// share, is in a group of the help text.
func TestFlagGroups(t *testing.T) {
	t.Parallel()
	root := newRootCommand(&app{program: "espalier"})
	for _, c := range root.Commands() {
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if len(f.Annotations[flagGroupAnnotation]) == 0 {
				t.Errorf("%s: --%s has no group", c.Name(), f.Name)
			}
		})
	}
	out, code := runApp(t, "serve", "--help")
	if code != 0 {
		t.Fatalf("serve --help exits with %d: %s", code, out)
	}
	at := 0
	for _, heading := range append(server.NewOptions().FlagGroups().Order, "Logging", generalFlags) {
		i := strings.Index(out[at:], "\n"+heading+" flags:\n")
		if i < 0 {
			t.Errorf("serve --help lacks the heading %q, or has it elsewhere:\n%s", heading, out)
			continue
		}
		at += i
	}
}

func visitCommands(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		visitCommands(sub, visit)
	}
}

// exampleLines returns the commands in an example. A backslash continues a line.
func exampleLines(example string) (lines []string) {
	for _, line := range strings.Split(strings.ReplaceAll(example, "\\\n", " "), "\n") {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "espalier ") || strings.Contains(line, "| espalier ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// example runs an example, which may read a file through a pipe and redirect its output.
func (p place) example(line string) {
	t := p.t
	t.Helper()
	var stdin, stdout, stderr bytes.Buffer
	command := line
	if source, rest, ok := strings.Cut(line, " | "); ok {
		name, ok := strings.CutPrefix(source, "cat ")
		if !ok {
			t.Fatalf("%s: only cat can be piped to espalier", line)
		}
		stdin.WriteString(p.read(name))
		command = rest
	}
	command, _, _ = strings.Cut(command, " > ")
	words, err := splitWords(command)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	a := p.app(&stdin, &stdout, &stderr)
	if code := a.run(context.Background(), words[1:]); code != 0 && code != 1 {
		t.Errorf("$ %s\nexits with %d:\n%s%s", line, code, stdout.String(), stderr.String())
	}
}

// TestGroups checks that each command is in a group of the help, but for those about the program itself, and that
// the commands come before the details.
func TestGroups(t *testing.T) {
	t.Parallel()
	a := &app{program: "espalier"}
	for _, c := range newRootCommand(a).Commands() {
		other := slices.Contains([]string{"config", "version", "man", "completion", "help"}, c.Name())
		if (c.GroupID == "") != other {
			t.Errorf("%s is in the group %q", c.Name(), c.GroupID)
		}
	}
	out, code := runApp(t, "--help")
	commands, details := strings.Index(out, "\nObjects:\n"), strings.Index(out, "Exit codes:")
	if code != 0 || commands < 0 || details < commands {
		t.Errorf("exits with %d: %s", code, out)
	}
}
