package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"espalier.dev/analysis"
	"espalier.dev/analysis/impact"
	"espalier.dev/analysis/lint"
	"espalier.dev/analysis/lookup"
	"espalier.dev/analysis/object"
	"espalier.dev/cmd/espalier/internal/config"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/cmd/espalier/internal/suppress"
)

// semanticsVariable is the environment variable that sets the semantics.
const semanticsVariable = "ESPALIER_SEMANTICS"

// outputVariable is the environment variable that sets the formats of findings, separated by
// commas.
const outputVariable = "ESPALIER_OUTPUT"

// configFlags are the flags that select the configuration file.
type configFlags struct {
	file string
	none bool
}

// addConfigFlags adds --config and --no-config.
func addConfigFlags(c *cobra.Command, flags *configFlags) {
	c.Flags().StringVar(&flags.file, "config", "", "configuration `FILE` (default "+config.Name+
		" in the working directory or the closest directory above it)")
	c.Flags().BoolVar(&flags.none, "no-config", false, "read no configuration file")
	groupFlags(c.Flags(), generalFlags, "config", "no-config")
	_ = c.MarkFlagFilename("config", "yaml", "yml")
}

// configure reads the configuration file, if the command has flags for it, and determines the
// semantics.
func (a *app) configure(c *cobra.Command) (err error) {
	a.config = &config.File{}
	a.rules = sync.OnceValue(configRules)
	if c.Flags().Lookup("no-config") != nil {
		if err := a.readConfig(); err != nil {
			return err
		}
	}
	if err := a.setDefaults(c); err != nil {
		return err
	}
	if err := a.readBaseline(); err != nil {
		return err
	}
	a.prepareInput(c)
	done, err := a.environmentSemantics(c)
	if err != nil || done || a.config.Semantics == "" {
		return err
	}
	return a.semantics.Set(a.config.Semantics)
}

func (a *app) readConfig() error {
	file := a.configFlags.file
	switch {
	case file != "" && a.configFlags.none:
		return errors.New("--config and --no-config cannot be combined")
	case a.configFlags.none:
		return nil
	case file == "":
		dir, err := a.dir.Get()
		if err != nil {
			return err
		}
		if file, err = config.Find(a.dir, dir); err != nil || file == "" {
			return err
		}
	}
	read, err := config.Load(a.dir, file, a.rules())
	if err == nil {
		a.config = read
	}
	return err
}

// setDefaults gives flags the values of the configuration file, unless the command line sets
// them.
func (a *app) setDefaults(c *cobra.Command) error {
	f := a.config
	set := func(name string, values ...string) error {
		flag := c.Flags().Lookup(name)
		if flag == nil || flag.Changed {
			return nil
		}
		for _, value := range values {
			if err := flag.Value.Set(value); err != nil {
				return fmt.Errorf("--%s=%s: %w", name, value, err)
			}
		}
		return nil
	}
	one := func(value string) []string {
		if value == "" {
			return nil
		}
		return []string{value}
	}
	err := errors.Join(
		set("kubernetes-version", one(f.KubernetesVersion)...),
		set("field-validation", one(f.Validate.FieldValidation)...),
		set("check-crds", strconv.FormatBool(f.Validate.CheckCRDs)),
	)
	if f.Validate.IgnoreMissingCRDs {
		err = errors.Join(err, set("ignore-missing-crds", "true"))
	}
	if f.Baseline != "" {
		err = errors.Join(err, set("baseline", f.Resolve(f.Baseline)))
	}
	if c.Name() != "prune" { // its findings explain what it prints
		err = errors.Join(err, set("fail-on", one(f.FailOn)...))
	}
	if !slices.Contains([]string{"test", "audit"}, c.Name()) { // a suite names its CRD itself, and stored objects come with theirs
		err = errors.Join(err, set("crd", a.configuredCRDs()...))
	}
	outputs, invalid := a.environmentOutput(c)
	err = errors.Join(err, invalid, set("output", outputs...))
	return err
}

// prepareInput makes the input of the command share repositories, and skip the files that the
// configuration file excludes, and the baseline, which may be among the input.
func (a *app) prepareInput(c *cobra.Command) {
	flag := c.Flags().Lookup("exclude")
	if flag == nil {
		return
	}
	exclude, ok := flag.Value.(*excludeFlag)
	if !ok {
		return
	}
	exclude.input.Git = a.repositories
	if len(a.config.Exclude) > 0 {
		exclude.input.Skip = a.config.Excludes
	}
	if a.baseline == nil {
		return
	}
	baseline, err := a.dir.Stat(a.baseline.Path)
	if err != nil {
		return // it is written at the end
	}
	skip := exclude.input.Skip
	exclude.input.Skip = func(path string, isDir bool) bool {
		if skip != nil && skip(path, isDir) {
			return true
		}
		info, err := a.dir.Stat(path)
		return err == nil && os.SameFile(info, baseline)
	}
}

