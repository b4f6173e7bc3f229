package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"weak"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lint"
	"espalier.dev/analysis/lookup"
	"espalier.dev/analysis/object"
	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/api/v1beta1"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	kindscel "espalier.dev/kinds/cel"
	"espalier.dev/schema"
)

// definitions are the CRDs in which objects are looked up.
type definitions struct {
	*lookup.Index[*definition]
	semantics schema.Semantics
	// told holds the kinds whose additional CRDs have been reported.
	told map[runtimeschema.GroupKind]bool
}

// definition is a CRD. It is compiled when the first object needs it, because most CRDs of
// a directory are never used.
type definition struct {
	kind runtimeschema.GroupKind
	// file is the file of the CRD, and sum a checksum of its text.
	file string
	sum  input.Sum
	// kept is the CRD or, if it can be read again from its place, nil. read is what was read
	// last, until it is garbage: few CRDs of a directory are used, and those only to compile
	// them and for findings.
	kept  *input.Item
	place input.Place
	// once is the text of a CRD that is not kept, to compile it without reading it again, until it is decoded
	// for the first time. It is nil if there is no room.
	once atomic.Pointer[[]byte]
	read weak.Pointer[input.Item]
	// reading guards read, and unread is set if the CRD could not be read again. lost is called then,
	// unless it is nil.
	reading sync.Mutex
	unread  atomic.Bool
	lost    func()
	// semantics is the value of --semantics.
	semantics schema.Semantics
	// using guards the documents of items, which are not safe for concurrent use.
	using sync.Mutex
	// base is compiled without CEL rules and shared by checker and pruner, to save memory.
	base func() (*crd.Definition, error)
	// checker includes CEL rules. pruner omits them, because they are expensive to
	// compile.
	checker, pruner func() (*object.Checker, error)
	// judged is whether the API server would reject the CRD, if that is known, and judging guards it.
	judging sync.Mutex
	judged  *bool
	// shape is a checksum of what decides about objects, to compare CRDs.
	shape func() [sha256.Size]byte
	// served returns the served versions, without decoding the CRD.
	served func() []servedVersion
	// admitted is the Definition for admission policies.
	admitted func() (*crd.Definition, error)
}

// Defines, Base and Place implement [lookup.Definition].
func (d *definition) Defines() runtimeschema.GroupKind { return d.kind }

// Base returns the CRD without its CEL rules.
func (d *definition) Base() (*crd.Definition, error) { return d.base() }

// Place returns the file.
func (d *definition) Place() string { return d.file }

// builtinChecker returns the checker for objects of Kubernetes' own kinds.
var builtinChecker = sync.OnceValue(func() *object.KindChecker { return object.ForKinds(kindscel.New()) })

// isDefinition reports whether an object is a CRD.
func isDefinition(it *input.Item) bool {
	return api.IsDefinition(it.TypeMeta())
}

// loadDefinitionsFor reads the CRDs that crds names, if any, and prepares to look ahead for
// those among the objects when an object needs one. more returns further CRDs, for kinds that
// none of these defines; it may be nil. ahead must be closed after the objects have been read.
func (a *app) loadDefinitionsFor(ctx context.Context, crds, objects input.Flags, ahead *input.Ahead,
	more func() ([]*definition, error), problem func(input.Problem)) (ds *definitions, err error) {
	ds = a.noDefinitions()
	if len(crds.Paths) > 0 {
		if ds, err = a.index(ctx, crds, problem); err != nil {
			return nil, err
		}
	}
	ds.Extend(func() ([]*definition, error) {
		// Problems are reported when the objects are read.
		found, err := a.index(ctx, ahead.Definitions(objects), func(input.Problem) {})
		if err != nil {
			return nil, err
		}
		if more == nil {
			return found.All(), nil
		}
		others, err := more()
		if err != nil {
			return nil, err
		}
		others = slices.DeleteFunc(others, func(d *definition) bool { return len(found.Of(d.kind)) > 0 })
		return append(found.All(), others...), nil
	})
	return ds, nil
}

// loadDefinitions reads CRDs and skips other objects.
func (a *app) loadDefinitions(ctx context.Context, flags input.Flags, problem func(input.Problem)) (*definitions, error) {
	return a.indexDefinitions(ctx, flags, newDefinition, problem)
}

// maxOnce is the size of the texts of CRDs in an index that are in memory until they are used.
const maxOnce = 16 << 20

// index is like loadDefinitions, but keeps at most maxOnce bytes of the text of CRDs that can be read again.
func (a *app) index(ctx context.Context, flags input.Flags, problem func(input.Problem)) (*definitions, error) {
	flags.Transient = true
	var once atomic.Int64
	add := func(it *input.Item, sem schema.Semantics) *definition {
		d := newIndexEntry(it, sem)
		if it.Transient() && once.Add(int64(len(it.JSON))) <= maxOnce {
			text := bytes.Clone(it.JSON)
			d.once.Store(&text)
		}
		return d
	}
	return a.indexDefinitions(ctx, flags, add, problem)
}

