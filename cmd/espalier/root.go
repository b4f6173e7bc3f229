package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"espalier.dev/cmd/espalier/internal/config"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/cmd/espalier/internal/workdir"
	"espalier.dev/schema"
)

// app is one run of the program: its streams, its environment and the flags that all
// commands share.
type app struct {
	// program is the path of the executable. Messages say "kubectl espalier" if it is
	// named as a kubectl plugin.
	program        string
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        func(string) (string, bool)
	// dir is the working directory. It is empty for that of the process.
	dir workdir.Dir
	// tune prepares the process for a short-running command. It may be nil.
	tune func()
	// expect prepares the process for the use of more CRDs, of this size. It may be nil.
	expect func(bytes int64)
	// silence ends the logs of the libraries of the server. It may be nil.
	silence func()

	semantics   semanticsFlag
	color       colorFlag
	configFlags configFlags
	// baselineFlags are set for commands that have them; baseline is nil without one.
	baselineFlags baselineFlags
	baseline      *config.Baseline
	// config is the configuration file, which is empty for commands that read none. It never
	// is nil while a command runs.
	config *config.File
	// rules returns the rules that the configuration and suppressions can name.
	rules func() config.Rules
	// inputs is the input of the command that findings are about.
	inputs []input.Flags
	// repositories are the Git repositories that the command reads.
	repositories *input.Repositories
}

// run runs the command line args and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	a.repositories = input.NewRepositories(ctx, a.dir)
	root := newRootCommand(a)
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	rejectUnknownTopics(root, args)
	err := root.ExecuteContext(ctx)
	err = errors.Join(err, a.repositories.Close())
	var exit report.ExitError
	switch {
	case err == nil:
		return report.Clean
	case errors.As(err, &exit):
		return int(exit)
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		i := interruptionOf(ctx)
		fmt.Fprintf(a.stderr, "%s: %v\n", a.name(), i)
		return int(i.code())
	default:
		fmt.Fprintf(a.stderr, "%s: %v\n", a.name(), err)
	}
	return report.Failed
}

// name returns what the user types to run the program.
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
		Short:       "Lint, test, compare and serve CustomResourceDefinitions without a cluster",
		Long: `Espalier checks CustomResourceDefinitions (CRDs), custom resources, and objects of
built-in kinds as kube-apiserver does. It needs no cluster, and all commands except
serve and migrate work offline. With --from-cluster, lint, validate, test, explain, show,
generate, diff, upgrade, audit and why read a running cluster.

Validate, review, prune, test, explain, show, why and serve know built-in kinds, such as
Deployments, without a CRD or a download. The other commands are about CRDs and custom resources.

Input comes from files, directories (-R includes subdirectories), standard input (-) and
revisions of the Git repository that contains the working directory: git:REV:PATH is a file
or directory of a revision, relative to the root of the repository (git:main:config/crd) or,
with ./, to the working directory (git:HEAD~1:./crd.yaml); git:REV: is everything. A file
may contain any number of YAML or JSON documents and lists. Findings include the file, line
and column. A Helm chart or a kustomization is rendered by helm or kustomize if a path names
it; see espalier validate --help.` + buildHelp + `

There are two schema semantics. "kep" follows the design documents of CRDs, "kubernetes"
follows kube-apiserver 1.37 exactly. They differ in a few places, and findings point out
where the difference affects your input.

Commands other than serve, envtest, backup and restore read the configuration file ` + config.Name + `
in the working directory or above it; see espalier config --help. ` + semanticsVariable + ` sets the semantics for
all commands. Flags take precedence over the environment, and the environment over the file.

Findings are errors, warnings or infos. Only errors make the exit code 1; --fail-on changes
this. Exit code 2 takes precedence over 1.

Exit codes: 0 success, 1 problems found, ` + otherExitCodes + ` by Ctrl-C (SIGINT), 143 by SIGTERM.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			if a.tune != nil {
				a.tune()
			}
			return a.configure(c)
		},
		Version: buildVersion().version,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(c, args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	flags := root.PersistentFlags()
	flags.Var(&a.semantics, "semantics", `schema semantics: "kep" or "kubernetes"`)
	flags.Var(&a.color, "color", `color in text output: "auto", "always" or "never"`)
	for flag, values := range map[string][]string{"semantics": {schema.KEP.String(),
		schema.Kubernetes.String()}, "color": {"auto", "always", "never"}} {
		_ = root.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	configured := []*cobra.Command{
		newLintCommand(a, new(lintOptions)),
		newFixCommand(a),
		newDiffCommand(a),
		newReviewCommand(a),
		newUpgradeCommand(a),
		newAuditCommand(a),
		newWhyCommand(a),
		newPruneCommand(a),
		newValidateCommand(a, new(validateOptions)),
		newExplainCommand(a),
		newTestCommand(a),
		newRecordCommand(a),
		newShowCommand(a),
		newGenerateCommand(a),
		newConfigCommand(a),
	}
	for _, c := range configured {
		addConfigFlags(c, &a.configFlags)
	}
	root.AddCommand(configured...)
	root.AddCommand(serverCommands(a)...)
	root.AddCommand(
		newMigrateCommand(a),
		newTimelineCommand(a),
		newLSPCommand(a),
		newUICommand(a),
		newVersionCommand(a),
		newManCommand(a),
	)
	groupCommands(root)
	root.SetUsageFunc(usage)
	root.SetHelpFunc(helpOf(root))
	root.SetFlagErrorFunc(flagError)
	a.finish(root)
	return root
}

// groupCommands sorts the commands of the program into groups for its help. The program without the server lacks
// some of them.
func groupCommands(root *cobra.Command) {
	for _, group := range []struct {
		title    string
		commands []string
	}{
		{"Objects", []string{"validate", "prune", "explain", "show", "test"}},
		{"CRDs and admission policies", []string{"lint", "fix", "generate"}},
		{"Changes", []string{"diff", "review", "upgrade"}},
		{"Stored objects", []string{"audit", "why", "migrate", "record"}},
		{"Editors and the web", []string{"lsp", "ui"}},
		{"API server", []string{"serve", "kubeconfig", "backup", "restore", "envtest", "timeline"}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, c := range root.Commands() {
			if slices.Contains(group.commands, c.Name()) {
				c.GroupID = group.title
			}
		}
	}
}

// helpOf returns what prints the help of commands. That of the program has its commands before the details.
func helpOf(root *cobra.Command) func(*cobra.Command, []string) {
	other := root.HelpFunc()
	return func(c *cobra.Command, args []string) {
		if c != root {
			other(c, args)
			return
		}
		paragraphs := strings.SplitN(c.Long, "\n\n", 3)
		w := c.OutOrStdout()
		fmt.Fprintf(w, "%s\n\n%s\n\n", paragraphs[0], paragraphs[1])
		c.SetOut(w) // where the usage goes, too
		_ = usage(c)
		fmt.Fprintf(w, "\n%s\n", paragraphs[2])
	}
}

// finish completes the help texts of a command and its subcommands: the long description
// starts with the short one, and the examples use the program's name.
func (a *app) finish(c *cobra.Command) {
	c.Flags().SortFlags = false // usage lists groups in the order of definition
	if c.Long == "" {
		c.Long = c.Short + "."
	} else {
		c.Long = c.Short + ".\n\n" + c.Long
	}
	if c.Runnable() && !strings.Contains(c.Long, "Exit codes:") {
		c.Long += "\n\nExit codes: 0 success, 2 usage or input error."
	}
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
	for _, sub := range c.Commands() {
		a.finish(sub)
	}
}
