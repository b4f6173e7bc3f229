// Package espalier does to an object what the API server of Kubernetes does to a
// custom resource: it prunes the fields that the resource's definition does not
// know, drops nulls, fills in defaults, and validates, in one call and without a
// cluster.
//
// [New] takes a CustomResourceDefinition and makes an [Admitter] of it.
// [Admitter.Create] and [Admitter.Update] take an object and give back what would be
// stored, what was done to get there, and what is wrong with it.
//
// The engine behind it is package schema, what definitions mean is in package crd,
// and their types are in package api. A definition with rules in CEL
// (x-kubernetes-validations) needs [WithRules]; only a program that imports package
// crd/cel for it has a CEL runtime in it.
package espalier

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// Object is a JSON object, with integers as int64 and all other numbers as
// float64, as Kubernetes' unstructured objects have it.
type Object = schema.Object

// Option changes what New makes.
type Option func(*options)

type options struct {
	crd.Options
	namespace string
}

// WithSemantics chooses between what the design documents say (schema.KEP, the
// default) and what kube-apiserver does (schema.Kubernetes).
func WithSemantics(s schema.Semantics) Option {
	return func(o *options) { o.Semantics = s }
}

// WithRules makes rules (x-kubernetes-validations) count. Package crd/cel has the
// RuleChecker. Without it, or WithoutRules, New refuses a definition with rules.
func WithRules(r crd.RuleChecker) Option {
	return func(o *options) { o.Rules = r }
}

// WithoutRules leaves rules out.
func WithoutRules() Option {
	return func(o *options) { o.IgnoreRules = true }
}

// WithNamespace is the namespace of objects that do not say theirs, as the path of
// a request would. It is "default" unless chosen.
func WithNamespace(namespace string) Option {
	return func(o *options) { o.namespace = namespace }
}

// Admitter does to objects what an API server does to those of one definition. It
// is safe for concurrent use.
type Admitter struct {
	definition *crd.Definition
	// versions are those of the definition, by what objects say in apiVersion.
	versions  map[string]*crd.Version
	namespace string
	warnings  []string
}

// New makes an Admitter of a definition. The definition gets its defaults and is
// then validated as if it were created as v1; the error is an [*InvalidError] if it
// would be refused. For what only v1beta1 allows there is [NewV1beta1].
func New(ctx context.Context, definition *api.CustomResourceDefinition, opts ...Option) (*Admitter, error) {
	if definition == nil {
		return nil, errors.New("there is no definition")
	}
	o := newOptions(opts)
	definition = definition.DeepCopy()
	api.SetDefaults(definition)
	crd.PrepareCreate(definition)
	return o.admitter(definition, crd.ValidateCreate(ctx, definition, o.Options))
}

// NewV1beta1 is New for a definition that is created as v1beta1: it need not be
// structural, may preserve unknown fields, and may have a schema in the draft-4
// dialect.
func NewV1beta1(ctx context.Context, definition *v1beta1.CustomResourceDefinition, opts ...Option) (*Admitter, error) {
	if definition == nil {
		return nil, errors.New("there is no definition")
	}
	o := newOptions(opts)
	definition = definition.DeepCopy()
	v1beta1.SetDefaults(definition)
	found := crd.ValidateCreateV1beta1(ctx, definition, o.Options)
	if len(found.Errors) > 0 {
		return nil, invalidDefinition(definition.Name, found)
	}
	hub, err := v1beta1.ToV1(definition)
	if err != nil {
		return nil, err
	}
	crd.PrepareCreate(hub)
	return o.admitter(hub, found)
}

func newOptions(opts []Option) *options {
	o := &options{}
	for _, opt := range opts {
		opt(o)
	}
	return o
}

func invalidDefinition(name string, found crd.Result) error {
	return &InvalidError{Kind: "CustomResourceDefinition.apiextensions.k8s.io", Name: name, Errors: found.Errors}
}

