package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"espalier.dev/analysis"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/internal/nearest"
	"espalier.dev/schema"
)

// semanticsFlag is the flag --semantics. Its zero value is the default.
type semanticsFlag struct{ schema.Semantics }

// Set parses the flag.
func (f *semanticsFlag) Set(s string) (err error) {
	f.Semantics, err = schema.ParseSemantics(s)
	return err
}

// Type returns the name of the value in help texts.
func (f *semanticsFlag) Type() string { return "kep|kubernetes" }

// colorFlag is the flag --color.
type colorFlag string

// Set parses the flag.
func (f *colorFlag) Set(s string) error {
	switch s {
	case "auto", "always", "never":
		*f = colorFlag(s)
		return nil
	}
	return errors.New("must be auto, always or never")
}

// String returns the value of the flag.
func (f *colorFlag) String() string {
	if *f == "" {
		return "auto"
	}
	return string(*f)
}

// Type returns the name of the value in help texts.
func (f *colorFlag) Type() string { return "when" }

// reportFlags are the flags of commands that report findings.
type reportFlags struct {
	outputs     []string
	failOn      report.Threshold
	minSeverity severityFlag
	maxFindings int
	quiet       bool
}

// severityFlag is the flag --min-severity.
type severityFlag analysis.Severity

// Set parses the flag.
func (f *severityFlag) Set(s string) error {
	severity, err := analysis.ParseSeverity(s)
	if err != nil {
		return errors.New("must be error, warning or info")
	}
	*f = severityFlag(severity)
	return nil
}

// String returns the value of the flag.
func (f *severityFlag) String() string {
	if *f == "" {
		return string(analysis.Info)
	}
	return string(*f)
}

// Type returns the name of the value in help texts.
func (f *severityFlag) Type() string { return "severity" }

// addReportFlags adds the flags of commands that report findings.
func addReportFlags(c *cobra.Command, flags *reportFlags) {
	c.Flags().StringArrayVarP(&flags.outputs, "output", "o", nil,
		"`FORMAT` of the report: "+strings.Join(report.Formats(), ", ")+"; FORMAT=FILE writes to a file; repeatable (default text)")
	groupFlags(c.Flags(), outputFlags, "output")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(report.Formats(), cobra.ShellCompDirectiveNoFileComp))
	addFindingFlags(c, flags)
}

// addFindingFlags adds the flags of addReportFlags apart from -o, for commands that define -o
// in their own way.
func addFindingFlags(c *cobra.Command, flags *reportFlags) {
	c.Flags().Var(&flags.failOn, "fail-on", "lowest severity of findings that make the exit code 1: "+strings.Join(report.Thresholds(),
		", "))
	c.Flags().Var(&flags.minSeverity, "min-severity",
		"lowest severity of findings that are reported: error, warning, info; others do not affect the exit code")
	c.Flags().IntVar(&flags.maxFindings, "max-findings", 0, "maximum `number` of findings to write, the worst, 0 for all; further ones are counted")
	c.Flags().BoolVarP(&flags.quiet, "quiet", "q", false, "write findings only: no summary, no progress, no other messages")
	groupFlags(c.Flags(), outputFlags, "fail-on", "min-severity", "max-findings", "quiet")
	for flag, values := range map[string][]string{
		"fail-on": report.Thresholds(), "min-severity": {string(analysis.Error), string(analysis.Warning), string(analysis.Info)},
	} {
		_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
}

// completeFirst completes the first argument with names, and the others with paths.
func completeFirst(names []string) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return names, cobra.ShellCompDirectiveNoFileComp
		}
		return completePaths(c, args, start)
	}
}

// requireFirst requires that the first argument is one of names.
func requireFirst(names []string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 0 && slices.Contains(names, args[0]) {
			return nil
		}
		err := fmt.Errorf("%s needs one of %s", c.Name(), strings.Join(names, ", "))
		if len(args) > 0 {
			err = fmt.Errorf("%w%s", err, nearest.DidYouMean(nearest.Name(args[0], slices.Values(names))))
		}
		return usageError(c, err)
	}
}

// setDefault sets the default of a flag that several commands have.
func setDefault(c *cobra.Command, name, value string) {
	f := c.Flags().Lookup(name)
	if err := f.Value.Set(value); err != nil {
		panic(err) // a constant
	}
	f.DefValue = value
}

// changeFlags are the flags of commands that report changes of CRDs.
type changeFlags struct {
	names             int
	all, onlyAffected bool
}

// addChangeFlags adds the flags of commands that report changes of CRDs.
func addChangeFlags(c *cobra.Command, flags *changeFlags) {
	c.Flags().IntVar(&flags.names, "names", 10, "maximum `number` of affected objects to name for each change; 0 for all")
	c.Flags().BoolVar(&flags.all, "all", false, "list every change: do not group equal ones, and do not only count safe ones")
	c.Flags().BoolVar(&flags.onlyAffected, "only-affected", false,
		"report only changes that affect the objects, by their effect on them, and count the others")
	groupFlags(c.Flags(), outputFlags, "names", "all", "only-affected")
}
