package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lint"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/crd/cel"
)

// lintOptions are the flags of lint.
type lintOptions struct {
	input    input.Flags
	outputs  []string
	list     bool
	explain  string
	config   string
	enable   []string
	disable  []string
	severity []string
}

func newLintCommand(a *app) *cobra.Command {
	var o lintOptions
	c := &cobra.Command{
		Use:   "lint -f PATH...",
		Short: "Find what is wrong, doubtful or ambiguous in CustomResourceDefinitions",
		Long: `Lint looks at CustomResourceDefinitions, v1 and v1beta1, and says what a server would
reject, what does not do what its author likely thinks, and where the two semantics read
it differently. Other documents are skipped. Definitions that are given together are
also held against each other: names may collide.

Every finding belongs to a rule; --rules lists them and --explain prints a page about
one. Findings are errors, warnings or infos; infos alone make for exit code 0.

Rules are turned on and off by flags, and before that by the file ` + configName + ` in the
working directory or the closest directory above that has one:

  lint:
    disable: [list-type]
    enable: [semantics-published]
    severity: {unknown-format: error}

What a finding says it can fix, espalier fix does.`,
		Example: `  # Is this definition right?
  espalier lint -f crontab-crd.yaml

  # All definitions below a directory, for a cluster
  espalier lint --semantics kubernetes -R -f crds/

  # In a pull request: fail on format mistakes, leave list types alone
  espalier lint -f crds/ --severity unknown-format=error --disable list-type -o github

  # What rules are there, and what is this one about?
  espalier lint --rules
  espalier lint --explain pruned-empty`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case o.list:
				return a.listRules(o)
			case o.explain != "":
				return a.explainRule(o.explain)
			}
			return a.lint(c, o)
		},
	}
	addInputFlags(c, &o.input, "CustomResourceDefinitions")
	addOutputFlag(c, &o.outputs)
	c.Flags().BoolVar(&o.list, "rules", false, "list the rules and exit")
	c.Flags().StringVar(&o.explain, "explain", "", "print the page about a rule and exit")
	c.Flags().StringVar(&o.config, "config", "", "file to configure rules with (default "+configName+" in the working directory or above)")
	c.Flags().StringSliceVar(&o.enable, "enable", nil, "turn rules on, or all of them with "+lint.All+" (may repeat)")
	c.Flags().StringSliceVar(&o.disable, "disable", nil, "turn rules off, or all of them with "+lint.All+" (may repeat)")
	c.Flags().StringSliceVar(&o.severity, "severity", nil, "change the severity of a rule: RULE=error|warning|info (may repeat)")
	_ = c.MarkFlagFilename("config", "yaml", "yml")
	for _, name := range []string{"explain", "enable", "disable"} {
		_ = c.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(ruleIDs(), cobra.ShellCompDirectiveNoFileComp))
	}
	return c
}

func (a *app) lint(c *cobra.Command, o lintOptions) (err error) {
	if len(o.input.Paths) == 0 {
		return errors.New("say what to lint: files or directories with -f, or - for standard input")
	}
	configs, err := o.configs()
	if err != nil {
		return err
	}
	options := a.reportOptions(c, o.outputs, lintRules())
	options.What = "definition"
	r, err := report.New(options)
	if err != nil {
		return err
	}
	defer func() { err = r.Finish(err) }()
	items, err := a.readDefinitions(c.Context(), o.input, r.Failure)
	if err != nil {
		return err
	}
	texts := make([][]byte, len(items))
	for i, it := range items {
		texts[i] = it.JSON
	}
	found, err := lint.Run(c.Context(), texts, lint.Options{Semantics: a.semantics.Semantics, Rules: cel.Checker{}, Configs: configs})
	if err != nil {
		return err
	}
	for i, it := range items {
		r.Saw(it)
		for _, f := range placed(it, found[i]) {
			r.Add(f)
		}
	}
	return nil
}

// placed gives findings about a definition their places, in the order of the file.
func placed(it *input.Item, findings []analysis.Finding) []report.Finding {
	all := make([]report.Finding, len(findings))
	for i, f := range findings {
		if lint.AboutKey(f.Rule) {
			f.Part = analysis.FieldName
		}
		all[i] = report.At(it, f)
	}
	slices.SortStableFunc(all, func(a, b report.Finding) int {
		return cmp.Or(cmp.Compare(a.Span.Line, b.Span.Line), cmp.Compare(a.Span.Column, b.Span.Column))
	})
	return all
}

// readDefinitions reads the definitions in some files. That there is none is a problem.
func (a *app) readDefinitions(ctx context.Context, flags input.Flags, problem func(input.Problem)) (definitions []*input.Item, err error) {
	failed := false
	fail := func(p input.Problem) {
		failed = true
		problem(p)
	}
	type found struct {
		items   []*input.Item
		problem *input.Problem
	}
	work := func(d *input.Document) (f found) {
		f.items, f.problem = d.Items()
		return f
	}
	progress := a.newProgress("definitions read")
	defer progress.stop()
	emit := func(f found) error {
		if f.problem != nil {
			fail(*f.problem)
		}
		for _, it := range f.items {
			if isDefinition(it) {
				definitions = append(definitions, it)
				progress.add()
			}
		}
		return nil
	}
	if err := input.Parallel(ctx, a.stdin, flags, work, emit, fail); err != nil {
		return nil, err
	}
	if len(definitions) == 0 && !failed {
		problem(input.Problem{Rule: ruleNoDefinitions, File: strings.Join(flags.Paths, ", "), Message: "there is no CustomResourceDefinition in it"})
	}
	return definitions, nil
}

// configs returns what the configuration file and the flags say about rules.
func (o *lintOptions) configs() ([]lint.Config, error) {
	flags := lint.Config{Enable: o.enable, Disable: o.disable, Severity: map[string]analysis.Severity{}}
	for _, s := range o.severity {
		rule, severity, ok := strings.Cut(s, "=")
		if !ok {
			return nil, fmt.Errorf("--severity %s: write RULE=error, RULE=warning or RULE=info", s)
		}
		flags.Severity[rule] = analysis.Severity(severity)
	}
	return lintConfigs(o.config, flags)
}

// listRules prints the rules, with what the configuration makes of them.
func (a *app) listRules(o lintOptions) error {
	configs, err := o.configs()
	if err != nil {
		return err
	}
	rules, err := lint.Configured(configs...)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RULE\tSEVERITY\tFINDS")
	for _, r := range rules {
		severity := string(r.Severity)
		if r.Off {
			severity = "off"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", r.ID, severity, r.Title)
	}
	return w.Flush()
}

func (a *app) explainRule(id string) error {
	r, err := lint.Lookup(id)
	if err != nil {
		return fmt.Errorf("%w; espalier lint --rules lists them", err)
	}
	_, err = fmt.Fprint(a.stdout, r.Doc)
	return err
}
