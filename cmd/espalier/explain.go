package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"espalier.dev/analysis/explain"
	"espalier.dev/analysis/explain/sample"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
)

// explainOptions are the flags of explain.
type explainOptions struct {
	crds       input.Flags
	apiVersion string
	recursive  bool
	sample     string
	output     string
}

func newExplainCommand(a *app) *cobra.Command {
	var o explainOptions
	c := &cobra.Command{
		Use:   "explain --crd PATH... RESOURCE[.FIELD...]",
		Short: "Tell what a resource or a field of it is for, what it takes, and what happens to it",
		Long: `Explain prints what a CustomResourceDefinition says about a resource, or about one of
its fields: the description and the type, as kubectl explain does; and what that leaves
out: whether the field is required, its default, enum, bounds, format and pattern, the
type and keys of lists, rules in CEL with their messages, unions, the conditions of
allOf, anyOf, oneOf and not, deprecations, and whether fields that are not specified are
pruned or preserved there, in which semantics, and because of what.

RESOURCE is the plural, the singular, the kind or a short name, in any case, with the
group behind it if that is needed: crontabs, CronTab, ct, crontabs.stable.example.com.
FIELDs go through lists and maps by themselves: spec.ports.name is what others write as
spec.ports[].name. A name with dots in it is written as spec["a.b"].

Without --api-version the version is the one that clients prefer.

With --sample, explain prints an object that validates: a minimal one, with what cannot
be left out and what a server does not fill in, and a full one with every field that can
be there together with the others. Values come from defaults, examples, enums, bounds,
formats and patterns; what validation and the rules in CEL have against them is then
fixed as far as possible. If something remains, the best attempt is printed, what stands
in the way is said on standard error, and the exit code is 1.`,
		Example: `  # What is in a CronTab?
  espalier explain --crd crontab-crd.yaml crontabs

  # One field
  espalier explain --crd crontab-crd.yaml ct.spec.replicas

  # All fields, as a tree
  espalier explain --crd crontab-crd.yaml crontabs --recursive

  # For programs
  espalier explain --crd crontab-crd.yaml crontabs.spec.policy -o json

  # Something to start from
  espalier explain --crd crontab-crd.yaml crontabs --sample
  espalier explain --crd crontab-crd.yaml crontabs --sample=minimal -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return a.explain(c, o, args[0]) },
	}
	addCRDFlag(c, &o.crds)
	flags := c.Flags()
	flags.StringVar(&o.apiVersion, "api-version", "", "the version to explain, as group/version or version")
	flags.BoolVarP(&o.crds.Recursive, "descend", "R", false, "also read the directories below a directory")
	flags.BoolVar(&o.recursive, "recursive", false, "print the tree of all fields")
	flags.StringVar(&o.sample, "sample", "", `print an object that validates: "minimal", "full" or "both"`)
	flags.Lookup("sample").NoOptDefVal = "both"
	flags.StringVarP(&o.output, "output", "o", "", "text, json or yaml (default text; of samples yaml)")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("sample", cobra.FixedCompletions([]string{"minimal", "full", "both"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (a *app) explain(c *cobra.Command, o explainOptions, request string) (err error) {
	sizes, err := o.sizes()
	if err != nil {
		return err
	}
	switch o.output {
	case "", "text", "json", "yaml":
	default:
		return fmt.Errorf("-o %s: choose text, json or yaml", o.output)
	}
	side, err := a.newSideReporter(c)
	if err != nil {
		return err
	}
	defer func() { err = side.Finish(err) }()
	loaded, err := a.loadDefinitions(c.Context(), o.crds, side.Failure)
	if err != nil {
		return err
	}
	var definitions []*crd.Definition
	for _, d := range loaded.list {
		if hub, err := d.hub(); err != nil {
			side.Failure(input.Problem{Rule: input.Syntax, File: d.item.File, Line: d.item.Position("").Value.Line, Message: err.Error()})
		} else if made, err := crd.New(hub, crd.Options{Semantics: a.semantics.Semantics, Rules: cel.Checker{}}); err != nil {
			side.Failure(input.Problem{Rule: input.Syntax, File: d.item.File, Line: d.item.Position("").Value.Line, Message: err.Error()})
		} else {
			definitions = append(definitions, made)
		}
	}
	if len(definitions) == 0 && side.Code() != report.Clean {
		// What there is to say has been said.
		return nil
	}
	v, path, err := explain.Find(definitions, request, o.apiVersion)
	if err != nil {
		return err
	}
	if len(sizes) > 0 {
		if path != "" {
			return fmt.Errorf("--sample is for whole resources: leave %q out", path)
		}
		return a.samples(c.Context(), v, sizes, o.output)
	}
	doc, err := explain.Describe(v, path, explain.Options{Recursive: o.recursive})
	if err != nil {
		return err
	}
	if o.output == "json" || o.output == "yaml" {
		p := &printer{a: a, output: o.output}
		return p.print("", doc)
	}
	return doc.WriteText(a.stdout, explain.TextOptions{Recursive: o.recursive})
}

// sizes are the samples that are wanted.
func (o *explainOptions) sizes() ([]sample.Size, error) {
	switch o.sample {
	case "":
		return nil, nil
	case "minimal":
		return []sample.Size{sample.Minimal}, nil
	case "full":
		return []sample.Size{sample.Full}, nil
	case "both":
		return []sample.Size{sample.Minimal, sample.Full}, nil
	}
	return nil, fmt.Errorf("--sample=%s: choose minimal, full or both", o.sample)
}

// samples prints samples, and what stands in the way of those that are not valid.
func (a *app) samples(ctx context.Context, v *crd.Version, sizes []sample.Size, output string) error {
	if output == "text" {
		return errors.New("-o text: samples are printed as yaml or json")
	}
	p := &printer{a: a, output: output}
	valid := true
	for _, size := range sizes {
		s, err := sample.New(ctx, v, size)
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		title := size.String()
		if !s.Valid() {
			valid = false
			title += ", but not valid"
			fmt.Fprintf(a.stderr, "%s: no valid %s sample of %s was found. What stands in the way:\n", a.name(), size, v.GroupVersionKind().Kind)
			for _, line := range obstacles(s) {
				fmt.Fprintf(a.stderr, "  %s\n", line)
			}
		}
		if err := p.print(title, s.Object); err != nil {
			return err
		}
	}
	if !valid {
		return report.ExitError(report.Found)
	}
	return nil
}

// obstacles are the reasons for which a sample is not valid, with the rule if it is
// one.
func obstacles(s *sample.Sample) (lines []string) {
	if s.Problem != nil {
		lines = append(lines, s.Problem.Error())
	}
	for i := range s.Violations {
		v := &s.Violations[i]
		line := v.String()
		if rule := v.Want.Rule; rule != "" && v.Cause != nil {
			line = v.Cause.Error()
			if !strings.Contains(line, rule) {
				line += " (rule: " + rule + ")"
			}
		}
		lines = append(lines, line)
	}
	return lines
}
