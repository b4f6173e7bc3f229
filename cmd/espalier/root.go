package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/schema"
)

// app is one run of the program: where it reads and writes, and what the flags that
// all commands share say. Commands get it from newRootCommand and keep no other
// state.
type app struct {
	// program is how the program was called: its name decides whether it speaks of
	// itself as a plugin of kubectl.
	program        string
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        func(string) (string, bool)

	semantics semanticsFlag
	color     colorFlag
}

// run runs the command that args name and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := newRootCommand(a)
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	err := root.ExecuteContext(ctx)
	var exit report.ExitError
	switch {
	case err == nil:
		return report.Clean
	case errors.As(err, &exit):
		return int(exit)
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		fmt.Fprintf(a.stderr, "%s: interrupted\n", a.name())
	default:
		fmt.Fprintf(a.stderr, "%s: %v\n", a.name(), err)
	}
	return report.Failed
}

// name is what the user types to run the program.
func (a *app) name() string {
	base := strings.TrimSuffix(filepath.Base(a.program), ".exe")
	if base == "kubectl-espalier" {
		return "kubectl espalier"
	}
	return "espalier"
}

func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:         "espalier",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: a.name()},
		Short:       "CustomResourceDefinitions without a cluster: check them, try them, change them safely",
		Long: `Espalier answers offline, and at once, what otherwise takes a cluster: is this
CustomResourceDefinition right, what will the server do to this object and why, is
this change safe. It never touches the network.

Input is files, directories (-R for those below, too) and standard input (-), with
any number of YAML or JSON documents and lists in them. Findings carry file, line and
column.

There are two readings of schemas. "kep" is what the design documents of
CustomResourceDefinitions say, "kubernetes" is what kube-apiserver 1.37 does, to the
letter. They differ in few places; where they do for what you have, you are told.

Exit codes: 0 nothing found, 1 findings or differences, 2 it could not be done.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	flags := root.PersistentFlags()
	flags.Var(&a.semantics, "semantics", `whose reading of schemas applies: "kep" or "kubernetes"`)
	flags.Var(&a.color, "color", `when to use colour: "auto", "always" or "never"`)
	for flag, values := range map[string][]string{"semantics": {schema.KEP.String(), schema.Kubernetes.String()}, "color": {"auto", "always", "never"}} {
		_ = root.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	root.AddCommand(
		newLintCommand(a),
		newFixCommand(a),
		newDiffCommand(a),
		newPruneCommand(a),
		newValidateCommand(a),
		newExplainCommand(a),
		newTestCommand(a),
		newShowCommand(a),
		newServeCommand(a),
		newVersionCommand(a),
		newManCommand(a),
	)
	a.finish(root)
	return root
}

// finish puts the program's name into the examples of all commands and makes
// mistakes on the command line say what to do.
func (a *app) finish(c *cobra.Command) {
	if name := a.name(); name != "espalier" {
		lines := strings.Split(c.Example, "\n")
		for i, line := range lines {
			if rest, ok := strings.CutPrefix(line, "  espalier "); ok {
				line = "  " + name + " " + rest
			}
			lines[i] = strings.ReplaceAll(line, "| espalier ", "| "+name+" ")
		}
		c.Example = strings.Join(lines, "\n")
	}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w\nSee '%s --help'", err, c.CommandPath())
	})
	for _, sub := range c.Commands() {
		a.finish(sub)
	}
}

// semanticsFlag is the flag --semantics. Its zero value is the default.
type semanticsFlag struct{ schema.Semantics }

// Set reads the flag.
func (f *semanticsFlag) Set(s string) (err error) {
	f.Semantics, err = schema.ParseSemantics(s)
	return err
}

// Type is what the help shows.
func (f *semanticsFlag) Type() string { return "kep|kubernetes" }

// colorFlag is the flag --color.
type colorFlag string

// Set reads the flag.
func (f *colorFlag) Set(s string) error {
	switch s {
	case "auto", "always", "never":
		*f = colorFlag(s)
		return nil
	}
	return errors.New("must be auto, always or never")
}

// String is the value of the flag.
func (f *colorFlag) String() string {
	if *f == "" {
		return "auto"
	}
	return string(*f)
}

// Type is what the help shows.
func (f *colorFlag) Type() string { return "when" }

// useColor says whether what is written to w is to be coloured.
func (a *app) useColor(w io.Writer) bool {
	switch a.color.String() {
	case "always":
		return true
	case "never":
		return false
	}
	if value, _ := a.environ("NO_COLOR"); value != "" {
		return false
	}
	if value, _ := a.environ("TERM"); value == "dumb" {
		return false
	}
	return isTerminal(w)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// addInputFlags adds -f and -R.
func addInputFlags(c *cobra.Command, flags *input.Flags, what string) {
	c.Flags().StringArrayVarP(&flags.Paths, "filename", "f", nil, "`PATH` of a file or directory with "+what+", or - for standard input (may repeat)")
	c.Flags().BoolVarP(&flags.Recursive, "recursive", "R", false, "also read the directories below a directory")
	_ = c.MarkFlagFilename("filename", "yaml", "yml", "json")
}

// addCRDFlag adds --crd.
func addCRDFlag(c *cobra.Command, flags *input.Flags) {
	c.Flags().StringArrayVar(&flags.Paths, "crd", nil, "`PATH` of a file or directory with CustomResourceDefinitions, or - for standard input (may repeat)")
	_ = c.MarkFlagFilename("crd", "yaml", "yml", "json")
}

// addOutputFlag adds -o for commands that report findings.
func addOutputFlag(c *cobra.Command, outputs *[]string) {
	c.Flags().StringArrayVarP(outputs, "output", "o", nil,
		"`FORMAT` of the report: "+strings.Join(report.Formats(), ", ")+"; with =FILE to a file (may repeat) (default text)")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(report.Formats(), cobra.ShellCompDirectiveNoFileComp))
}

// newReporter opens a reporter for a command. rules describe what it may find.
func (a *app) newReporter(c *cobra.Command, outputs []string, rules []report.Rule) (*report.Reporter, error) {
	return report.New(a.reportOptions(c, outputs, rules))
}

func (a *app) reportOptions(c *cobra.Command, outputs []string, rules []report.Rule) report.Options {
	return report.Options{
		Outputs:     outputs,
		Stdout:      a.stdout,
		Color:       a.useColor(a.stdout),
		Semantics:   a.semantics.String(),
		Rules:       rules,
		Version:     buildVersion().version,
		Command:     c.CommandPath(),
		Interrupted: func() bool { return c.Context().Err() != nil },
	}
}

// build is what is known about how the program was built.
type build struct {
	version, revision, time string
	modified                bool
}

func buildVersion() build {
	b := build{version: "devel"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.revision = s.Value
		case "vcs.time":
			b.time = s.Value
		case "vcs.modified":
			b.modified = s.Value == "true"
		}
	}
	return b
}
