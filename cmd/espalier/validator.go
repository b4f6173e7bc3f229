package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lookup"
	"espalier.dev/analysis/object"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

// validateOptions are the flags of validate.
type validateOptions struct {
	crds, objects, old input.Flags
	base               string
	report             reportFlags
	fieldValidation    string
	skip               skipFlags
	release            releaseFlag
	checkCRDs          bool
	source             sourceFlags
	oldFromCluster     bool
	policies           policyFlags
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
	// failed is the reason why no object can be validated, or nil.
	failed error
}

// validationReporter reports the results of a validator.
type validationReporter struct {
	ctx         context.Context
	r           *report.Reporter
	definitions *definitions
	// checkCRDs is set if CRDs in use are checked. reported has those that were reported.
	checkCRDs bool
	reported  map[*definition]bool
	// namespaces has the messages about namespaces that are not in the input.
	namespaces map[string]bool
	// duplicates finds objects that are twice in the input.
	duplicates duplicates
}

// report reports the result of a document.
func (v *validationReporter) report(d documentResult) error {
	for _, object := range d.objects {
		if object.failed != nil {
			return object.failed
		}
		if err := v.use(object.uses); err != nil {
			return err
		}
		if object.skipped != "" {
			v.r.Skipped(object.item, object.skipped)
			continue
		}
		v.r.Saw(object.item)
		for _, f := range object.findings {
			if f.Rule == rulePolicyNamespace {
				if v.namespaces[f.Message] {
					continue
				}
				v.namespaces[f.Message] = true
			}
			v.r.Add(f)
		}
		if f, ok := v.duplicates.add(object.item, placeOf(object.item)); ok {
			v.r.Report(object.item, f)
		}
	}
	if d.problem != nil {
		v.r.Failure(*d.problem)
	}
	return nil
}

// use reports what is wrong with a CRD when the first object uses it. d is nil for objects without
// a CRD.
func (v *validationReporter) use(d *definition) error {
	if d == nil || v.reported[d] {
		return nil
	}
	v.reported[d] = true
	v.definitions.reportOthers(v.r, d)
	return reportRejected(v.ctx, v.r, d, v.checkCRDs)
}

// reportRejected reports why a CRD cannot be used and, if check is set, why the API server
// would reject it.
func reportRejected(ctx context.Context, r *report.Reporter, d *definition, check bool) error {
	_, unusable := d.checker()
	if unusable == nil && !(check && d.rejected(ctx)) {
		return nil
	}
	it, err := d.load()
	if err != nil {
		r.Report(d.bare(), analysis.Finding{Rule: object.RuleInvalidDefinition, Severity: analysis.Error, Message: err.Error()})
		return nil
	}
	reasons, err := d.findings(ctx)
	if err != nil {
		return err
	}
	d.using.Lock()
	defer d.using.Unlock()
	for _, reason := range reasons {
		r.Report(it, reason)
	}
	if unusable != nil && len(reasons) == 0 {
		r.Report(it, analysis.Finding{Rule: object.RuleInvalidDefinition, Severity: analysis.Error, Message: unusable.Error()})
	}
	return nil
}

// validator validates objects. It is safe for concurrent use.
type validator struct {
	ctx         context.Context
	definitions *definitions
	fields      object.FieldValidation
	// release is what to check for a release of Kubernetes, or nil for the latest.
	release *releaseChecks
	skip    skipFlags
	// variables is set if objects have variables that are substituted later, and skipped counts
	// the findings that are not judged because of them.
	variables bool
	skipped   *input.Skipped
	// before returns the object before an update, or nil and possibly a warning if the object is
	// created. It is nil if all objects are created.
	before func(*input.Item) (*input.Item, []analysis.Finding)
	// unconverted is set if an object counts as created when a webhook would have to convert the one
	// before the update to its version.
	unconverted bool
	// policies are the admission policies of --policies, or nil.
	policies *policySet
}

// document validates the objects of a document.
func (v *validator) document(d *input.Document) documentResult {
	items, problem := d.Items()
	out := v.items(items)
	out.problem = problem
	return out
}