// admitter makes an Admitter of a definition that has been judged.
func (o *options) admitter(definition *api.CustomResourceDefinition, found crd.Result) (*Admitter, error) {
	if len(found.Errors) > 0 {
		return nil, invalidDefinition(definition.Name, found)
	}
	d, err := crd.New(definition, o.Options)
	if err != nil {
		return nil, err
	}
	for _, v := range d.Versions() {
		if _, err := v.Program(); err != nil {
			return nil, fmt.Errorf("version %s of %s: %w", v.Name(), definition.Name, err)
		}
	}
	a := ForDefinition(d, o.namespace)
	a.warnings = found.Warnings
	return a, nil
}

// ForDefinition returns an Admitter for a definition that the caller has validated.
// It compiles nothing before an object needs it, so a program with many definitions
// and few objects does little work. The namespace is that of objects that name none;
// if it is empty, that is "default". All other options are part of the definition.
func ForDefinition(definition *crd.Definition, namespace string) *Admitter {
	if namespace == "" {
		namespace = "default"
	}
	a := &Admitter{definition: definition, versions: map[string]*crd.Version{}, namespace: namespace}
	for _, v := range definition.Versions() {
		if v.Served() {
			a.versions[v.GroupVersionKind().GroupVersion().String()] = v
		}
	}
	return a
}

// Definition is the definition as package crd has it.
func (a *Admitter) Definition() *crd.Definition { return a.definition }

// Warnings is what the author of the definition is to be told.
func (a *Admitter) Warnings() []string { return a.warnings }

// InvalidError says why an object would be refused.
type InvalidError struct {
	// Kind is the kind of the object with its group, like CronTab.example.com.
	Kind   string
	Name   string
	Errors field.ErrorList
}

// Error lists the reasons.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("%s %q is invalid: %v", e.Kind, e.Name, e.Errors.ToAggregate())
}

// Unwrap returns the reasons.
func (e *InvalidError) Unwrap() []error {
	errs := make([]error, len(e.Errors))
	for i, err := range e.Errors {
		errs[i] = err
	}
	return errs
}

// Result is what an API server would make of an object.
type Result struct {
	// Object is what would be stored. The API server would add what it alone can
	// know: a uid, times, a resourceVersion.
	Object Object
	// Changes are what was pruned, dropped and filled in, each with its path and the
	// schema that decided. There are none below a status that was not for this call
	// to write.
	Changes []schema.Change
	// IgnoredChanges are the changes below a status that was not for this call to write,
	// or below anything else if it was: nothing of it is stored, but a server tells of
	// unknown fields there all the same.
	IgnoredChanges []schema.Change
	// Truncated says that there were more changes than are listed.
	Truncated bool
	// Warnings is what the user is to be told.
	Warnings []string
	// Violations are the reasons to refuse the object. There are none if it is valid.
	Violations schema.Violations

	kind string
}

// Pruned are the fields that the definition does not know.
func (r *Result) Pruned() []schema.Change { return r.changes(schema.Pruned) }

// Defaulted are the defaults that were filled in.
func (r *Result) Defaulted() []schema.Change { return r.changes(schema.Defaulted) }

func (r *Result) changes(kind schema.ChangeKind) (list []schema.Change) {
	for _, c := range r.Changes {
		if c.Kind == kind {
			list = append(list, c)
		}
	}
	return list
}

