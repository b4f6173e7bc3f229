package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lint"
	"espalier.dev/analysis/object"
	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/api/v1beta1"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

// The rules of findings about the CRDs that a command needs.
const (
	ruleNoDefinitions     = "no-definitions"
	ruleMissingDefinition = "missing-definition"
	ruleSeveral           = "several-definitions"
)

// inputRules describe what can be wrong with the input of any command.
func inputRules() []analysis.Rule {
	return []analysis.Rule{
		{ID: input.Unreadable, Severity: analysis.Error, Summary: "A file cannot be read."},
		{ID: input.Syntax, Severity: analysis.Error, Summary: "A document is neither YAML nor JSON, or no object."},
		{ID: input.Empty, Severity: analysis.Error, Summary: "A directory has no manifests in it."},
		{ID: ruleNoDefinitions, Severity: analysis.Error, Summary: "There is no CustomResourceDefinition where there should be one."},
	}
}

// definitions are the CustomResourceDefinitions that --crd names, by what they
// define.
type definitions struct {
	semantics schema.Semantics
	list      []*definition
	byKind    map[groupKind][]*definition
	// told are the kinds of which it has been said that they have several definitions.
	told map[groupKind]bool
}

type groupKind struct{ group, kind string }

// definition is one CustomResourceDefinition. What it takes to use it is made when an
// object needs it: most of a directory of CRDs is never used.
type definition struct {
	groupKind
	item *input.Item
	// semantics is the one that was asked for.
	semantics schema.Semantics
	// place guards item.Doc, which is not safe for concurrent use.
	place sync.Mutex
	// base is the definition without its schemas as they are written: what it takes to
	// use many definitions should not be in memory several times.
	base func() (*crd.Definition, error)
	// checker checks objects, CEL rules included. pruner is without the rules, which are
	// expensive to compile.
	checker, pruner func() (*object.Checker, error)
}

// isDefinition reports whether an object is a CustomResourceDefinition.
func isDefinition(it *input.Item) bool {
	return api.IsDefinition(it.TypeMeta())
}

// loadDefinitions reads the definitions. Whatever else is in the files is passed
// over.
func (a *app) loadDefinitions(ctx context.Context, flags input.Flags, problem func(input.Problem)) (*definitions, error) {
	if len(flags.Paths) == 0 {
		return nil, errors.New("no definitions: name files or directories with --crd, or - for standard input")
	}
	ds := &definitions{semantics: a.semantics.Semantics, byKind: map[groupKind][]*definition{}, told: map[groupKind]bool{}}
	failed := false
	fail := func(p input.Problem) {
		failed = true
		problem(p)
	}
	type found struct {
		definitions []*definition
		problem     *input.Problem
	}
	work := func(d *input.Document) (f found) {
		var items []*input.Item
		items, f.problem = d.Items()
		for _, it := range items {
			if isDefinition(it) {
				f.definitions = append(f.definitions, newDefinition(it, ds.semantics))
			}
		}
		return f
	}
	emit := func(f found) error {
		if f.problem != nil {
			fail(*f.problem)
		}
		for _, d := range f.definitions {
			ds.list = append(ds.list, d)
			ds.byKind[d.groupKind] = append(ds.byKind[d.groupKind], d)
		}
		return nil
	}
	if err := input.Parallel(ctx, a.stdin, flags, work, emit, fail); err != nil {
		return nil, err
	}
	if len(ds.list) == 0 && !failed {
		problem(input.Problem{Rule: ruleNoDefinitions, File: strings.Join(flags.Paths, ", "), Message: "there is no CustomResourceDefinition in it"})
	}
	return ds, nil
}

func newDefinition(it *input.Item, sem schema.Semantics) *definition {
	d := &definition{item: it, semantics: sem, groupKind: definedKind(it.JSON)}
	d.base = sync.OnceValues(func() (*crd.Definition, error) {
		hub, err := d.hub()
		if err != nil {
			return nil, err
		}
		return crd.New(hub, crd.Options{Semantics: schema.Kubernetes, IgnoreRules: true, Shared: true, Forget: true})
	})
	checker := func(o crd.Options) func() (*object.Checker, error) {
		return sync.OnceValues(func() (*object.Checker, error) {
			base, err := d.base()
			if err != nil {
				return nil, err
			}
			with, err := base.With(o)
			if err != nil {
				return nil, err
			}
			return object.New(with, d.text()), nil
		})
	}
	d.checker = checker(crd.Options{Semantics: sem, Rules: cel.Checker{}})
	d.pruner = checker(crd.Options{Semantics: sem, IgnoreRules: true})
	return d
}

// text lets findings about objects refer to the file of the definition.
func (d *definition) text() object.Options {
	return object.Options{Document: d.item.JSON, Position: func(pointer string) string {
		d.place.Lock()
		span := d.item.Position(pointer)
		d.place.Unlock()
		at := span.Key
		if at.Line == 0 {
			at = span.Value
		}
		return fmt.Sprintf("%s:%d:%d", d.item.File, at.Line, at.Column)
	}}
}

