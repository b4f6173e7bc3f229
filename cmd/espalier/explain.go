package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	source     sourceFlags
	apiVersion string
	recursive  bool
	sample     string
	output     string
}

func newExplainCommand(a *app) *cobra.Command {
	var o explainOptions
	c := &cobra.Command{
		Use:   "explain [--crd PATH... | --from-cluster] RESOURCE[.FIELD...]",
		Short: "Describe a resource or one of its fields, or print a sample object",
		Long: `Explain prints the description and type of a resource or field, as kubectl explain does,
and what kubectl explain leaves out: whether the field is required, its default, enum,
bounds, format and pattern, list type and keys, CEL rules and their messages, unions,
conditions under allOf, anyOf, oneOf and not, deprecations, and whether unknown fields are
pruned or preserved, and why. If the two semantics differ, explain describes both.

Explain knows built-in kinds, such as deployments and pods, without a CRD or a
cluster. Other resources need their CRD: name it with --crd, or read it from a running
cluster with --from-cluster, which reads the CRD of RESOURCE only. If a CRD and a built-in kind
have the same name, explain describes the CRD.

RESOURCE is the plural name, singular name, kind or a short name, in any case. The group, or
a version and the group, can follow: deployments, Deployment, deploy, deployments.apps,
deployments.v1.apps. In the core group, that is the version alone: services.v1.
Paths omit list items and map keys: write spec.ports.name for spec.ports[].name. Write a
field name that contains dots as spec["a.b"].

Without --api-version, explain describes the preferred version: the most stable one that
is served.

With --sample, explain prints valid sample objects: a minimal one with the fields that are
required and not defaulted (and a few others if the spec has none of these), and a full one
with every field that can be combined with the others. Only the objects are written to
standard output: pipe a sample to a file or to kubectl. Values come from defaults, examples, enums, bounds, formats and patterns, and
are adjusted to satisfy validation and CEL rules. If no valid sample is found, explain
prints the best attempt, reports the remaining errors on standard error and exits with 1.
Built-in kinds have a minimal sample only.

Exit codes: 0 success, 1 no valid sample found, ` + otherExitCodes + `.`,
		Example: `  # Describe the fields of Deployments, or a field of containers
  espalier explain deployments
  espalier explain deployments.spec.template.spec.containers.resources

  # Describe another version
  espalier explain hpa --api-version autoscaling/v1

  # Describe the fields of CronTabs
  espalier explain --crd crontab-crd.yaml crontabs

  # Describe a resource of a running cluster
  espalier explain --from-cluster crontabs

  # Describe one field
  espalier explain --crd crontab-crd.yaml ct.spec.replicas

  # Print all fields as a tree
  espalier explain --crd crontab-crd.yaml crontabs --recursive

  # Describe a field as JSON
  espalier explain --crd crontab-crd.yaml crontabs.spec.policy -o json

  # Print sample objects
  espalier explain --crd crontab-crd.yaml crontabs --sample
  espalier explain --crd crontab-crd.yaml crontabs --sample full
  espalier explain --crd crontab-crd.yaml crontabs --sample=minimal -o json
  espalier explain ingress --sample > ingress.yaml`,
		ValidArgsFunction: a.completeResource(func() input.Flags { return o.crds }),
		Args: func(c *cobra.Command, args []string) error {
			_, args = o.sampleArgument(args)
			return exactArgs("RESOURCE")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			o.sample, args = o.sampleArgument(args)
			return a.explain(c, o, args[0])
		},
	}
	addCRDFlag(c, &o.crds)
	flags := c.Flags()
	addReadFlags(c, &o.crds, "descend", input.Definitions)
	addFromClusterFlags(c, &o.source, "read the CRD of RESOURCE from a running cluster")
	flags.StringVar(&o.apiVersion, "api-version", "", "`VERSION` to describe, as group/version or version (default: the preferred version)")
	groupFlags(flags, inputFlags, "api-version")
	flags.StringVarP(&o.output, "output", "o", "", "output `FORMAT`: text, json or yaml (default: text, and yaml for samples)")
	flags.BoolVar(&o.recursive, "recursive", false, "print all fields as a tree")
	flags.StringVar(&o.sample, "sample", "", "print valid sample objects: `minimal|full|both`")
	flags.Lookup("sample").NoOptDefVal = bothSamples
	groupFlags(flags, outputFlags, "output", "recursive", "sample")
	completeValues(c, "output", textOutputs()...)
	completeValues(c, "sample", sampleSizes()...)
	a.completeVersions(c, "api-version", func([]string) input.Flags { return o.crds })
	return c
}

