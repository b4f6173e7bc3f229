package main

import (
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lint"
	"espalier.dev/analysis/lookup"
	"espalier.dev/cmd/espalier/internal/config"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/crd/cel"
)

// newLintCommand returns the command lint, whose flags set the options.
func newLintCommand(a *app, o *lintOptions) *cobra.Command {
	c := &cobra.Command{
		Use:   "lint PATH... | --from-cluster [CRD...]",
		Short: "Find errors and likely mistakes in CRDs and admission policies",
		Long: `Lint reports why the API server would reject a CRD (v1 or v1beta1), likely mistakes in
valid CRDs, and where the two semantics differ. CRDs that are linted together are also checked
for conflicting names.

Lint also checks ValidatingAdmissionPolicies, MutatingAdmissionPolicies, their bindings and
webhook configurations: why the API server would reject them, type errors of expressions in
the CRDs and built-in kinds that they match, parameters and policies that do not exist, and
rules that match nothing. Lint policies together with their CRDs, bindings and parameters.
Other documents are skipped.

` + otherFilesHelp + `

With --from-cluster, lint checks the CRDs of a running cluster, and no policies: all of them, or those that the
arguments name, like crontabs.example.com. Findings name the path of the CRD in the API
instead of a file. The rule leftover, which finds what only servers write, is then off.

With --kubernetes-version, lint also reports what that version of Kubernetes does not have:
fields and formats of CRDs, kinds of policies, and CEL functions (rule kubernetes-version).

Every finding belongs to a rule. --rules lists the rules, and --explain describes one of
them. A finding is an error, a warning or an info. Only errors affect the exit code, unless
--fail-on selects another severity.

Flags turn rules on and off. They take precedence over the configuration file ` + config.Name + `
(espalier config --help describes it):

  lint:
    disable: [list-type]
    enable: [semantics-published]
    severity: {unknown-format: error}

The name ` + "`conventions`" + ` stands for the rules that follow the Kubernetes API conventions, such as
no booleans and a list type for every list. They are opinions, so they are off by default.
They leave types of the Kubernetes API that a schema embeds alone, such as pod templates.

Use espalier fix to apply the fixes that findings propose.

Exit codes: 0 no errors, 1 errors (or what --fail-on selects), ` + otherExitCodes + `.`,
		Example: `  # Check one CRD
  espalier lint crontab-crd.yaml

  # Check all CRDs below a directory as kube-apiserver would
  espalier lint --semantics kubernetes -R crds/

  # Fail on warnings too
  espalier lint -R -f crds/ --fail-on=warning

  # Annotate a pull request: unknown formats are errors, list types are not checked
  espalier lint -f crds/ --severity unknown-format=error --disable list-type -o github

  # Check the policies below a directory, together with the CRDs that they match
  espalier lint -R crds/ admission/

  # Check all CRDs of a running cluster, or one of them
  espalier lint --from-cluster --context staging
  espalier lint --from-cluster crontabs.stable.example.com

  # Check that Kubernetes 1.28 supports the CRDs
  espalier lint -R crds/ --kubernetes-version 1.28

  # Check the Kubernetes API conventions too
  espalier lint -f crontab-crd.yaml --enable conventions

  # List the rules, and describe one of them
  espalier lint --rules
  espalier lint --explain pruned-empty`,
		ValidArgsFunction: o.source.completeArgs(completePaths),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case o.list:
				return a.listRules(*o)
			case o.explain != "":
				return a.explainRule(o.explain)
			}
			return a.lint(c, *o, args)
		},
	}
	addInputFlags(c, &o.input, "CRDs and admission policies", input.Policies)
	addFromClusterFlags(c, &o.source, "check the CRDs of a running cluster; arguments are then names of CRDs")
	c.Flags().StringSliceVar(&o.enable, "enable", nil, "comma-separated `RULES` to turn on, "+
		lint.Conventions+" or "+lint.All+"; repeatable")
	c.Flags().StringSliceVar(&o.disable, "disable", nil, "comma-separated `RULES` to turn off, "+
		lint.Conventions+" or "+lint.All+"; repeatable")
	c.Flags().StringSliceVar(&o.severity, "severity", nil, "severity of a rule, `RULE=error|warning|info`; repeatable")
	groupFlags(c.Flags(), checkFlags, "enable", "disable", "severity")
	addReleaseFlag(c, &o.release)
	addBaselineFlags(c, &a.baselineFlags)
	addReportFlags(c, &o.report)
	c.Flags().BoolVar(&o.list, "rules", false, "list the rules and exit")
	c.Flags().StringVar(&o.explain, "explain", "", "describe a `RULE` and exit")
	groupFlags(c.Flags(), outputFlags, "rules", "explain")
	completeValues(c, "explain", ruleIDs()...)
	completeList(c, "enable", selectors)
	completeList(c, "disable", selectors)
	completeSeverities(c, "severity", ruleIDs)
	return c
}

