package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

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
	// tune prepares the process for a command that is over soon. It may be nil.
	tune func()

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

There are two schema semantics. "kep" is what the design documents of
CustomResourceDefinitions say, "kubernetes" is what kube-apiserver 1.37 does, to the
letter. They differ in few places; where they do for what you have, you are told.

Exit codes: 0 nothing found, 1 findings or differences, 2 it could not be done.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		PersistentPreRun: func(*cobra.Command, []string) {
			if a.tune != nil {
				a.tune()
			}
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	flags := root.PersistentFlags()
	flags.Var(&a.semantics, "semantics", `whose schema semantics applies: "kep" or "kubernetes"`)
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
