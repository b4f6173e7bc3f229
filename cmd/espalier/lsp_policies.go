package main

import (
	"context"
	"hash/maphash"
	"slices"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lint"
	"espalier.dev/analysis/lookup"
	"espalier.dev/cmd/espalier/internal/input"
)

// policyPlace is where a policy is.
type policyPlace struct {
	file string
	line int
	base string
}

func policyPlaceOf(it *input.Item) policyPlace { return policyPlace{it.File, it.Doc.Line(), it.Base} }

// policyResults are the findings about all policies of a workspace: what is wrong with one depends on
// others, on CRDs, and on the names of all objects.
type policyResults struct {
	seed maphash.Seed
	// sum is a checksum of what they depend on.
	sum      uint64
	findings map[policyPlace][]analysis.Finding
}

// lintPolicies lints all policies of the workspace, unless nothing has changed for them.
func (w *workspace) lintPolicies(ctx context.Context) error {
	if w.policies == nil {
		w.policies = &policyResults{seed: maphash.MakeSeed()}
	}
	k := w.checks
	in := &lintInput{filtered: k.linting.input.Keep != input.Everything}
	var sum maphash.Hash
	sum.SetSeed(w.policies.seed)
	maphash.WriteComparable(&sum, w.generation)
	var files []string
	for _, path := range w.order {
		f := w.files[path]
		if w.rendered.of(path) != nil {
			continue // it is a template: what it renders counts
		}
		has := false
		for _, o := range f.objects {
			has = has || o.policy
			if !in.filtered || o.policy || o.crd != nil {
				in.names = append(in.names, nameOf(o.item))
				maphash.WriteComparable(&sum, in.names[len(in.names)-1])
			}
		}
		if has {
			files = append(files, path)
			maphash.WriteComparable(&sum, f.version)
		}
	}
	maphash.WriteComparable(&sum, w.renderings)
	if w.policies.findings != nil && w.policies.sum == sum.Sum64() {
		return nil
	}
	for _, d := range append(w.crds(), w.renderedCRDs()...) {
		if base, err := d.base(); err == nil {
			in.compiled = append(in.compiled, base)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	for _, path := range files {
		err := w.documents(ctx, k.linting.input, path, func(d *input.Document) error {
			items, _ := d.Items() // its problem is reported with the file
			for _, it := range items {
				if lint.IsPolicy(it.TypeMeta()) {
					in.policies = append(in.policies, it)
				}
			}
			return nil
		}, func(input.Problem) {})
		if err != nil {
			return err
		}
	}
	w.renderedItems(func(it *input.Item) {
		policy := lint.IsPolicy(it.TypeMeta())
		if !in.filtered || policy || isDefinition(it) {
			in.names = append(in.names, nameOf(it))
		}
		if policy {
			in.policies = append(in.policies, it)
		}
	})
	found := map[*input.Item][]analysis.Finding{}
	if err := k.linter.lintPolicies(ctx, in, k.lintConfigs, found); err != nil {
		return err
	}
	if slices.ContainsFunc(k.lintRules, func(r lint.Rule) bool { return r.ID == lookup.RuleRelease }) {
		k.linting.release.checks().addPolicies(ctx, in.policies, found)
	}
	if ctx.Err() != nil {
		return ctx.Err() // they may not be complete
	}
	w.policies.sum, w.policies.findings = sum.Sum64(), map[policyPlace][]analysis.Finding{}
	for _, it := range in.policies {
		w.policies.findings[policyPlaceOf(it)] = found[it]
	}
	return nil
}