// hub reads the definition. Each call makes another one.
func (d *definition) hub() (*api.CustomResourceDefinition, error) {
	hub, err := codec.DecodeLenient(d.item.JSON)
	if err != nil {
		hub, err = codec.DecodeLenient(d.readable())
	}
	if err == nil {
		crd.PrepareCreate(hub)
	}
	return hub, err
}

// readable is the definition as JSON without what does not count in the semantics that
// was asked for, so that it is no reason not to read it.
func (d *definition) readable() []byte {
	if !d.semantics.KnowsForeignFields() {
		return api.DropForeign(d.item.JSON)
	}
	return d.item.JSON
}

// definedKind reads what a definition defines, without building the rest of it.
func definedKind(src []byte) (gk groupKind) {
	var r jsonx.Reader
	r.Reset(src)
	text := func(into *string) error {
		if r.Peek() != '"' {
			return r.Skip()
		}
		s, err := r.String()
		*into = strings.Clone(s)
		return err
	}
	// What is wrong with the rest is told when the definition is used.
	_ = members(&r, func(key string) error {
		if key != "spec" {
			return r.Skip()
		}
		return members(&r, func(key string) error {
			switch key {
			case "group":
				return text(&gk.group)
			case "names":
				return members(&r, func(key string) error {
					if key != "kind" {
						return r.Skip()
					}
					return text(&gk.kind)
				})
			}
			return r.Skip()
		})
	})
	return gk
}

// members visits the members of the object that is next; visit reads the value. Any
// other value is skipped.
func members(r *jsonx.Reader, visit func(key string) error) error {
	if r.Peek() != '{' {
		return r.Skip()
	}
	return r.Members(visit)
}

// rejected reports whether a server would not take the definition.
func (d *definition) refused(ctx context.Context) bool {
	options := crd.Options{Semantics: d.semantics, Rules: cel.Checker{}}
	if d.isV1beta1() {
		var old v1beta1.CustomResourceDefinition
		if api.Unmarshal(d.readable(), &old) != nil {
			return true
		}
		v1beta1.SetDefaults(&old)
		return len(crd.ValidateCreateV1beta1(ctx, &old, options).Errors) > 0
	}
	hub, err := d.hub()
	return err != nil || len(crd.ValidateCreate(ctx, hub, options).Errors) > 0
}

func (d *definition) isV1beta1() bool {
	return d.item.APIVersion() == api.GroupName+"/v1beta1"
}

// findings are the reasons for which a server would not take the definition.
func (d *definition) findings(ctx context.Context) ([]analysis.Finding, error) {
	all, err := lint.Run(ctx, [][]byte{d.item.JSON}, lint.Options{Semantics: d.semantics, Rules: cel.Checker{}})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all[0], func(f analysis.Finding) bool { return f.Severity != analysis.Error }), nil
}

// lookup finds the definition of an object: of several that define the kind, the
// first that serves the version. The error says what there is instead.
func (ds *definitions) lookup(it *input.Item) (*definition, error) {
	group, version, ok := strings.Cut(it.APIVersion(), "/")
	if !ok {
		group, version = "", it.APIVersion()
	}
	candidates := ds.byKind[groupKind{group, it.Kind()}]
	for _, d := range candidates {
		if d.serves(version) {
			return d, nil
		}
	}
	switch {
	case it.Kind() == "" || it.APIVersion() == "":
		return nil, errors.New("it does not say its apiVersion and kind")
	case len(candidates) > 0:
		base, _ := candidates[0].base()
		var served []string
		for _, v := range base.Versions() {
			if v.Served() {
				served = append(served, v.Name())
			}
		}
		return nil, fmt.Errorf("version %q of %s is not served: the definition in %s serves %s", version, it.Kind(), candidates[0].item.File, strings.Join(served, ", "))
	}
	return nil, fmt.Errorf("no CustomResourceDefinition that was given defines %s of %s", it.Kind(), it.APIVersion())
}

// reportOthers says, once for each kind, which definitions there are beside one that
// is used. It is not safe for concurrent use.
func (ds *definitions) reportOthers(r *report.Reporter, used *definition) {
	if ds.told[used.groupKind] {
		return
	}
	ds.told[used.groupKind] = true
	for _, d := range ds.byKind[used.groupKind] {
		if d == used {
			continue
		}
		used.place.Lock()
		at := report.At(used.item, analysis.Finding{})
		used.place.Unlock()
		d.place.Lock()
		r.Report(d.item, analysis.Finding{
			Rule: ruleSeveral, Severity: analysis.Info, Path: "spec.names.kind", Pointer: "/spec/names/kind",
			Message: fmt.Sprintf("%s of %s is also defined in %s, line %d: for each object the first definition that serves its version counts", d.kind, d.group, at.File, at.Span.Line),
		})
		d.place.Unlock()
	}
}

// serves reports whether a version is served. One that cannot be read may well be: why
// it cannot is told to whoever uses it.
func (d *definition) serves(version string) bool {
	base, err := d.base()
	if err != nil {
		return true
	}
	v := base.Version(version)
	return v != nil && v.Served()
}