func (a *app) lint(c *cobra.Command, o lintOptions, args []string) (err error) {
	fromCluster, err := o.source.clusterGiven(c, "filename")
	if err != nil {
		return err
	}
	if !fromCluster {
		if o.input.Paths = append(o.input.Paths, args...); len(o.input.Paths) == 0 {
			o.input.Paths = a.configuredCRDs()
		}
		if len(o.input.Paths) == 0 {
			return needsPath(c)
		}
	}
	configs, err := a.lintConfigs(o)
	if err != nil {
		return err
	}
	if fromCluster {
		// A CRD of a cluster has what the server writes.
		configs = append([]lint.Config{{Disable: []string{"leftover"}}}, configs...)
	}
	rules, err := lint.Configured(configs...)
	if err != nil {
		return err
	}
	on := slices.DeleteFunc(rules, func(r lint.Rule) bool { return r.Off })
	a.inputs = []input.Flags{o.input}
	reported := lintRules(on)
	if fromCluster {
		reported = append(reported, sourceRules()...)
	}
	options := a.reportOptions(c, o.report, reported)
	options.What = "CRD"
	r, err := report.New(options)
	if err != nil {
		return err
	}
	defer func() { err = r.Finish(err) }()
	in := &lintInput{}
	if fromCluster {
		in.crds, err = a.clusterCRDs(c.Context(), &o.source, args, r.Failure)
		in.all = in.crds
	} else {
		err = a.readLintInput(c.Context(), o.input, r, in)
	}
	if err != nil {
		return err
	}
	found, err := lint.Run(c.Context(), textsOf(in.crds), o.release.lintFor(lint.Options{
		Semantics: a.semantics.Semantics, Rules: cel.Checker{}, Configs: configs, Done: func() { r.Progress("CRDs linted") },
	}))
	if err != nil {
		return err
	}
	findings := map[*input.Item][]analysis.Finding{}
	for i, it := range in.crds {
		findings[it] = found[i]
	}
	if err := a.lintPolicies(c.Context(), in, configs, findings); err != nil {
		return err
	}
	if slices.ContainsFunc(on, func(r lint.Rule) bool { return r.ID == lookup.RuleRelease }) {
		o.release.checks().addPolicies(c.Context(), in.policies, findings)
	}
	if len(in.policies) > 0 {
		r.SetWhat("object")
	}
	for _, it := range in.all {
		r.Saw(it)
		for _, f := range placed(it, findings[it]) {
			r.Add(f)
		}
	}
	checkedNothing(r, o.input)
	return nil
}

// listRules prints the rules with their configured severities.
func (a *app) listRules(o lintOptions) error {
	configs, err := a.lintConfigs(o)
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
		return fmt.Errorf("%w; list the rules with espalier lint --rules", err)
	}
	_, err = fmt.Fprint(a.stdout, r.Doc)
	return err
}