// environmentOutput returns the formats that the environment sets. It applies to commands
// whose standard output has nothing but findings.
func (a *app) environmentOutput(c *cobra.Command) ([]string, error) {
	value, _ := a.environ(outputVariable)
	if value == "" || c.Flags().Changed("output") || !slices.Contains([]string{"lint", "validate", "diff", "review", "upgrade", "test"}, c.Name()) {
		return nil, nil
	}
	outputs := strings.Split(value, ",")
	for _, output := range outputs {
		if name, _, _ := strings.Cut(output, "="); !slices.Contains(report.Formats(), name) {
			return nil, fmt.Errorf("%s=%s: unknown format %q: must be one of %s", outputVariable,
				value, name, strings.Join(report.Formats(), ", "))
		}
	}
	return outputs, nil
}

// baselineFlags are the flags of commands that compare findings with a baseline.
type baselineFlags struct {
	file  string
	write bool
}

// addBaselineFlags adds --baseline and --write-baseline.
func addBaselineFlags(c *cobra.Command, flags *baselineFlags) {
	c.Flags().StringVar(&flags.file, "baseline", "", "`FILE` with known findings, which are not reported")
	c.Flags().BoolVar(&flags.write, "write-baseline", false, "write all findings to the file of --baseline instead of reporting them")
	groupFlags(c.Flags(), checkFlags, "baseline", "write-baseline")
	_ = c.MarkFlagFilename("baseline", "yaml", "yml")
}

// readBaseline reads the baseline, if there is one.
func (a *app) readBaseline() (err error) {
	switch f := a.baselineFlags; {
	case f.file == "" && f.write:
		return errors.New("--write-baseline needs --baseline FILE, or baseline in the configuration file")
	case f.file == "":
	case f.write:
		a.baseline, err = config.NewBaseline(a.dir, f.file)
	default:
		a.baseline, err = config.LoadBaseline(a.dir, f.file)
	}
	return err
}

// configuredCRDs returns the paths of CRDs in the configuration file.
func (a *app) configuredCRDs() (paths []string) {
	for _, path := range a.config.CRDs {
		paths = append(paths, a.config.Resolve(path))
	}
	return paths
}

// environmentSemantics sets the semantics from the environment, unless the flag is set. It
// reports whether the flag or the environment sets the semantics.
func (a *app) environmentSemantics(c *cobra.Command) (bool, error) {
	if c.Flags().Changed("semantics") {
		return true, nil
	}
	value, _ := a.environ(semanticsVariable)
	if value == "" {
		return false, nil
	}
	if err := a.semantics.Set(value); err != nil {
		return true, fmt.Errorf("%s: %w", semanticsVariable, err)
	}
	return true, nil
}

// configRules returns the rules that a configuration can name.
func configRules() config.Rules {
	known := config.Rules{
		Selectors: append(lint.Profiles(), lint.All),
		Validate:  suppressible(validationRules()),
		Diff:      suppressible(impact.Rules()),
		All: suppressible(lintRules(lint.Rules()), fixRules(), validationRules(), pruneRules(),
			diffRules(impact.Config{}), auditRules(), recordRules(), upgradeRules()),
		Fixed: idsOf(fixedRules()),
	}
	for _, r := range lint.Rules() {
		known.Lint = append(known.Lint, r.ID)
	}
	return known
}

// newFilter returns the filter of findings of a command. rules are the rules of its findings.
func (a *app) newFilter(c *cobra.Command, rules []analysis.Rule) *suppress.Filter {
	o := suppress.Options{
		Dir:    a.dir,
		Config: a.config,
		Known:  a.rules,
		Prune:  c.Name() == "prune",
		Inputs: func() []input.Flags { return a.inputs },
		Local:  a.repositories.Local,
	}
	if a.baseline != nil {
		o.Baseline, o.Command, o.Write = a.baseline, c.Name(), a.baselineFlags.write
		o.Written = func(findings int) {
			fmt.Fprintf(a.stderr, "%s: %s written to %s\n", a.name(), analysis.Plural(findings, "known finding"), a.baseline.Path)
		}
	}
	switch c.Name() {
	case "fix": // it fixes most of what lint reports
		rules = nil
	case "diff":
		if c.Flags().Changed("only-affected") { // suppressions are also for what affects no objects
			rules = nil
		}
	case "validate", "review":
		o.Severity = a.config.Validate.Severity
		if c.Flags().Changed("base") { // suppressions are also for what has not changed
			rules = nil
		}
	}
	off := rulesOff(c)
	o.Rules = slices.DeleteFunc(suppressible(rules), func(id string) bool { return slices.Contains(off, id) })
	return suppress.New(o)
}

// rulesOff returns the rules that a command does not report with its flags, or reports only
// for inputs that it cannot process.
func rulesOff(c *cobra.Command) (off []string) {
	if flag := c.Flags().Lookup("kubernetes-version"); flag != nil && flag.Value.String() == "" {
		off = append(off, lookup.RuleRelease)
	}
	switch c.Name() {
	case "diff":
		return []string{object.RuleInvalidDefinition, object.RuleDecode}
	case "validate":
		if c.Flags().Lookup("field-validation").Value.String() == "ignore" {
			off = append(off, object.RuleUnknownField, object.RuleDuplicateField, object.RuleStorageVersion)
		}
		if !c.Flags().Changed("old") {
			off = append(off, ruleNoOldObject)
		}
	}
	return off
}
