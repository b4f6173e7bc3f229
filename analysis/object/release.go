//go:build !small

package object

import (
	"context"
	"fmt"
	"slices"
	"sync"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lookup"
	"espalier.dev/api"
	"espalier.dev/internal/jsonx"
	"espalier.dev/kinds"
	"espalier.dev/kinds/releases"
)

// ReleaseChecker checks objects of Kubernetes' own kinds for a release of Kubernetes. The rules are
// those of [KindChecker]; the kinds, the fields and the CEL of policies and device selectors are those of the release. It
// is safe for concurrent use.
type ReleaseChecker struct {
	*KindChecker
	release releases.Release
	// older makes the rules with the CEL of a release.
	older func(releases.Release) (*kinds.Offline, error)
}

// At returns a checker for a release. cel returns the CEL of a release.
func (c *KindChecker) At(release releases.Release, cel func(releases.Release) kinds.CEL) *ReleaseChecker {
	var offline [releases.Last + 1]func() (*kinds.Offline, error)
	for r := release; r <= releases.Last; r++ {
		offline[r] = sync.OnceValues(func() (*kinds.Offline, error) { return kinds.NewOffline(cel(r)) })
	}
	return &ReleaseChecker{c, release, func(r releases.Release) (*kinds.Offline, error) { return offline[r]() }}
}

// Check is like [KindChecker.Check]. Of kinds that are not built in, because the latest release does
// not serve them, it checks only the fields.
func (c *ReleaseChecker) Check(ctx context.Context, source, old []byte, fields FieldValidation) []analysis.Finding {
	id, err := api.Identify(source)
	if err != nil {
		return c.KindChecker.Check(ctx, source, old, fields)
	}
	findings, served := lookup.AtRelease(id.APIVersion, id.Kind, c.release)
	if !served {
		return findings
	}
	gvk := runtimeschema.FromAPIVersionAndKind(id.APIVersion, id.Kind)
	rules, err := c.rules()
	if err != nil {
		return append(findings, analysis.Finding{Rule: RuleDecode, Severity: analysis.Error, Message: err.Error()})
	}
	found, known := rules.CompareAt(gvk, source, c.release)
	if fields != Ignore {
		for _, f := range found.Later {
			findings = append(findings, analysis.Finding{Rule: RuleUnknownField, Severity: fields.severity(), Path: f.Path.String(),
				Pointer: f.Path.Pointer(), Part: analysis.FieldName,
				Message: fmt.Sprintf("unknown field %q: %s", f.Path.String(), f.Missing(c.release))})
		}
	}
	if resource := kinds.ByKind(gvk); resource != nil {
		// The release validates what is left when it has dropped the fields that it does not have.
		// That has no duplicate fields any more.
		for _, f := range comparisonFindings(found, fields) {
			if f.Rule == RuleDuplicateField {
				findings = append(findings, f)
			}
		}
		source = withoutLater(source, found)
		if old != nil {
			before, _ := rules.CompareAt(gvk, old, c.release)
			old = withoutLater(old, before)
		}
		// AtRelease has the warning of the release.
		for _, f := range c.KindChecker.Check(ctx, source, old, fields) {
			if f.Message != resource.Deprecated {
				findings = append(findings, f)
			}
		}
		if gvk.Group == "admissionregistration.k8s.io" || gvk.Group == "resource.k8s.io" {
			findings = append(findings, c.expressions(source, old)...)
		}
		return findings
	}
	message := fmt.Sprintf("no fields of %s %s are checked: the kind is not built in", id.APIVersion, id.Kind)
	if known {
		findings = append(findings, comparisonFindings(found, fields)...)
		message = fmt.Sprintf("only the fields of %s %s are checked: the kind is not built in", id.APIVersion, id.Kind)
	}
	return append(findings, analysis.Finding{Rule: lookup.RuleRelease, Severity: analysis.Info, Path: "kind", Pointer: "/kind", Message: message})
}

// withoutLater returns an object in JSON without the fields that a release does not have.
func withoutLater(source []byte, found kinds.Comparison) []byte {
	tree, err := jsonx.Parse(source)
	if err != nil {
		return source // it has numbers that no field has
	}
	for _, f := range found.Later {
		f.Path.Delete(tree)
	}
	kept, _ := jsonx.Append(nil, tree) // it was decoded from JSON
	return kept
}

// expressions returns the errors in CEL expressions that the release finds, and the latest does not.
func (c *ReleaseChecker) expressions(source, old []byte) (findings []analysis.Finding) {
	rejects := func(r releases.Release, e *field.Error) bool { // its text differs if a release has some of the functions
		return slices.ContainsFunc(c.invalid(r, source, old), func(other *field.Error) bool { return other.Field == e.Field })
	}
	for _, e := range c.invalid(c.release, source, old) {
		if rejects(releases.Last, e) {
			continue
		}
		since := c.release + 1
		for rejects(since, e) {
			since++
		}
		tree, _ := jsonx.Parse(source)
		f := errorFinding(e, tree)
		f.Rule = lookup.RuleRelease
		message, detail := split(e.Detail)
		f.Message, f.Detail = fmt.Sprintf("Kubernetes %s rejects the expression, which %s accepts: %s", c.release, since, message), detail
		findings = append(findings, f)
	}
	return findings
}

// invalid returns the errors about an object with the CEL of a release.
func (c *ReleaseChecker) invalid(r releases.Release, source, old []byte) field.ErrorList {
	rules, err := c.older(r)
	if err != nil {
		return nil
	}
	request, err := rules.Request(source)
	if err != nil || request.Undecodable != nil {
		return nil
	}
	if old != nil && request.Apply(old) != nil {
		return nil
	}
	_, errs, _ := request.Write("")
	return errs
}