// indexDefinitions is like loadDefinitions. add returns the definition of a CRD.
func (a *app) indexDefinitions(ctx context.Context, flags input.Flags,
	add func(*input.Item, schema.Semantics) *definition, problem func(input.Problem)) (*definitions, error) {
	if len(flags.Paths) == 0 {
		return nil, errors.New("--crd is required: a file or directory with CRDs, or - for standard input")
	}
	ds := a.noDefinitions()
	failed := false
	fail := func(p input.Problem) {
		failed = true
		problem(p)
	}
	type found struct {
		definitions []*definition
		misspelled  []input.Problem
		problem     *input.Problem
		bytes       int64
	}
	expected := a.expecting()
	work := func(d *input.Document) (f found) {
		var items []*input.Item
		items, f.problem = d.Items()
		for _, it := range items {
			if isDefinition(it) {
				f.bytes += int64(len(it.JSON))
				f.definitions = append(f.definitions, add(it, ds.semantics))
			} else if p := misspelledProblem(it); p != nil {
				f.misspelled = append(f.misspelled, *p)
			}
		}
		return f
	}
	emit := func(f found) error {
		if f.problem != nil {
			fail(*f.problem)
		}
		for _, p := range f.misspelled {
			fail(p)
		}
		for _, d := range f.definitions {
			ds.Add(d)
		}
		expected.add(f.bytes)
		return nil
	}
	if err := input.Parallel(ctx, a.stdin, flags, work, emit, fail); err != nil {
		return nil, err
	}
	expected.flush()
	if len(ds.All()) == 0 && !failed {
		problem(input.Problem{Rule: ruleNoDefinitions, File: strings.Join(flags.Paths, ", "), Message: "no CRD found"})
	}
	return ds, nil
}

// expectedBytes are the sizes of CRDs that the process is not prepared for yet. To prepare it for each of
// them would take longer than to read it.
type expectedBytes struct {
	prepare func(bytes int64)
	bytes   int64
}

const manyExpectedBytes = 1 << 20

func (a *app) expecting() *expectedBytes { return &expectedBytes{prepare: a.expect} }

func (e *expectedBytes) add(bytes int64) {
	if e.bytes += bytes; e.bytes >= manyExpectedBytes {
		e.flush()
	}
}

func (e *expectedBytes) flush() {
	if e.prepare != nil && e.bytes > 0 {
		e.prepare(e.bytes)
	}
	e.bytes = 0
}

// noDefinitions returns an empty set.
func (a *app) noDefinitions() *definitions {
	return &definitions{Index: lookup.New[*definition](), semantics: a.semantics.Semantics, told: map[runtimeschema.GroupKind]bool{}}
}

// newIndexEntry returns a definition that does not keep the text of the CRD, if that can be read
// again.
func newIndexEntry(it *input.Item, sem schema.Semantics) *definition {
	d := newDefinition(it, sem)
	if place, ok := it.Place(d.sum); ok {
		d.kept, d.place = nil, place
		if !it.Transient() {
			d.read = weak.Make(it)
		}
	}
	return d
}

func newDefinition(it *input.Item, sem schema.Semantics) *definition {
	d := &definition{file: it.File, sum: it.Sum(), kept: it, semantics: sem, kind: lookup.Defined(it.JSON)}
	d.base, d.shape = sync.OnceValues(d.newBase), sync.OnceValue(d.newShape)
	d.served = sync.OnceValue(func() []servedVersion { return servedVersions(d.item().JSON) })
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
	d.admitted = sync.OnceValues(func() (*crd.Definition, error) {
		base, err := d.base()
		if err != nil {
			return nil, err
		}
		return base.With(crd.Options{Semantics: sem, IgnoreRules: true})
	})
	return d
}

// newBase returns the Definition of the CRD. Its schemas are read when they are needed, and not
// kept.
func (d *definition) newBase() (*crd.Definition, error) {
	first, err := d.hub()
	if err != nil {
		return nil, err
	}
	head := *first
	addPatchedConversion(&head, d.bare)
	head.Spec.Versions = slices.Clone(first.Spec.Versions)
	for i := range head.Spec.Versions {
		head.Spec.Versions[i].Schema = nil
	}
	base := crd.Lazy(&head, func() (*api.CustomResourceDefinition, error) {
		if hub := first; hub != nil {
			first = nil
			return hub, nil
		}
		return d.hub()
	}, crd.Options{Semantics: schema.Kubernetes, IgnoreRules: true})
	return base, base.Load()
}

