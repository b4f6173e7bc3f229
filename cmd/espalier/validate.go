package main

import (
	"context"
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
	outputs            []string
	fieldValidation    string
	ignoreMissing      bool
	checkCRDs          bool
}

func newValidateCommand(a *app) *cobra.Command {
	var o validateOptions
	c := &cobra.Command{
		Use:   "validate --crd PATH... -f PATH...",
		Short: "Report whether a server would take objects, and what is wrong with those it would not",
		Long: `Validate does to each object what an API server does when it is created: it reads it,
prunes the fields that its CustomResourceDefinition does not know, fills in defaults,
and validates what is left, rules in CEL included. With --old it does what the server
does when the object replaces the old one of the same kind, namespace and name: rules
see the old value, and what was wrong before and has not changed is forgiven.

Fields that would be pruned and fields that occur twice are warnings. With
--field-validation=strict they are errors, with ignore they are skipped: the same
choice as that of kubectl's --validate.

Definitions come from --crd. They may be v1 or v1beta1; what else is in those files is
skipped. Of several definitions of a kind the first that serves an object's version
counts, and a note says that there are others. An object without a definition is an
error unless --ignore-missing-crds is given. Definitions are taken at their word, as
those of a cluster are; --check-crds also says of those that are used what a server has
against them (lint says more). A CustomResourceDefinition among the objects is validated
as one.

Where the two semantics would not come to the same end for an object, a note says so.`,
		Example: `  # Is this object all right?
  espalier validate --crd crontab-crd.yaml -f crontab.yaml

  # All objects below a directory; an unknown field fails the build
  espalier validate --crd crds/ -R -f objects/ --field-validation=strict

  # Would kube-apiserver take this change?
  espalier validate --semantics kubernetes --crd crontab-crd.yaml --old crontab.yaml -f crontab-changed.yaml

  # Annotations in a pull request, and a report to upload
  espalier validate --crd crds/ -f objects/ -o github -o sarif=espalier.sarif

  # From a pipe
  cat crontab.yaml | espalier validate --crd crontab-crd.yaml -f -`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.validate(c, o) },
	}
	addCRDFlag(c, &o.crds)
	addInputFlags(c, &o.objects, "objects")
	c.Flags().StringArrayVar(&o.old.Paths, "old", nil, "`PATH` of a file or directory with the objects that are replaced (may repeat)")
	c.Flags().StringVar(&o.fieldValidation, "field-validation", "warn", "what to do about unknown and duplicate fields: `ignore|warn|strict`")
	c.Flags().BoolVar(&o.ignoreMissing, "ignore-missing-crds", false, "skip objects without a definition")
	c.Flags().BoolVar(&o.checkCRDs, "check-crds", false, "also report why a server would reject a definition that is used")
	addOutputFlag(c, &o.outputs)
	_ = c.RegisterFlagCompletionFunc("field-validation", cobra.FixedCompletions([]string{"ignore", "warn", "strict"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// validationRules describe what validate finds.
func validationRules() []analysis.Rule {
	rules := append(inputRules(),
		analysis.Rule{ID: ruleMissingDefinition, Severity: analysis.Error, Summary: "No CustomResourceDefinition defines the object's kind and version.", Help: "Name the definition with --crd, or skip such objects with --ignore-missing-crds."},
		analysis.Rule{ID: object.RuleInvalidDefinition, Severity: analysis.Error, Summary: "A server would not take the CustomResourceDefinition.", Help: "espalier lint says what is wrong with it."},
		analysis.Rule{ID: ruleSeveral, Severity: analysis.Info, Summary: "The kind of an object has several definitions: the first that serves its version counts."},
	)
	return append(rules, object.CheckRules()...)
}

// verdict is what there is to say about the objects of one document.
type verdict struct {
	objects  []*input.Item
	findings []report.Finding
	problem  *input.Problem
	// uses are the definitions that were needed.
	uses []*definition
}

func (a *app) validate(c *cobra.Command, o validateOptions) (err error) {
	fields, err := object.ParseFieldValidation(o.fieldValidation)
	if err != nil {
		return fmt.Errorf("--field-validation %s: choose ignore, warn or strict", o.fieldValidation)
	}
	if err := stdinOnce(o.crds, o.objects, o.old); err != nil {
		return err
	}
	o.crds.Recursive, o.old.Recursive = o.objects.Recursive, o.objects.Recursive
	r, err := a.newReporter(c, o.outputs, validationRules())
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
	progress := a.newProgress("objects validated")
	defer progress.stop()
	reported := map[*definition]bool{}
	return input.Parallel(ctx, a.stdin, o.objects, v.document, func(d verdict) error {
		for _, used := range d.uses {
			if reported[used] {
				continue
			}
			reported[used] = true
			ds.reportOthers(r, used)
			if err := reportRefused(ctx, r, used, o.checkCRDs); err != nil {
				return err
			}
		}
		progress.clear(len(d.findings) > 0 || d.problem != nil)
		for _, it := range d.objects {
			r.Saw(it)
			progress.add()
		}
		for _, f := range d.findings {
			r.Add(f)
		}
		if d.problem != nil {
			r.Failure(*d.problem)
		}
		return nil
	}, r.Failure)
}

// reportRefused says of a definition that is used why it cannot be used or, if that is
// to be checked, what a server has against it.
func reportRefused(ctx context.Context, r *report.Reporter, d *definition, check bool) error {
	_, unusable := d.checker()
	if unusable == nil && !(check && d.refused(ctx)) {
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

// loadOld reads the objects that are replaced, by identity.
func (a *app) loadOld(ctx context.Context, flags input.Flags, problem func(input.Problem)) (map[input.Identity]*input.Item, error) {
	old := map[input.Identity]*input.Item{}
	err := input.Read(ctx, a.stdin, flags, func(it *input.Item) error {
		old[oldIdentity(it)] = it
		return nil
	}, problem)
	return old, err
}

// oldIdentity is the name under which an object is found again: its version may change.
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
	// old are the objects that are replaced.
	old map[input.Identity]*input.Item
}

// document validates the objects of a document.
func (v *validator) document(d *input.Document) (out verdict) {
	out.objects, out.problem = d.Items()
	for _, it := range out.objects {
		if v.ctx.Err() != nil {
			break // a list can be long
		}
		var placed []report.Finding
		for _, f := range v.object(it, &out) {
			placed = append(placed, report.At(it, f))
		}
		report.Sort(placed)
		out.findings = append(out.findings, placed...)
	}
	return out
}

// object validates one object.
func (v *validator) object(it *input.Item, out *verdict) []analysis.Finding {
	d, err := v.definitions.lookup(it)
	switch {
	case err == nil:
	case isDefinition(it):
		return v.definition(it)
	case v.ignoreMissing:
		return nil
	default:
		return []analysis.Finding{{Rule: ruleMissingDefinition, Severity: analysis.Error, Path: "kind", Pointer: "/kind", Message: err.Error()}}
	}
	out.uses = append(out.uses, d)
	checker, err := d.checker()
	if err != nil {
		return []analysis.Finding{{Rule: object.RuleInvalidDefinition, Severity: analysis.Error, Path: "kind", Pointer: "/kind",
			Message: fmt.Sprintf("its definition in %s cannot be used: %v", d.item.File, err)}}
	}
	old, err := v.oldOf(it)
	if err != nil {
		return []analysis.Finding{{Rule: object.RuleDecode, Severity: analysis.Error, Message: err.Error()}}
	}
	return checker.Check(v.ctx, it.JSON, old, v.fields)
}

// oldOf returns the object that it replaces, or nil.
func (v *validator) oldOf(it *input.Item) (schema.Object, error) {
	stored := v.old[oldIdentity(it)]
	if stored == nil {
		return nil, nil
	}
	value, err := jsonx.Parse(stored.JSON)
	if err != nil {
		return nil, fmt.Errorf("the old object in %s: %w", stored.File, err)
	}
	obj, _ := value.(schema.Object)
	return obj, nil
}

// definition validates a CustomResourceDefinition that is among the objects.
func (v *validator) definition(it *input.Item) []analysis.Finding {
	d := newDefinition(it, v.definitions.semantics)
	if !d.refused(v.ctx) {
		return nil
	}
	reasons, err := d.findings(v.ctx)
	if err != nil {
		return []analysis.Finding{{Rule: object.RuleInvalidDefinition, Severity: analysis.Error, Message: err.Error()}}
	}
	return reasons
}