// Err is nil if the object is valid, and an [*InvalidError] otherwise.
func (r *Result) Err() error {
	if len(r.Violations) == 0 {
		return nil
	}
	meta, _ := r.Object["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	return &InvalidError{Kind: r.kind, Name: name, Errors: r.Violations.FieldErrors()}
}

// Create does what a request to create obj does. obj itself is left as it is. The
// error is about objects that cannot even be read: of another kind, with malformed
// metadata, with values that contradict their types; whatever else is wrong is in
// the Result. An object with a generateName gets its name from the server.
func (a *Admitter) Create(ctx context.Context, obj Object) (*Result, error) {
	return a.create(ctx, givenObject(obj))
}

// CreateJSON is Create for an object as it is sent: members that occur twice are
// seen, and what is pruned is never built.
func (a *Admitter) CreateJSON(ctx context.Context, src []byte) (*Result, error) {
	g, err := givenJSON(src)
	if err != nil {
		return nil, err
	}
	return a.create(ctx, g)
}

func (a *Admitter) create(ctx context.Context, g given) (*Result, error) {
	v, err := a.version(g)
	if err != nil {
		return nil, err
	}
	result, err := a.decode(v, g, nil)
	if err != nil {
		return nil, err
	}
	meta := result.Object["metadata"].(map[string]any)
	if meta["resourceVersion"] != nil {
		return nil, errors.New("metadata.resourceVersion: must not be set on an object that is to be created")
	}
	v.PrepareCreate(result.Object)
	if v.HasStatus() {
		result.keep(func(field string) bool { return field != "status" })
	}
	if prefix, _ := meta["generateName"].(string); prefix != "" && meta["name"] == nil {
		// A server makes up the name before it validates. Nobody gets to see this one.
		meta["name"] = prefix + "00000"
		defer delete(meta, "name")
	}
	return a.judge(ctx, v, result, nil, (*crd.Version).Validate)
}

// Update does what a request to replace old, a stored object, with obj does. What
// is wrong in obj is forgiven where it was wrong in old and has not changed. Both
// must be of the same version. What an object may leave to the request that writes
// it (its namespace, a resourceVersion) it gets from old.
func (a *Admitter) Update(ctx context.Context, obj, old Object) (*Result, error) {
	return a.replace(ctx, givenObject(obj), old)
}

// UpdateJSON is Update for an object as it is sent.
func (a *Admitter) UpdateJSON(ctx context.Context, src []byte, old Object) (*Result, error) {
	g, err := givenJSON(src)
	if err != nil {
		return nil, err
	}
	return a.replace(ctx, g, old)
}

func (a *Admitter) replace(ctx context.Context, g given, old Object) (*Result, error) {
	return a.update(ctx, g, old, func(v *crd.Version, result *Result, stored Object) {
		v.PrepareUpdate(result.Object, stored)
		if v.HasStatus() {
			result.keep(func(field string) bool { return field != "status" })
		}
	}, (*crd.Version).Validate)
}

// UpdateStatus does what a request to the status subresource does: of obj only the
// status counts.
func (a *Admitter) UpdateStatus(ctx context.Context, obj, old Object) (*Result, error) {
	return a.replaceStatus(ctx, givenObject(obj), old)
}

// UpdateStatusJSON is UpdateStatus for an object as it is sent.
func (a *Admitter) UpdateStatusJSON(ctx context.Context, src []byte, old Object) (*Result, error) {
	g, err := givenJSON(src)
	if err != nil {
		return nil, err
	}
	return a.replaceStatus(ctx, g, old)
}

func (a *Admitter) replaceStatus(ctx context.Context, g given, old Object) (*Result, error) {
	if v, err := a.version(g); err != nil {
		return nil, err
	} else if !v.HasStatus() {
		return nil, fmt.Errorf("version %s of %s has no status subresource", v.Name(), a.definition.Name())
	}
	return a.update(ctx, g, old, func(v *crd.Version, result *Result, stored Object) {
		v.PrepareStatusUpdate(result.Object, stored)
		result.keep(func(field string) bool { return field == "status" })
	}, (*crd.Version).ValidateStatus)
}

// keep sets the changes apart whose first field is not to be kept.
func (r *Result) keep(field func(string) bool) {
	r.Changes = slices.DeleteFunc(r.Changes, func(c schema.Change) bool {
		if len(c.Path) == 0 || field(c.Path[0].Key) {
			return false
		}
		r.IgnoredChanges = append(r.IgnoredChanges, c)
		return true
	})
}

type validateFunc func(*crd.Version, context.Context, Object, Object) (schema.Violations, error)

func (a *Admitter) update(ctx context.Context, g given, old Object, prepare func(*crd.Version, *Result, Object), validate validateFunc) (result *Result, err error) {
	v, err := a.version(g)
	if err != nil {
		return nil, err
	}
	if oldVersion, err := a.version(givenObject(old)); err != nil {
		return nil, fmt.Errorf("the stored object: %w", err)
	} else if oldVersion != v {
		return nil, fmt.Errorf("the stored object is of version %s, the new one of %s: convert it first", oldVersion.Name(), v.Name())
	}
	p, err := v.Program()
	if err != nil {
		return nil, err
	}
	stored, err := copyObject(old)
	if err != nil {
		return nil, fmt.Errorf("the stored object: %w", err)
	}
	if _, err := p.Normalize(stored, schema.DecodeOptions{FromStorage: true}); err != nil {
		return nil, fmt.Errorf("the stored object: %w", err)
	}
	oldMeta := a.place(stored, a.namespace)
	if oldMeta["resourceVersion"] == nil {
		// Whatever is stored has one. Which one does not matter here, and nobody gets
		// to see it.
		oldMeta["resourceVersion"] = "1"
		defer func() {
			if result != nil {
				delete(result.Object["metadata"].(map[string]any), "resourceVersion")
			}
		}()
	}
	if result, err = a.decode(v, g, stored); err != nil {
		return nil, err
	}
	meta := result.Object["metadata"].(map[string]any)
	if meta["resourceVersion"] == nil {
		meta["resourceVersion"] = oldMeta["resourceVersion"]
	} else if given, _ := old["metadata"].(map[string]any); given["resourceVersion"] != nil && meta["resourceVersion"] != oldMeta["resourceVersion"] {
		return nil, fmt.Errorf("metadata.resourceVersion: is %v, but %v is stored: the object has been modified, apply the changes to the latest version", meta["resourceVersion"], oldMeta["resourceVersion"])
	}
	prepare(v, result, stored)
	return a.judge(ctx, v, result, stored, validate)
}

// version finds the version that an object says it is of.
func (a *Admitter) version(g given) (*crd.Version, error) {
	if v := a.versions[g.APIVersion]; v != nil && g.Kind == a.definition.Names().Kind {
		return v, nil
	}
	return nil, fmt.Errorf("%s defines no %q of apiVersion %q: it serves %s as %s", a.definition.Name(), g.Kind, g.APIVersion,
		a.definition.Names().Kind, strings.Join(slices.Sorted(maps.Keys(a.versions)), ", "))
}

// decode brings an object, or a copy of it, into shape.
func (a *Admitter) decode(v *crd.Version, g given, old Object) (*Result, error) {
	p, err := v.Program()
	if err != nil {
		return nil, err
	}
	obj, report, err := g.decode(p, schema.DecodeOptions{Report: true, Old: old})
	if err != nil {
		return nil, err
	}
	result := &Result{Object: obj, Changes: report.Changes, Truncated: report.Truncated, kind: v.GroupVersionKind().GroupKind().String()}
	for _, path := range report.UnknownFields() {
		result.Warnings = append(result.Warnings, fmt.Sprintf("unknown field %q", path))
	}
	for _, path := range report.DuplicateFields() {
		result.Warnings = append(result.Warnings, fmt.Sprintf("duplicate field %q", path))
	}
	if report.Truncated {
		result.Warnings = append(result.Warnings, "there are more unknown fields than are listed")
	}
	namespace := a.namespace
	if old != nil {
		namespace, _, _ = unstructured.NestedString(old, "metadata", "namespace")
	}
	a.place(obj, namespace)
	return result, nil
}

// place puts an object that does not say otherwise into a namespace, if objects live
// in namespaces, and returns its metadata.
func (a *Admitter) place(obj Object, namespace string) map[string]any {
	meta, ok := obj["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
		obj["metadata"] = meta
	}
	switch given, _ := meta["namespace"].(string); {
	case !a.definition.Namespaced():
		delete(meta, "namespace")
	case given == "":
		meta["namespace"] = namespace
	}
	return meta
}

func (a *Admitter) judge(ctx context.Context, v *crd.Version, result *Result, old Object, validate validateFunc) (_ *Result, err error) {
	result.Violations, err = validate(v, ctx, result.Object, old)
	if err != nil {
		return nil, err
	}
	result.Warnings = append(result.Warnings, v.Warnings(result.Object, old)...)
	return result, nil
}