// items validates the objects of a document.
func (v *validator) items(items []*input.Item) (out documentResult) {
	for _, it := range items {
		if v.ctx.Err() != nil {
			break // a list can be long
		}
		out.objects = append(out.objects, v.item(it))
	}
	return out
}

// item validates an object.
func (v *validator) item(it *input.Item) objectResult {
	result := objectResult{item: it}
	for _, f := range v.object(it, &result) {
		result.findings = append(result.findings, report.At(it, f))
	}
	report.Sort(result.findings)
	return result
}

// object validates one object. It returns its findings, and everything else in out.
func (v *validator) object(it *input.Item, out *objectResult) []analysis.Finding {
	if out.skipped = v.skip.byKind(it); out.skipped != "" {
		return nil
	}
	if isDefinition(it) {
		return append(v.definition(it), v.definitions.overridden(it)...)
	}
	if v.isBuiltin(it) {
		if out.skipped = v.skip.byBuiltin(); out.skipped != "" {
			return nil
		}
		old, findings := v.old(it)
		return append(findings, v.judge(it, old, func(src, before []byte) []analysis.Finding {
			return v.policies.check(v.ctx, it, policyRequest{source: src, old: before}, func(src []byte) []analysis.Finding {
				return v.builtin(src, before)
			})
		})...)
	}
	d, err := v.definitions.Find(it)
	if err != nil {
		out.skipped = v.skip.byError(err)
		return v.missing(err, out)
	}
	out.uses = d
	checker, err := d.checker()
	if err != nil {
		return []analysis.Finding{{Rule: object.RuleInvalidDefinition, Severity: analysis.Error, Path: "kind", Pointer: "/kind",
			Message: fmt.Sprintf("the CRD in %s cannot be used: %v", d.file, err)}}
	}
	old, findings := v.old(it)
	return append(findings, v.judge(it, old, func(src, oldSrc []byte) []analysis.Finding {
		var before schema.Object
		if old != nil {
			value, err := jsonx.Parse(oldSrc)
			if err != nil {
				return []analysis.Finding{{Rule: object.RuleDecode, Severity: analysis.Error,
					Message: fmt.Sprintf("cannot read the old object in %s: %v", old.File, err)}}
			}
			if before, _ = value.(schema.Object); v.unconverted && !checker.Converts(before, src) {
				before = nil
			}
		}
		if before == nil {
			oldSrc = nil
		}
		return v.policies.check(v.ctx, it, policyRequest{source: src, old: oldSrc, uses: d}, func(src []byte) []analysis.Finding {
			check := func(before schema.Object) []analysis.Finding {
				return v.release.supported(checker.Check(v.ctx, src, before, v.fields))
			}
			found := check(before)
			if before == nil {
				return found
			}
			return v.release.strict(found, func() []analysis.Finding { return check(nil) })
		})
	})...)
}

// old returns the object before the update, or nil if the object is created.
func (v *validator) old(it *input.Item) (*input.Item, []analysis.Finding) {
	if v.before == nil {
		return nil, nil
	}
	return v.before(it)
}

// missing returns the finding about an object whose CRD was not found.
func (v *validator) missing(err error, out *objectResult) []analysis.Finding {
	var missing *lookup.Missing
	switch {
	case out.skipped != "":
		return nil
	case !errors.As(err, &missing):
		out.failed = err
		return nil
	}
	f := missing.Finding()
	switch skip := "skip such objects with --ignore-missing-crds"; {
	case !missing.Unrelated || strings.HasSuffix(f.Message, "?"):
	case missing.Remedy == "":
		f.Message += ": " + skip
	default:
		f.Message += ", or " + skip
	}
	return []analysis.Finding{f}
}

// definition validates a CRD among the objects.
func (v *validator) definition(it *input.Item) []analysis.Finding {
	d := newDefinition(it, v.definitions.semantics)
	unsupported := v.release.unsupported(v.ctx, d)
	if !d.rejected(v.ctx) {
		return unsupported
	}
	reasons, err := d.findings(v.ctx)
	if err != nil {
		return []analysis.Finding{{Rule: object.RuleInvalidDefinition, Severity: analysis.Error, Message: err.Error()}}
	}
	return append(reasons, unsupported...)
}
