package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"espalier.dev"
	"espalier.dev/analysis"
	"espalier.dev/api"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/crd"
	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

// validator validates objects. It is safe for concurrent use.
type validator struct {
	ctx           context.Context
	definitions   *definitions
	semantics     schema.Semantics
	fields        fieldValidation
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
		start := len(out.findings)
		v.object(it, &out)
		sortByPlace(out.findings[start:])
	}
	return out
}

// sortByPlace puts findings in the order of the text; what is about the object as a
// whole comes last.
func sortByPlace(fs []report.Finding) {
	slices.SortStableFunc(fs, func(a, b report.Finding) int {
		whole := func(f *report.Finding) int {
			if f.Path == "" {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(whole(&a), whole(&b)), cmp.Compare(a.Span.Line, b.Span.Line), cmp.Compare(a.Span.Column, b.Span.Column))
	})
}

// object validates one object.
func (v *validator) object(it *input.Item, out *verdict) {
	add := func(f analysis.Finding) { out.findings = append(out.findings, report.At(it, f)) }
	d, err := v.definitions.lookup(it)
	switch {
	case err == nil:
	case isDefinition(it):
		v.definitionObject(it, out)
		return
	case v.ignoreMissing:
		return
	default:
		add(analysis.Finding{Rule: ruleMissingDefinition, Severity: analysis.Error, Path: "kind", Pointer: "/kind", Message: err.Error()})
		return
	}
	out.uses = append(out.uses, d)
	f := d.in(v.semantics)
	if f.err != nil {
		add(analysis.Finding{Rule: ruleInvalidDefinition, Severity: analysis.Error, Path: "kind", Pointer: "/kind",
			Message: fmt.Sprintf("its definition in %s cannot be used: %v", d.item.File, f.err)})
		return
	}
	old, err := v.oldOf(it, f.definition)
	if err != nil {
		add(analysis.Finding{Rule: ruleDecode, Severity: analysis.Error, Message: err.Error()})
		return
	}
	result, err := admit(v.ctx, f.admitter, it, old)
	version := f.version(it)
	if err != nil {
		refused := refusal(d, version, err)
		for _, f := range refused {
			add(f)
		}
		v.rest(it, d, version, old, refused, out)
	} else {
		v.result(it, d, version, result, old, out)
	}
	// Few schemas and objects can make a difference, so few are looked at twice.
	switch differs := f.differs[version.Name()]; {
	case err != nil || len(result.Violations) > 0 || differs.validation:
		v.compare(it, d, old, result, err, out)
	case differs.pruning || version.HasStatus() && bytes.Contains(it.JSON, []byte(`"status"`)):
		v.comparePruning(it, d, old, result, out)
	}
}

// admit does what a server does to an object that is created or, with old, replaces
// old.
func admit(ctx context.Context, a *espalier.Admitter, it *input.Item, old schema.Object) (*espalier.Result, error) {
	if old != nil {
		return a.UpdateJSON(ctx, it.JSON, old)
	}
	return a.CreateJSON(ctx, it.JSON)
}

// oldIdentity is the name under which an object is found again: its version may
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

// oldOf returns the object that it replaces, or nil.
func (v *validator) oldOf(it *input.Item, d *crd.Definition) (schema.Object, error) {
	stored := v.old[oldIdentity(it)]
	if stored == nil {
		return nil, nil
	}
	value, err := jsonx.Parse(stored.JSON)
	if err != nil {
		return nil, fmt.Errorf("the old object in %s: %w", stored.File, err)
	}
	obj, _ := value.(schema.Object)
	if c := d.CRD().Spec.Conversion; stored.APIVersion() != it.APIVersion() && (c == nil || c.Strategy == api.NoneConverter) {
		// Without a webhook, converting is to change the version and nothing else.
		obj["apiVersion"] = it.APIVersion()
	}
	return obj, nil
}

// definitionObject validates a CustomResourceDefinition that is among the objects.
func (v *validator) definitionObject(it *input.Item, out *verdict) {
	d := newDefinition(it, v.semantics)
	if !d.refused(v.ctx, v.semantics) {
		return
	}
	reasons, err := d.findings(v.ctx, v.semantics)
	if err != nil {
		reasons = []analysis.Finding{{Rule: ruleInvalidDefinition, Severity: analysis.Error, Message: err.Error()}}
	}
	for _, f := range reasons {
		out.findings = append(out.findings, report.At(it, f))
	}
}

// result turns what a server would make of an object into findings.
func (v *validator) result(it *input.Item, d *definition, version *crd.Version, result *espalier.Result, old schema.Object, out *verdict) {
	if v.fields != fieldsIgnore {
		severity := analysis.Warning
		if v.fields == fieldsStrict {
			severity = analysis.Error
		}
		for _, changes := range [...][]schema.Change{result.Changes, result.IgnoredChanges} {
			for i := range changes {
				if f, ok := fieldFinding(d, version, &changes[i], severity); ok {
					out.findings = append(out.findings, changeAt(it, changes[i].Kind, f))
				}
			}
		}
		if result.Truncated {
			out.findings = append(out.findings, report.At(it, analysis.Finding{Rule: ruleUnknownField, Severity: severity, Message: "there are more unknown fields than are listed"}))
		}
	}
	for _, warning := range version.Warnings(result.Object, old) {
		out.findings = append(out.findings, report.At(it, analysis.Finding{Rule: ruleServerWarning, Severity: analysis.Info, Path: "apiVersion", Pointer: "/apiVersion", Message: warning}))
	}
	for _, f := range violationFindings(d, version, result.Violations) {
		out.findings = append(out.findings, report.At(it, f))
	}
}

// compare says where the other semantics comes to another end. Rules are left out:
// they see the same fields in both.
func (v *validator) compare(it *input.Item, d *definition, old schema.Object, result *espalier.Result, refused error, out *verdict) {
	other := v.other()
	f := d.withoutRules(other)
	if f.err != nil {
		return
	}
	otherResult, otherErr := admit(v.ctx, f.admitter, it, old)
	accepted := refused == nil && !slices.ContainsFunc(result.Violations, func(x schema.Violation) bool {
		return x.Kind != schema.Rule && x.Kind != schema.RulesSkipped
	})
	otherAccepted := otherErr == nil && len(otherResult.Violations) == 0
	finding := analysis.Finding{Rule: ruleSemantics, Severity: analysis.Info}
	switch {
	case accepted && !otherAccepted:
		finding.Message = fmt.Sprintf("under %s semantics it would be refused", other)
		if otherErr != nil {
			finding.Detail = []string{otherErr.Error()}
		} else {
			for _, e := range violationFindings(d, f.version(it), otherResult.Violations) {
				finding.Detail = append(finding.Detail, e.Path+": "+e.Message)
			}
		}
	case !accepted && otherAccepted:
		finding.Message = fmt.Sprintf("under %s semantics it would be accepted", other)
	case accepted && otherAccepted && !reflect.DeepEqual(result.Object, otherResult.Object):
		finding.Message = fmt.Sprintf("under %s semantics it would be stored otherwise", other)
		finding.Detail = changeDifference(result.Changes, otherResult.Changes)
	default:
		return
	}
	out.findings = append(out.findings, report.At(it, finding))
}

// comparePruning is compare for a valid object that the other semantics can only
// refuse to read, or prune differently.
func (v *validator) comparePruning(it *input.Item, d *definition, old schema.Object, result *espalier.Result, out *verdict) {
	f := d.withoutRules(v.other())
	if f.err != nil {
		return
	}
	version := f.version(it)
	program, err := version.Program()
	if err != nil {
		return
	}
	_, there, err := program.Decode(it.JSON, schema.DecodeOptions{Report: true, Old: old})
	if err == nil && !there.Truncated && !result.Truncated && sameChanges(result.Changes, there.Changes, version.HasStatus()) {
		return
	}
	v.compare(it, d, old, result, nil, out)
}

// sameChanges says whether two lists of changes are the same. Changes below a status
// that is not to be written are in the second list only.
func sameChanges(a, b []schema.Change, dropStatus bool) bool {
	i := 0
	for j := range b {
		if dropStatus && len(b[j].Path) > 0 && b[j].Path[0].Key == "status" {
			continue
		}
		if i == len(a) || a[i].Kind != b[j].Kind || !slices.Equal(a[i].Path, b[j].Path) {
			return false
		}
		i++
	}
	return i == len(a)
}

// other is the semantics that was not asked for.
func (v *validator) other() schema.Semantics { return schema.KEP + schema.Kubernetes - v.semantics }

// changeDifference lists the changes that only one of the semantics makes.
func changeDifference(here, there []schema.Change) (lines []string) {
	key := func(c *schema.Change) string { return c.Path.String() + " is " + changeWord(c.Kind) }
	set := map[string]bool{}
	for i := range here {
		set[key(&here[i])] = true
	}
	for i := range there {
		if k := key(&there[i]); set[k] {
			delete(set, k)
		} else {
			lines = append(lines, k+" there")
		}
	}
	for i := range here {
		if k := key(&here[i]); set[k] {
			lines = append(lines, k+" here, not there")
		}
	}
	return lines
}
