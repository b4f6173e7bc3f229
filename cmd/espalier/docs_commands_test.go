package main

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"espalier.dev/internal/pages"
)

// TestDocsCommands parses all commands in README.md and in the pages below docs: in blocks that are run, in
// blocks that are not, such as workflows, and in code within text. Code within text may lack arguments.
func TestDocsCommands(t *testing.T) {
	t.Parallel()
	root := pages.Root(t)
	readme, err := pages.Read(root, "README.md")
	if err != nil {
		t.Fatal(err)
	}
	names, known := namesAndFlags()
	// The flags of helm that the pages name.
	known["set"] = true
	commands, flags := 0, 0
	for _, p := range append(pages.Below(t, root, "docs"), readme) {
		for _, l := range p.CodeLines() {
			found := pages.CommandsOf(l.Text, "espalier")
			// Code within text may begin with the name of a command.
			if name, rest, _ := strings.Cut(l.Text, " "); l.Inline && names[name] && strings.HasPrefix(rest, "--") {
				found = append(found, "espalier "+l.Text)
			}
			for _, command := range found {
				commands++
				if err := checkCommand(command, l.Inline); err != nil {
					t.Errorf("%s:%d: %s: %v", p.Name, l.Line, command, err)
				}
			}
			if m := flagName.FindStringSubmatch(l.Text); l.Inline && m != nil {
				if flags++; !known[m[1]] {
					t.Errorf("%s:%d: no command has the flag --%s", p.Name, l.Line, m[1])
				}
			}
		}
	}
	if commands < 300 || flags < 200 {
		t.Errorf("only %d commands and %d flags were found", commands, flags)
	}
}

// flagName matches the flag at the beginning of a text.
var flagName = regexp.MustCompile(`^--([a-z][a-z0-9-]*)`)

// namesAndFlags returns the names and the flags of all commands.
func namesAndFlags() (names, flags map[string]bool) {
	names, flags = map[string]bool{}, map[string]bool{"help": true, "version": true}
	visitCommands(newRootCommand(&app{program: "espalier"}), func(c *cobra.Command) {
		names[c.Name()] = true
		c.Flags().VisitAll(func(f *pflag.Flag) { flags[f.Name] = true })
		c.PersistentFlags().VisitAll(func(f *pflag.Flag) { flags[f.Name] = true })
	})
	return names, flags
}

// checkCommand parses a command. A part of a command, and a name alone, may lack arguments and the value of
// the last flag. "…" stands for any arguments. Usage lines are generated from the commands.
func checkCommand(command string, part bool) error {
	if strings.HasSuffix(command, "[flags]") || strings.Contains(command, " (") || strings.Contains(command, "...") {
		return nil
	}
	err := parseCommand(command)
	words := strings.Fields(command)
	part = part || len(words) == 2 || slices.Contains(words, "…")
	var missing *pflag.ValueRequiredError
	switch {
	case err == nil || !part:
		return err
	case errors.As(err, &missing):
		return nil
	case len(words) == 2 || strings.HasPrefix(words[2], "-") || slices.Contains(words, "…"):
		// Unknown commands and flags are errors nevertheless.
		root := newRootCommand(&app{program: "espalier"})
		root.InitDefaultCompletionCmd()
		if c, args, _ := root.Find(words[1:]); c.HasParent() && c.ParseFlags(args) == nil {
			return nil
		}
	}
	return err
}

// TestCheckCommand checks that what does not exist is found.
func TestCheckCommand(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		command  string
		part, ok bool
	}{
		{"espalier lint a.yaml", false, true},
		{"espalier lint --missing a.yaml", false, false},
		{"espalier lint --missing", true, false},
		{"espalier missing", true, false},
		{"espalier missing --semantics kep", true, false},
		{"espalier diff", true, true},
		{"espalier diff a", false, false},
		{"espalier backup --etcd-servers … backup.db", true, true},
		{"espalier backup --etcd …", true, false},
		{"espalier backup --etcd-servers", true, true},
		{"espalier --semantics kep lint a.yaml", false, true},
		{"espalier lint --fail-on nothing a.yaml", true, false},
		{"espalier show core --help", false, true},
	} {
		if err := checkCommand(test.command, test.part); (err == nil) != test.ok {
			t.Errorf("%s: %v", test.command, err)
		}
	}
}