// addPatchedConversion gives a CRD the conversion webhook that a kustomization adds to it, if it has
// several versions and no webhook of its own. Its address does not matter: nobody calls it.
func addPatchedConversion(hub *api.CustomResourceDefinition, item func() *input.Item) {
	c := hub.Spec.Conversion
	if len(hub.Spec.Versions) < 2 || c != nil && c.Strategy != api.NoneConverter || !item().ConvertedByPatch() {
		return
	}
	hub.Spec.Conversion = &api.CustomResourceConversion{Strategy: api.WebhookConverter, Webhook: &api.WebhookConversion{
		ClientConfig:             &api.WebhookClientConfig{Service: &api.ServiceReference{Namespace: "system", Name: "webhook-service"}},
		ConversionReviewVersions: []string{"v1"},
	}}
	api.SetDefaults(hub)
}

// load returns the CRD, and reads it again if it is not in memory.
func (d *definition) load() (*input.Item, error) {
	if d.kept != nil {
		return d.kept, nil
	}
	d.reading.Lock()
	defer d.reading.Unlock()
	if it := d.read.Value(); it != nil {
		return it, nil
	}
	it, err := d.place.Read()
	if err == nil {
		d.read = weak.Make(it)
	} else {
		d.unread.Store(true)
		if d.lost != nil {
			d.lost()
		}
	}
	return it, err
}

// item returns the CRD. If its file has changed, it has nothing but its identity: the error of
// load is reported by those who use the CRD.
func (d *definition) item() *input.Item {
	it, err := d.load()
	if err != nil {
		return d.bare()
	}
	return it
}

// bare returns the CRD, possibly without its text.
func (d *definition) bare() *input.Item {
	if d.kept != nil {
		return d.kept
	}
	return d.place.Missing()
}

// text returns options that let findings about objects refer to positions in the CRD's file.
func (d *definition) text() object.Options {
	return object.Options{Document: func() []byte { return d.item().JSON }, Locate: func(pointer string) analysis.Location {
		it := d.item()
		d.using.Lock()
		defer d.using.Unlock()
		return report.LocationOf(it, pointer)
	}}
}

// hub decodes the CRD. Each call returns a new value.
func (d *definition) hub() (*api.CustomResourceDefinition, error) {
	text := d.once.Swap(nil)
	if text == nil {
		it, err := d.load()
		if err != nil {
			return nil, err
		}
		text = &it.JSON
	}
	hub, err := decodeCRD(*text, d.semantics)
	if err == nil {
		crd.PrepareCreate(hub)
	}
	return hub, err
}

// decodeCRD decodes a CRD. Fields that the semantics ignores may fail to decode.
func decodeCRD(text []byte, sem schema.Semantics) (*api.CustomResourceDefinition, error) {
	hub, err := codec.DecodeLenient(text)
	if err != nil && !sem.KnowsForeignFields() {
		hub, err = codec.DecodeLenient(api.DropMalformedForeign(text))
	}
	return hub, err
}

// compile returns the Definition of the CRD. Each call returns a new one.
func (d *definition) compile(o crd.Options) (*crd.Definition, error) {
	hub, err := d.hub()
	if err != nil {
		return nil, err
	}
	return crd.New(hub, o)
}

// readable returns the CRD as JSON, without fields that the semantics ignores and that
// might fail to decode.
func (d *definition) readable() []byte {
	if !d.semantics.KnowsForeignFields() {
		return api.DropMalformedForeign(d.item().JSON)
	}
	return d.item().JSON
}

// rejected reports whether the API server would reject the CRD. It remembers the answer.
func (d *definition) rejected(ctx context.Context) bool {
	d.judging.Lock()
	defer d.judging.Unlock()
	if d.judged == nil {
		rejected := d.isRejected(ctx)
		if ctx.Err() != nil {
			return rejected // the check may not be complete
		}
		d.judged = &rejected
	}
	return *d.judged
}

func (d *definition) isRejected(ctx context.Context) bool {
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

// identity returns the identity of the CRD.
func (d *definition) identity() input.Identity {
	if d.kept != nil {
		return d.kept.Identity()
	}
	return d.place.Identity()
}

func (d *definition) isV1beta1() bool {
	return d.identity().APIVersion == api.GroupName+"/v1beta1"
}

// findings returns the reasons why the API server would reject the CRD.
func (d *definition) findings(ctx context.Context) ([]analysis.Finding, error) {
	all, err := lint.Run(ctx, [][]byte{d.item().JSON}, lint.Options{Semantics: d.semantics, Rules: cel.Checker{}})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all[0], func(f analysis.Finding) bool { return f.Severity != analysis.Error }), nil
}

// misspelledProblem returns the problem with an object that is probably meant to be a CRD, or
// nil.
func misspelledProblem(it *input.Item) *input.Problem {
	e := lookup.Misspelled(it)
	if e == nil {
		return nil
	}
	at := it.Position("/" + e.Field).Value
	if at.Line == 0 {
		at = it.Position("").Value
	}
	return &input.Problem{Rule: ruleMisspelled, File: it.File, Line: at.Line, Column: at.Column, Message: e.Message,
		Source: input.ExcerptAt(it.Doc, at), Object: it.Identity()}
}
