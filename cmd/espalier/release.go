package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lint"
	"espalier.dev/analysis/lookup"
	"espalier.dev/analysis/object"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/kinds"
	kindscel "espalier.dev/kinds/cel"
	"espalier.dev/kinds/releases"
	"espalier.dev/schema"
)

// releaseFlag is the value of --kubernetes-version.
type releaseFlag struct {
	releases.Release
	// input is the input of the command: charts are rendered for the version. It may be nil.
	input *input.Flags
}

// String returns the version, or "" if there is none.
func (f *releaseFlag) String() string {
	if f.Release == 0 {
		return ""
	}
	return f.Release.String()
}

// Set parses a version.
func (f *releaseFlag) Set(text string) (err error) {
	if f.Release, err = releases.Parse(text); err == nil && f.input != nil && f.input.Helm != nil {
		f.input.Helm.KubeVersion = "v" + f.Release.String() + ".0"
	}
	return err
}

// Type returns the name of the value in help texts.
func (f *releaseFlag) Type() string { return "version" }

// addReleaseFlag adds --kubernetes-version.
func addReleaseFlag(c *cobra.Command, f *releaseFlag) {
	f.input = inputOf(c)
	c.Flags().Var(f, "kubernetes-version", fmt.Sprintf("`VERSION` of the cluster, from %s to %s: report what it does not have",
		releases.First, releases.Last))
	groupFlags(c.Flags(), checkFlags, "kubernetes-version")
	var known []string
	for r := releases.Last; r >= releases.First; r-- {
		known = append(known, r.String())
	}
	completeValues(c, "kubernetes-version", known...)
}

// lintFor makes lint report what a release does not have.
func (f *releaseFlag) lintFor(o lint.Options) lint.Options {
	o.Release = f.Release
	o.RulesOf = func(r releases.Release) crd.RuleChecker { return cel.Checker{Minor: uint(r)} }
	return o
}

// checks returns the checks of validate for the release, or nil without one.
func (f *releaseFlag) checks() *releaseChecks {
	if f.Release == 0 {
		return nil
	}
	return &releaseChecks{*f, builtinChecker().At(f.Release, func(r releases.Release) kinds.CEL { return kindscel.At(r) })}
}

// releaseChecks are what a validator checks for a release of Kubernetes.
type releaseChecks struct {
	releaseFlag
	kinds *object.ReleaseChecker
}

// isBuiltin reports whether an object is of one of Kubernetes' own kinds, in the latest release or
// in that of --kubernetes-version.
func (v *validator) isBuiltin(it *input.Item) bool {
	return v.definitions.IsBuiltin(it) || v.release != nil && v.definitions.WasBuiltin(it)
}

// builtin checks an object of one of Kubernetes' own kinds.
func (v *validator) builtin(source, old []byte) []analysis.Finding {
	if v.release != nil {
		return v.release.kinds.Check(v.ctx, source, old, v.fields)
	}
	return builtinChecker().Check(v.ctx, source, old, v.fields)
}

// unsupported returns what the release does not have of a CRD. It is nil without a release.
func (c *releaseChecks) unsupported(ctx context.Context, d *definition) []analysis.Finding {
	if c == nil {
		return nil
	}
	all, err := lint.Run(ctx, [][]byte{d.item().JSON}, c.lintFor(lint.Options{Semantics: d.semantics, Rules: cel.Checker{},
		Configs: []lint.Config{{Disable: []string{lint.All}, Enable: []string{lookup.RuleRelease}}}}))
	if err != nil {
		return nil // the context is done
	}
	return all[0]
}

// addPolicies adds findings about kinds of policies and CEL expressions that the release does not
// have. It adds nothing without a release.
func (c *releaseChecks) addPolicies(ctx context.Context, policies []*input.Item, findings map[*input.Item][]analysis.Finding) {
	if c == nil {
		return
	}
	for _, it := range policies {
		for _, f := range c.kinds.Check(ctx, it.JSON, nil, object.Ignore) {
			if f.Rule == lookup.RuleRelease && f.Severity != analysis.Info {
				findings[it] = append(findings[it], f)
			}
		}
	}
}

// rulesSince is the release that evaluates the rules of CRDs.
const rulesSince releases.Release = 25

// supported returns the findings about a custom resource without those of rules, if the release
// drops rules from CRDs.
func (c *releaseChecks) supported(findings []analysis.Finding) []analysis.Finding {
	if c == nil || c.Release >= rulesSince {
		return findings
	}
	return slices.DeleteFunc(findings, func(f analysis.Finding) bool {
		return f.Rule == object.ViolationRule(schema.Rule) || f.Rule == object.ViolationRule(schema.RulesSkipped)
	})
}

// ratchetingSince is the release that tolerates errors in unchanged fields of custom resources.
const ratchetingSince releases.Release = 30

// strict adds the errors in unchanged fields to the findings about an update, if the release does
// not tolerate them. created returns the findings about the object if it were created.
func (c *releaseChecks) strict(findings []analysis.Finding, created func() []analysis.Finding) []analysis.Finding {
	if c == nil || c.Release >= ratchetingSince {
		return findings
	}
	findings = slices.DeleteFunc(findings, func(f analysis.Finding) bool { return f.Rule == object.RuleRatcheted })
	for _, f := range created() {
		same := func(other analysis.Finding) bool { return other.Rule == f.Rule && other.Pointer == f.Pointer }
		if f.Severity != analysis.Error || !strings.HasPrefix(f.Rule, "validation/") || slices.ContainsFunc(findings, same) {
			continue
		}
		f.Detail = append(slices.Clone(f.Detail), fmt.Sprintf("the field has not changed: Kubernetes %s tolerates it, %s does not",
			ratchetingSince, c.Release))
		findings = append(findings, f)
	}
	return findings
}
