// Package compliance inspects stored objects: it reports what of an object does not comply
// with its CRD, which may have changed since the object was written.
//
// Objects that do not comply can be read, changed and deleted, so nothing tells their owners.
// An [Inspector] finds the fields that are stored but not specified, and therefore not served,
// values that are no longer valid or contradict a type, and objects that are stored in another
// version than the storage version. [Inspector.Revealed] finds stored fields that another state
// of the CRD would serve again. The package does no I/O.
package compliance

import (
	"context"
	"fmt"
	"slices"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

// Kind is the kind of a Problem.
type Kind uint8

// The kinds of problems. An object can have problems of several kinds.
const (
	// Unspecified is a field that the schema does not specify: it is stored, but not served,
	// and the next write of the object removes it.
	Unspecified Kind = iota
	// Contradiction is a value that does not have the type that the schema requires.
	Contradiction
	// Invalid is a value that is not valid for another reason.
	Invalid
	// Malformed is a part of the stored text that is dropped when the object is read: a null
	// that is not allowed, a member that is repeated, or malformed metadata.
	Malformed
	// OtherVersion is an object that is stored in another version than the storage version.
	OtherVersion
	// Unreadable is a stored value that cannot be read.
	Unreadable

	kinds
)

// String returns the name of the kind, in lower camel case.
func (k Kind) String() string {
	return [kinds]string{"unspecified", "contradiction", "invalid", "malformed", "otherVersion", "unreadable"}[k]
}

// Kinds returns all kinds in their order.
func Kinds() []Kind {
	all := make([]Kind, kinds)
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

// KindSet is a set of kinds.
type KindSet uint8

// Has reports whether the set has a kind.
func (s KindSet) Has(k Kind) bool { return s&(KindSet(1)<<k) != 0 }

// Problem is a part of a stored object that does not comply with the CRD.
type Problem struct {
	Kind Kind
	// Path is empty if the object as a whole is the problem. It is a path in the stored object,
	// except that a missing field has the path where it is required.
	Path schema.Path
	// Version is the version whose schema decides. It is the version in which the object is
	// stored, or the storage version.
	Version *crd.Version
	// Schema is the schema that decides, if there is one.
	Schema schema.NodeRef
	// Message is one sentence, without the path.
	Message string
	// Violation is the kind of the violation, and Rule its CEL rule, if the kind is Contradiction
	// or Invalid. Summary is then the message without the value.
	Violation schema.ViolationKind
	Rule      string
	Summary   string
}

// Report is the result of inspecting one object.
type Report struct {
	// Version is the version in which the object is stored. It is empty if the object cannot
	// be read.
	Version string
	// Problems are in the order of their kinds, then of their paths. An object that complies
	// has none.
	Problems []Problem
	// Truncated is true if there were more problems than are listed.
	Truncated bool
	// Object is the object as it would be stored if it were written again, in the storage
	// version, or in its own if a webhook converts between them. It is nil if the object
	// cannot be read.
	Object schema.Object
}

// Kinds returns the kinds of the problems.
func (r *Report) Kinds() (set KindSet) {
	for i := range r.Problems {
		set |= KindSet(1) << r.Problems[i].Kind
	}
	return set
}

// Has reports whether the object has a problem of a kind.
func (r *Report) Has(k Kind) bool { return r.Kinds().Has(k) }

// Inspector inspects the stored objects of one CRD. It is safe for concurrent use.
type Inspector struct {
	definition *crd.Definition
	// relabels is set if objects are converted by changing their apiVersion.
	relabels bool
}

// New returns an Inspector. The definition determines the semantics, and whether CEL rules are
// evaluated.
func New(definition *crd.Definition) *Inspector {
	conversion := definition.CRD().Spec.Conversion
	return &Inspector{definition: definition, relabels: conversion == nil || conversion.Strategy == api.NoneConverter}
}

// Definition returns the CRD of the objects.
func (i *Inspector) Definition() *crd.Definition { return i.definition }

// Inspect inspects a stored object, which is JSON. The error is not about the object: ctx has
// ended, or a schema of the CRD cannot be compiled.
func (i *Inspector) Inspect(ctx context.Context, stored []byte) (Report, error) {
	read, err := i.read(stored)
	if err != nil {
		return Report{}, err
	}
	if read.failure != nil {
		return Report{Problems: []Problem{{Kind: Unreadable, Message: read.failure.Error()}}}, nil
	}
	report := Report{Version: read.name, Object: read.object, Truncated: read.truncated}
	all := byKind{}
	all.addChanges(read.changes)
	version := read.version
	if to := i.definition.Storage(); to.Name() != read.name {
		all.add(Problem{Kind: OtherVersion, Version: to, Message: otherVersionMessage(read, to)})
	}
	violations, err := version.Validate(schema.Exhaustive(ctx), read.object, nil)
	if err != nil {
		return Report{}, err
	}
	if err := ctx.Err(); err != nil {
		// Rules that were interrupted are violations of nothing.
		return Report{}, err
	}
	if all.addViolations(version, violations) {
		report.Truncated = true
	}
	report.Problems = all.list()
	return report, nil
}

// Revealed returns the fields of a stored object that are not served, because the schema does
// not specify them, and that would be served if the CRD were replaced with next. The paths are
// sorted. The error is not about the object.
func (i *Inspector) Revealed(next *Inspector, stored []byte) ([]schema.Path, error) {
	before, err := i.read(stored)
	if err != nil || before.failure != nil {
		return nil, err
	}
	var hidden []schema.Path
	for _, c := range before.changes {
		if c.change.Kind == schema.Pruned {
			hidden = append(hidden, c.change.Path)
		}
	}
	if len(hidden) == 0 {
		return nil, nil
	}
	after, err := next.read(stored)
	if err != nil || after.failure != nil {
		return nil, err
	}
	old, err := i.views(before, stored)
	if err != nil {
		return nil, err
	}
	served, err := next.views(after, stored)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(hidden, func(path schema.Path) bool { return !served.reveal(path, old) }), nil
}

// views are a stored object as versions of the CRD return it, by their names.
type views map[string]schema.Object

// reveal reports whether a version returns a field that it did not return before. A new version
// reveals what no version returned.
func (v views) reveal(path schema.Path, before views) bool {
	for name, object := range v {
		if _, found := path.Find(object); !found {
			continue
		}
		same, known := before[name]
		if _, found := path.Find(same); known && !found || !before.have(path) {
			return true
		}
	}
	return false
}

func (v views) have(path schema.Path) bool {
	for _, object := range v {
		if _, found := path.Find(object); found {
			return true
		}
	}
	return false
}

// views returns a stored object as the storage version and each served version return it. If a
// webhook converts objects, it has only the version in which the object is stored.
func (i *Inspector) views(r *reading, stored []byte) (views, error) {
	all := views{r.version.Name(): r.object}
	if !i.relabels {
		return all, nil
	}
	for _, v := range i.definition.Versions() {
		if v.Storage() || !v.Served() {
			continue
		}
		object, _, err := r.program.Decode(stored, schema.DecodeOptions{FromStorage: true})
		if err != nil {
			return nil, err
		}
		if v != r.own {
			to, err := v.Program()
			if err != nil {
				return nil, err
			}
			if _, err := to.Normalize(object, schema.DecodeOptions{FromStorage: true, WithoutDefaults: true}); err != nil {
				continue
			}
		}
		all[v.Name()] = object
	}
	return all, nil
}

// reading is a stored object as it is read.
type reading struct {
	// failure is why the object cannot be read.
	failure error
	// name is the version in which the object is stored, version the one in which object is.
	name    string
	version *crd.Version
	// own is the version with whose schema it is decoded, and program the program of that.
	own     *crd.Version
	program *schema.Program
	object  schema.Object
	changes []changed
	// truncated is set if there were more changes than are listed.
	truncated bool
}

// changed is a change with the version whose schema caused it.
type changed struct {
	change  schema.Change
	version *crd.Version
}

// read reads a stored object as the server does: with the schema of the version in which it is
// stored, then with that of the storage version. The error is about the CRD.
func (i *Inspector) read(stored []byte) (*reading, error) {
	storage := i.definition.Storage()
	if storage == nil {
		return nil, fmt.Errorf("the CRD %s has no storage version", i.definition.Name())
	}
	r := &reading{own: storage, version: storage}
	if id, err := api.Identify(stored); err == nil {
		gv, err := runtimeschema.ParseGroupVersion(id.APIVersion)
		if err == nil && gv.Group == i.definition.Group() {
			r.name = gv.Version
			if v := i.definition.Version(gv.Version); v != nil {
				r.own, r.version = v, v
			}
		}
	}
	program, err := r.own.Program()
	if err != nil {
		return nil, err
	}
	r.program = program
	// Most objects are normal, and a report is expensive. Members that are repeated are normal
	// for the program, but not canonical.
	report := !program.IsNormal(stored) || !jsonx.IsCanonical(stored)
	object, changes, err := program.Decode(stored, schema.DecodeOptions{FromStorage: true, Report: report})
	if err != nil {
		r.failure = err
		return r, nil
	}
	r.object = object
	r.add(changes)
	if !i.relabels {
		return r, nil
	}
	r.object["apiVersion"] = storage.GroupVersionKind().GroupVersion().String()
	if r.version == storage {
		return r, nil
	}
	to, err := storage.Program()
	if err != nil {
		return nil, err
	}
	r.version = storage
	changes, err = to.Normalize(r.object, schema.DecodeOptions{FromStorage: true, WithoutDefaults: true, Report: true})
	if err != nil {
		r.failure = err
		return r, nil
	}
	r.add(changes)
	return r, nil
}

func (r *reading) add(report *schema.Report) {
	if report == nil {
		return
	}
	r.truncated = r.truncated || report.Truncated
	for _, c := range report.Changes {
		if c.Kind != schema.Defaulted {
			r.changes = append(r.changes, changed{c, r.version})
		}
	}
}

func otherVersionMessage(r *reading, storage *crd.Version) string {
	switch {
	case r.name == "":
		return fmt.Sprintf("the stored apiVersion is not of this CRD; objects are stored in version %s", storage.Name())
	case storage.Definition().Version(r.name) == nil:
		return fmt.Sprintf("stored in version %s, which the CRD does not have; it is read as version %s", r.name, storage.Name())
	}
	return fmt.Sprintf("stored in version %s; the storage version is %s", r.name, storage.Name())
}

// byKind collects problems.
type byKind [kinds][]Problem

func (b *byKind) add(p Problem) { b[p.Kind] = append(b[p.Kind], p) }

func (b *byKind) addChanges(changes []changed) {
	for _, c := range changes {
		p := Problem{Kind: Malformed, Path: c.change.Path, Version: c.version, Schema: c.change.Schema}
		switch c.change.Kind {
		case schema.Pruned:
			p.Kind = Unspecified
			p.Message = fmt.Sprintf("version %s does not specify this field", c.version.Name())
		case schema.NullDropped:
			p.Message = fmt.Sprintf("version %s does not allow null here", c.version.Name())
		case schema.Duplicate:
			p.Message = "this field is stored more than once; the last one is used"
		case schema.MetadataDropped:
			p.Message = "this part of the metadata is malformed"
		}
		b.add(p)
	}
}

// maxViolations is the maximum number of problems of each kind that violations cause. A large
// array can have a violation in each item, and a problem needs much more memory than an item.
const maxViolations = 10_000

// addViolations reports whether there were too many.
func (b *byKind) addViolations(v *crd.Version, violations schema.Violations) (truncated bool) {
	for i := range violations {
		violation := &violations[i]
		p := Problem{Kind: Invalid, Path: violation.Path, Version: v, Schema: violation.Schema,
			Violation: violation.Kind, Rule: violation.Want.Rule}
		switch violation.Kind {
		case schema.RulesSkipped:
			continue // not a problem of its own
		case schema.WrongType, schema.NotAnObject:
			p.Kind = Contradiction
		}
		if len(b[p.Kind]) >= maxViolations {
			truncated = true
			continue
		}
		for _, e := range violations[i : i+1].FieldErrorsIn(v.Definition().Semantics()) {
			p.Message = e.ErrorBody()
			p.Summary = e.Type.String()
			if e.Detail != "" {
				p.Summary += ": " + e.Detail
			}
			b.add(p)
		}
	}
	return truncated
}

func (b *byKind) list() (all []Problem) {
	for _, of := range b {
		all = append(all, of...)
	}
	return all
}

// Counts counts the objects of a CRD, and those that have problems. The zero value is empty.
type Counts struct {
	// Objects is the number of objects, Failing the number of those with problems.
	Objects, Failing int64
	// Of has the number of objects that have a problem of each kind.
	Of [kinds]int64
}

// Add adds n objects with the same report; a negative n removes them.
func (c *Counts) Add(r *Report, n int64) { c.AddKinds(r.Kinds(), n) }

// AddKinds adds n objects that have problems of the same kinds; a negative n removes them.
func (c *Counts) AddKinds(set KindSet, n int64) {
	c.Objects += n
	if set == 0 {
		return
	}
	c.Failing += n
	for k := range kinds {
		if set.Has(k) {
			c.Of[k] += n
		}
	}
}
