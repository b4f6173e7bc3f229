package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"espalier.dev/analysis"
	"espalier.dev/analysis/object"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

// validateOptions are the flags of validate.
type validateOptions struct {
	crds, objects, old input.Flags
	report             reportFlags
	fieldValidation    string
	ignoreMissing      bool
	checkCRDs          bool
}

func newValidateCommand(a *app) *cobra.Command {
	var o validateOptions
	c := &cobra.Command{
		Use:   "validate [--crd PATH...] PATH...",
		Short: "Validate custom resources against their CRDs, as an API server would",
		Long: `For each object, validate does what the API server does on create: it decodes the object,
prunes fields that the CRD does not specify, applies defaults, and validates the result,
including CEL rules. With --old it does what the API server does on update; the old object
is the one with the same kind, namespace and name. Transition rules see the old value, and
ratcheting tolerates errors in unchanged fields.

Pruned fields and duplicate fields are warnings. --field-validation=strict turns them
into errors and --field-validation=ignore skips them, like kubectl's --validate. Warnings
do not affect the exit code unless --fail-on=warning is set.

CRDs come from --crd and can be v1 or v1beta1. Other documents in those files are
skipped. If several CRDs define a kind, validate uses the first one that serves the
object's version and reports the others as an info. An object without a CRD is an error
unless --ignore-missing-crds is set. CRDs are assumed to be valid, as in a cluster;
--check-crds also reports why the API server would reject the CRDs in use (lint reports
more). A CRD among the objects is validated as a CRD.

An info reports where the two semantics lead to different results for an object.

Exit codes: 0 no errors, 1 errors (or what --fail-on selects), ` + otherExitCodes + `.`,
		Example: `  # Validate one object
  espalier validate --crd crontab-crd.yaml -f crontab.yaml

  # Validate all objects below a directory, and fail on unknown fields
  espalier validate --crd crds/ -R -f objects/ --field-validation=strict

  # Validate an update as kube-apiserver would
  espalier validate --semantics kubernetes --crd crontab-crd.yaml --old crontab.yaml -f crontab-changed.yaml

  # Annotate a pull request, and write a report to upload
  espalier validate --crd crds/ -f objects/ -o github -o sarif=espalier.sarif

  # Read objects from a pipe
  cat crontab.yaml | espalier validate --crd crontab-crd.yaml -f -`,
		ValidArgsFunction: completePaths,
		RunE: func(c *cobra.Command, args []string) error {
			o.objects.Paths = append(o.objects.Paths, args...)
			return a.validate(c, o)
		},
	}
	addCRDFlag(c, &o.crds)
	addInputFlags(c, &o.objects, "objects")
	c.Flags().StringArrayVar(&o.old.Paths, "old", nil, "`PATH` of a file or directory with the objects before an update; repeatable")
	groupFlags(c.Flags(), inputFlags, "old")
	c.Flags().StringVar(&o.fieldValidation, "field-validation", "warn", "handling of unknown and duplicate fields: `ignore|warn|strict`")
	c.Flags().BoolVar(&o.ignoreMissing, "ignore-missing-crds", false, "skip objects without a CRD")
	c.Flags().BoolVar(&o.checkCRDs, "check-crds", false, "also report why the API server would reject the CRDs in use")
	groupFlags(c.Flags(), checkFlags, "field-validation", "ignore-missing-crds", "check-crds")
	addReportFlags(c, &o.report)
	_ = c.RegisterFlagCompletionFunc("field-validation", cobra.FixedCompletions([]string{"ignore", "warn", "strict"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// documentResult is the result of validating the objects of one document.
type documentResult struct {
	objects []objectResult
	problem *input.Problem
}

// objectResult is the result of validating an object.
type objectResult struct {
	item *input.Item
	// uses is the CRD of the object, or nil.
	uses     *definition
	findings []report.Finding
	// skipped is the reason why the object was not validated, or empty.
	skipped string
}

func (a *app) validate(c *cobra.Command, o validateOptions) (err error) {
	fields, err := object.ParseFieldValidation(o.fieldValidation)
	if err != nil {
		return fmt.Errorf("--field-validation=%s: must be ignore, warn or strict", o.fieldValidation)
	}
	if err := stdinOnce(o.crds, o.objects, o.old); err != nil {
		return err
	}
	if len(o.objects.Paths) == 0 {
		return needsPath(c)
	}
	o.crds, o.old = o.objects.With(o.crds.Paths...), o.objects.With(o.old.Paths...)
	a.inputs = []input.Flags{o.objects}
	r, err := report.New(a.reportOptions(c, o.report, validationRules()))
	if err != nil {
		return err
	}
	defer func() { err = r.Finish(err) }()
	ctx := c.Context()
	ds, err := a.loadDefinitions(ctx, o.crds, r.Failure)
	if err != nil {
		return err
	}
	v := &validator{ctx: ctx, definitions: ds, fields: fields, ignoreMissing: o.ignoreMissing}
	if len(o.old.Paths) > 0 {
		if v.old, err = a.loadOld(ctx, o.old, r.Failure); err != nil {
			return err
		}
	}
	reported := map[*definition]bool{}
	return input.Parallel(ctx, a.stdin, o.objects, v.document, func(d documentResult) error {
		for _, object := range d.objects {
			if used := object.uses; used != nil && !reported[used] {
				reported[used] = true
				ds.reportOthers(r, used)
				if err := reportRejected(ctx, r, used, o.checkCRDs); err != nil {
					return err
				}
			}
			if object.skipped != "" {
				r.Skipped(object.item, object.skipped)
				continue
			}
			r.Saw(object.item)
			for _, f := range object.findings {
				r.Add(f)
			}
		}
		if d.problem != nil {
			r.Failure(*d.problem)
		}
		return nil
	}, r.Failure)
}

// reportRejected reports why a CRD cannot be used and, if check is set, why the API server
// would reject it.
func reportRejected(ctx context.Context, r *report.Reporter, d *definition, check bool) error {
	_, unusable := d.checker()
	if unusable == nil && !(check && d.rejected(ctx)) {
		return nil
	}
	reasons, err := d.findings(ctx)
	if err != nil {
		return err
	}
	d.place.Lock()
	defer d.place.Unlock()
	for _, reason := range reasons {
		r.Report(d.item, reason)
	}
	if unusable != nil && len(reasons) == 0 {
		r.Report(d.item, analysis.Finding{Rule: object.RuleInvalidDefinition, Severity: analysis.Error, Message: unusable.Error()})
	}
	return nil
}

// loadOld reads the objects before an update and returns them by identity.
func (a *app) loadOld(ctx context.Context, flags input.Flags, problem func(input.Problem)) (map[input.Identity]*input.Item, error) {
	old := map[input.Identity]*input.Item{}
	err := input.Read(ctx, a.stdin, flags, func(it *input.Item) error {
		old[oldIdentity(it)] = it
		return nil
	}, problem)
	return old, err
}

// oldIdentity returns the identity that an object keeps on update, when its version may
// change.
func oldIdentity(it *input.Item) input.Identity {
	group, _, ok := strings.Cut(it.APIVersion(), "/")
	if !ok {
		group = ""
	}
	namespace := it.Namespace()
	if namespace == "" {
		namespace = "default"
	}
	return input.Identity{APIVersion: group, Kind: it.Kind(), Namespace: namespace, Name: it.Name()}
}

// validator validates objects. It is safe for concurrent use.
type validator struct {
	ctx           context.Context
	definitions   *definitions
	fields        object.FieldValidation
	ignoreMissing bool
	// old holds the objects before an update.
	old map[input.Identity]*input.Item
}

// document validates the objects of a document.
func (v *validator) document(d *input.Document) (out documentResult) {
	items, problem := d.Items()
	out.problem = problem
	for _, it := range items {
		if v.ctx.Err() != nil {
			break // a list can be long
		}
		object := objectResult{item: it}
		for _, f := range v.object(it, &object) {
			object.findings = append(object.findings, report.At(it, f))
		}
		report.Sort(object.findings)
		out.objects = append(out.objects, object)
	}
	return out
}

// object validates one object. It returns its findings, and everything else in out.
func (v *validator) object(it *input.Item, out *objectResult) []analysis.Finding {
	d, err := v.definitions.lookup(it)
	switch {
	case err == nil:
	case isDefinition(it):
		return v.definition(it)
	case v.ignoreMissing:
		out.skipped = "no CRD found"
		return nil
	default:
		message := err.Error()
		if errors.Is(err, errNoCRD) {
			message += ", or skip such objects with --ignore-missing-crds"
		}
		return []analysis.Finding{{Rule: ruleMissingDefinition, Severity: analysis.Error, Path: "kind", Pointer: "/kind", Message: message}}
	}
	out.uses = d
	checker, err := d.checker()
	if err != nil {
		return []analysis.Finding{{Rule: object.RuleInvalidDefinition, Severity: analysis.Error, Path: "kind", Pointer: "/kind",
			Message: fmt.Sprintf("the CRD in %s cannot be used: %v", d.item.File, err)}}
	}
	old, err := v.oldOf(it)
	if err != nil {
		return []analysis.Finding{{Rule: object.RuleDecode, Severity: analysis.Error, Message: err.Error()}}
	}
	return checker.Check(v.ctx, it.JSON, old, v.fields)
}

// oldOf returns the object before the update, or nil on create.
func (v *validator) oldOf(it *input.Item) (schema.Object, error) {
	stored := v.old[oldIdentity(it)]
	if stored == nil {
		return nil, nil
	}
	value, err := jsonx.Parse(stored.JSON)
	if err != nil {
		return nil, fmt.Errorf("cannot read the old object in %s: %w", stored.File, err)
	}
	obj, _ := value.(schema.Object)
	return obj, nil
}

// definition validates a CRD among the objects.
func (v *validator) definition(it *input.Item) []analysis.Finding {
	d := newDefinition(it, v.definitions.semantics)
	if !d.rejected(v.ctx) {
		return nil
	}
	reasons, err := d.findings(v.ctx)
	if err != nil {
		return []analysis.Finding{{Rule: object.RuleInvalidDefinition, Severity: analysis.Error, Message: err.Error()}}
	}
	return reasons
}
