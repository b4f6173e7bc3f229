package main

import (
	"context"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lint"
	"espalier.dev/analysis/object"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/crd"
	"espalier.dev/schema/rules/typecheck"
)

// lintInput is the input of lint.
type lintInput struct {
	// all are the CRDs and policies, in their order.
	all, crds, policies []*input.Item
	// names are those of all objects, or only of CRDs and policies if filtered is set.
	names    []lint.ObjectName
	filtered bool
	// compiled are the CRDs for policies. If it is nil, crds are compiled.
	compiled []*crd.Definition
}

// textsOf returns the texts of objects.
func textsOf(items []*input.Item) [][]byte {
	texts := make([][]byte, len(items))
	for i, it := range items {
		texts[i] = it.JSON
	}
	return texts
}

// nameOf returns the name of an object.
func nameOf(it *input.Item) lint.ObjectName {
	gvk := runtimeschema.FromAPIVersionAndKind(it.APIVersion(), it.Kind())
	return lint.ObjectName{GroupKind: gvk.GroupKind(), Namespace: it.Namespace(), Name: it.Name()}
}

// lintPolicies lints the policies of the input and adds the findings about them. CRDs that cannot be
// used are reported as CRDs, and policies are linted without them.
func (a *app) lintPolicies(ctx context.Context, in *lintInput, configs []lint.Config, findings map[*input.Item][]analysis.Finding) error {
	if len(in.policies) == 0 {
		return nil
	}
	o := lint.PolicyOptions{
		Configs: configs, Types: typecheck.New(), Builtin: newBuiltinVersions().schema, Objects: in.names, Incomplete: in.filtered,
		Check: func(ctx context.Context, source []byte) []analysis.Finding {
			return builtinChecker().Check(ctx, source, nil, object.Strict)
		},
	}
	o.Definitions = in.compiled
	for _, it := range in.crds {
		if d, err := newDefinition(it, a.semantics.Semantics).base(); err == nil {
			o.Definitions = append(o.Definitions, d)
		}
	}
	found, err := lint.Policies(ctx, textsOf(in.policies), o)
	if err != nil {
		return err
	}
	for i, it := range in.policies {
		findings[it] = found[i]
	}
	return nil
}