func (a *app) explain(c *cobra.Command, o explainOptions, request string) (err error) {
	sizes, err := o.sizes()
	if err != nil {
		return err
	}
	if o.output != "" {
		if err := checkTextOutput(o.output); err != nil {
			return err
		}
	}
	side, err := a.newSideReporter(c, "CRD")
	if err != nil {
		return err
	}
	defer func() { err = side.Finish(err) }()
	fromCluster, err := o.source.clusterGiven(c, "crd")
	if err != nil {
		return err
	}
	loaded, names, err := a.namedDefinitions(c, &o.source, o.crds, []string{request}, side)
	if err != nil {
		return err
	}
	definitions := a.explainedDefinitions(loaded, side)
	if len(definitions) == 0 && side.Code() != report.Clean {
		// The problems have been reported.
		return nil
	}
	advice := "add its CRD with --crd"
	if fromCluster {
		advice = "the cluster has none either"
	}
	v, err := findResource(definitions, request, o.apiVersion, advice, names...)
	if err != nil {
		return err
	}
	a.tellOthers(v, request)
	if len(sizes) > 0 {
		if v.Path != "" {
			return fmt.Errorf("--sample needs a resource without a field: remove %q", v.Path)
		}
		if v.builtin != nil {
			return a.builtinSample(v, o)
		}
		return a.samples(c.Context(), v.Version, sizes, o.output)
	}
	doc, err := explain.Describe(v.Version, v.Path, explain.Options{Recursive: o.recursive})
	if err != nil {
		return err
	}
	if o.output == "json" || o.output == "yaml" {
		p := &printer{a: a, output: o.output}
		return p.print("", doc)
	}
	return doc.WriteText(a.stdout, explain.TextOptions{Recursive: o.recursive})
}

// explainedDefinitions returns CRDs, which may be nil.
func (a *app) explainedDefinitions(loaded *definitions, side *report.Reporter) (definitions []*crd.Definition) {
	if loaded == nil {
		return nil
	}
	for _, d := range loaded.All() {
		made, err := d.compile(crd.Options{Semantics: a.semantics.Semantics, Rules: cel.Checker{}})
		if err != nil {
			side.Failure(input.Problem{Rule: input.Syntax, File: d.file, Line: d.item().Position("").Value.Line, Message: err.Error()})
			continue
		}
		definitions = append(definitions, made)
	}
	return definitions
}

// sampleArgument returns the value of --sample, and the arguments without it. The value of
// --sample is optional, so --sample full leaves full among the arguments.
func (o *explainOptions) sampleArgument(args []string) (string, []string) {
	if o.sample != bothSamples || len(args) != 2 {
		return o.sample, args
	}
	for _, i := range []int{1, 0} {
		if slices.Contains(sampleSizes(), args[i]) {
			return args[i], []string{args[1-i]}
		}
	}
	return o.sample, args
}

// bothSamples is the default of --sample without a value.
const bothSamples = "both"

// sampleSizes returns the values of --sample.
func sampleSizes() []string { return []string{"minimal", "full", bothSamples} }

// sizes returns the sizes of the samples to print.
func (o *explainOptions) sizes() ([]sample.Size, error) {
	switch o.sample {
	case "":
		return nil, nil
	case "minimal":
		return []sample.Size{sample.Minimal}, nil
	case "full":
		return []sample.Size{sample.Full}, nil
	case bothSamples:
		return []sample.Size{sample.Minimal, sample.Full}, nil
	}
	return nil, fmt.Errorf("--sample=%s: must be minimal, full or both", o.sample)
}

// samples prints samples, and the errors of those that are not valid.
func (a *app) samples(ctx context.Context, v *crd.Version, sizes []sample.Size, output string) error {
	if output == "text" {
		return errSampleText
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
		title := ""
		if len(sizes) > 1 {
			title = size.String()
		}
		if !s.Valid() {
			valid = false
			title = size.String() + ", not valid"
			fmt.Fprintf(a.stderr, "%s: no valid %s sample found for %s, remaining errors:\n", a.name(), size, v.GroupVersionKind().Kind)
			for _, line := range remainingErrors(s) {
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

// builtinSample prints the sample of a built-in kind.
func (a *app) builtinSample(v *found, o explainOptions) error {
	switch {
	case o.output == "text":
		return errSampleText
	case o.sample == sample.Full.String():
		return fmt.Errorf("--sample=full needs a CRD: the schema of %s does not say which of its fields can be combined; use --sample=minimal", v.GroupVersionKind().Kind)
	}
	obj, err := v.builtin.Sample(v.Name())
	if err != nil {
		return err
	}
	p := &printer{a: a, output: o.output}
	return p.print("", obj)
}

// errSampleText is the error for samples as text.
var errSampleText = errors.New("-o text: samples need -o yaml or -o json")

// remainingErrors returns the reasons why a sample is not valid. For CEL rules they include
// the rule.
func remainingErrors(s *sample.Sample) (lines []string) {
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
