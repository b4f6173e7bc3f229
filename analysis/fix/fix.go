package fix

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	kjson "sigs.k8s.io/json"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lint"
	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/api/v1beta1"
	"espalier.dev/crd"
	"espalier.dev/internal/jsonptr"
	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

// Options configures Definition.
type Options struct {
	// Semantics is the schema semantics to apply.
	Semantics schema.Semantics
	// Rules checks x-kubernetes-validations. If it is nil, rules are not checked, and
	// defaults are not validated against them.
	Rules crd.RuleChecker
	// Prune enables pruning in CRDs that do not prune yet.
	Prune bool
	// Configs enable and disable rules of package lint. Disabled rules fix nothing.
	Configs []lint.Config
	// Ignore reports whether a finding of package lint is left as it is and not reported. The
	// pointer of the finding refers to the old document. Nil ignores none.
	Ignore func(analysis.Finding) bool
}

// Result is the result of rewriting a CRD.
type Result struct {
	// Edits turn the old document into the new one when applied in order. Their pointers
	// are relative to the CRD.
	Edits []analysis.Edit
	// JSON is the new document.
	JSON []byte
	// Notes are the findings that need manual work: remaining errors, conditions that v1
	// cannot express (warnings), and information about the new document. Their pointers
	// refer to the new document.
	Notes []analysis.Finding

	editor *editor
}

// Origin returns the pointer in the old document for a pointer into the new one, as far as
// the value existed there.
func (r *Result) Origin(pointer string) string { return r.editor.origin(pointer) }

// Left reports whether manual work remains.
func (r *Result) Left() bool {
	return slices.ContainsFunc(r.Notes, func(f analysis.Finding) bool { return f.Severity != analysis.Info })
}

// Definition rewrites a CRD, given as JSON in v1 or v1beta1. It returns an error if the CRD
// cannot be read.
func Definition(ctx context.Context, raw []byte, o Options) (*Result, error) {
	e := &editor{}
	_, err := codec.DecodeLenient(raw)
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(raw, &e.tree)
	}
	f := &fixer{Options: o, editor: e}
	if err == nil {
		err = f.run(ctx)
	}
	if err != nil {
		return nil, err
	}
	analysis.Sort(f.notes)
	return &Result{Edits: e.edits, JSON: encode(e.tree), Notes: f.notes, editor: e}, nil
}

// encode returns a tree as JSON. It was decoded from JSON, so it has no values that JSON cannot express.
func encode(tree any) []byte {
	data, _ := json.Marshal(tree)
	return data
}

// fixer is the state of rewriting one CRD.
type fixer struct {
	Options
	*editor
	notes []analysis.Finding
}

func (f *fixer) run(ctx context.Context) error {
	if err := f.respell(ctx); err != nil {
		return err
	}
	version, _ := f.at("apiVersion")
	beta := version == v1beta1.APIVersion
	keptAll := f.unknownFields(beta)
	if beta {
		found := f.toV1()
		for _, c := range found {
			f.add(conflicting, analysis.Error, c.at, c.message)
		}
		if len(found) > 0 {
			return nil
		}
		f.addSchemas(keptAll)
	}
	if keptAll && f.object("spec") != nil {
		// A CRD that was created with v1beta1 has true in the cluster, and kubectl apply keeps
		// fields that a manifest does not have: the schemas would have no effect.
		f.set(false, "spec", preserveField)
	}
	f.rewriteSchemas(keptAll && !f.Prune)
	err := f.err
	return errors.Join(err, f.applyFixes(ctx))
}

// respell replaces superseded spellings first, because the later steps do not understand
// them.
func (f *fixer) respell(ctx context.Context) error {
	found, err := f.lint(ctx)
	if err != nil {
		return err
	}
	for _, finding := range slices.Backward(found) {
		if finding.Fix == nil || finding.Rule != "superseded-spelling" || f.ignores(finding) {
			continue
		}
		at := jsonptr.Split(finding.Pointer)
		around := at[:len(at)-1]
		v, _ := f.at(at...)
		f.apply(finding.Fix)
		// Pruning can resume only at an object.
		if s := f.object(around...); v == false && s["properties"] != nil {
			if typ, _ := statedType(s); typ == "" && s[preserve] == nil {
				f.set("object", below(around, "type")...)
			}
		}
	}
	return nil
}

// unknownFields reports whether the CRD preserves all unknown fields, and removes superseded
// fields that set this for the whole CRD.
func (f *fixer) unknownFields(beta bool) (keptAll bool) {
	keptAll = beta
	for _, k := range []string{"prune", "preserveUnknownProperties", preserveField} {
		v, ok := f.object("spec")[k].(bool)
		if !ok {
			continue
		}
		keptAll = v != (k == "prune")
		if keptAll && k != preserveField {
			f.remove("spec", k)
		}
	}
	return keptAll
}

// preserveField is the field that preserves the unknown fields of all versions.
const preserveField = "preserveUnknownFields"

// addSchemas adds a schema to each version without one, because v1 requires it. The new
// schema accepts the same objects.
func (f *fixer) addSchemas(keptAll bool) {
	for i := range f.list("spec", "versions") {
		at := []string{"spec", "versions", strconv.Itoa(i)}
		if f.object(at...) == nil || f.object(below(at, "schema", "openAPIV3Schema")...) != nil {
			continue
		}
		s := node{"type": "object"}
		if keptAll {
			s[preserve] = true
		}
		f.set(map[string]any{"openAPIV3Schema": s}, below(at, "schema")...)
	}
}

// rewriteSchemas makes the schema of each version structural.
func (f *fixer) rewriteSchemas(keepAll bool) {
	kept := false
	for i := range f.list("spec", "versions") {
		at := []string{"spec", "versions", strconv.Itoa(i), "schema", "openAPIV3Schema"}
		old := f.object(at...)
		if old == nil || !keepAll && f.structural(old) {
			continue
		}
		s := jsonx.CopyObject(old)
		r := &rewriter{sem: f.Semantics, keepAll: keepAll, note: f.noteSchema}
		r.root(s, at)
		before := len(f.edits)
		f.become(s, at...)
		kept = kept || keepAll && len(f.edits) > before
	}
	if kept {
		f.add(unknownKept, analysis.Info, []string{"spec"},
			"unknown fields were preserved and still are: every object has x-kubernetes-preserve-unknown-fields",
			"Kubernetes recommends pruning: use --prune to enable it; it drops all fields that the schema does not specify")
	}
}

// structural reports whether a schema is structural and has everything that v1 requires.
func (f *fixer) structural(s node) bool {
	var props api.JSONSchemaProps
	unreadable := api.Unmarshal(encode(s), &props)
	structural, err := schema.NewStructural(&props)
	return unreadable == nil && err == nil && !props.Nullable && !hasLooseSets(s) &&
		!slices.ContainsFunc(schema.Check(structural, f.Semantics), func(x schema.Finding) bool {
			return x.Refused && x.Kind != schema.PatternInvalid
		})
}

// applyFixes applies the fixes of package lint, and adds the remaining errors to the notes.
func (f *fixer) applyFixes(ctx context.Context) error {
	// A fix may reveal further findings. The number of rounds is limited.
	for rounds := 7; ; rounds-- {
		found, err := f.lint(ctx)
		if err != nil {
			return err
		}
		found = slices.DeleteFunc(found, f.ignores)
		applied := false
		for _, finding := range slices.Backward(found) {
			if finding.Fix != nil && rounds > 0 {
				applied = f.apply(finding.Fix) || applied
			}
		}
		if applied {
			continue
		}
		for _, finding := range found {
			if finding.Severity == analysis.Error {
				finding.Fix = nil
				f.notes = append(f.notes, finding)
			}
		}
		return nil
	}
}

// ignores reports whether a finding of package lint is ignored.
func (f *fixer) ignores(found analysis.Finding) bool {
	if f.Ignore == nil {
		return false
	}
	found.Pointer = f.origin(found.Pointer)
	return f.Ignore(found)
}

// lint returns the findings of package lint for the current document.
func (f *fixer) lint(ctx context.Context) ([]analysis.Finding, error) {
	found, err := lint.Run(ctx, [][]byte{encode(f.tree)}, lint.Options{Semantics: f.Semantics, Rules: f.Rules, Configs: f.Configs})
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// apply applies all edits of a fix, or none.
func (f *fixer) apply(fix *analysis.Fix) bool {
	tree, edits, moved := f.tree, len(f.edits), len(f.moved)
	f.tree = jsonx.Copy(tree)
	for _, e := range fix.Edits {
		f.do(e)
	}
	if f.err != nil {
		f.tree, f.edits, f.moved, f.err = tree, f.edits[:edits], f.moved[:moved], nil
		return false
	}
	return true
}
