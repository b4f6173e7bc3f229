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
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
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

// New makes an Admitter of a definition. The definition gets the defaults of its
// version and is then validated as if it were created; the error is an
// [*InvalidError] if it would be refused.
func New(definition *api.CustomResourceDefinition, opts ...Option) (*Admitter, error) {
	o := options{namespace: "default"}
	for _, opt := range opts {
		opt(&o)
	}
	definition = definition.DeepCopy()
	api.SetDefaults(definition)
	crd.PrepareCreate(definition)
	found := crd.ValidateCreate(context.Background(), definition, o.Options)
	if len(found.Errors) > 0 {
		return nil, &InvalidError{Kind: "CustomResourceDefinition.apiextensions.k8s.io", Name: definition.Name, Errors: found.Errors}
	}
	d, err := crd.New(definition, o.Options)
	if err != nil {
		return nil, err
	}
	a := &Admitter{definition: d, versions: map[string]*crd.Version{}, namespace: o.namespace, warnings: found.Warnings}
	for _, v := range d.Versions() {
		if _, err := v.Program(); err != nil {
			return nil, fmt.Errorf("version %s of %s: %w", v.Name(), definition.Name, err)
		}
		a.versions[v.GroupVersionKind().GroupVersion().String()] = v
	}
	return a, nil
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
	// schema that decided.
	Changes []schema.Change
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
// the Result.
func (a *Admitter) Create(obj Object) (*Result, error) {
	v, err := a.version(obj)
	if err != nil {
		return nil, err
	}
	result, err := a.decode(v, obj, nil)
	if err != nil {
		return nil, err
	}
	v.PrepareCreate(result.Object)
	return a.judge(v, result, nil, (*crd.Version).Validate)
}

// Update does what a request to replace old, a stored object, with obj does. What
// is wrong in obj is forgiven where it was wrong in old and has not changed. Both
// must be of the same version.
func (a *Admitter) Update(obj, old Object) (*Result, error) {
	return a.update(obj, old, (*crd.Version).PrepareUpdate, (*crd.Version).Validate)
}

// UpdateStatus does what a request to the status subresource does: of obj only the
// status counts.
func (a *Admitter) UpdateStatus(obj, old Object) (*Result, error) {
	return a.update(obj, old, (*crd.Version).PrepareStatusUpdate, (*crd.Version).ValidateStatus)
}

type validateFunc func(*crd.Version, context.Context, Object, Object) (schema.Violations, error)

func (a *Admitter) update(obj, old Object, prepare func(*crd.Version, Object, Object), validate validateFunc) (result *Result, err error) {
	v, err := a.version(obj)
	if err != nil {
		return nil, err
	}
	if oldVersion, err := a.version(old); err != nil {
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
	oldMeta := a.place(stored)
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
	if result, err = a.decode(v, obj, stored); err != nil {
		return nil, err
	}
	if meta := result.Object["metadata"].(map[string]any); meta["resourceVersion"] == nil {
		meta["resourceVersion"] = oldMeta["resourceVersion"]
	}
	prepare(v, result.Object, stored)
	return a.judge(v, result, stored, validate)
}

// version finds the version that obj says it is of.
func (a *Admitter) version(obj Object) (*crd.Version, error) {
	apiVersion, _ := obj["apiVersion"].(string)
	kind, _ := obj["kind"].(string)
	if v := a.versions[apiVersion]; v != nil && kind == a.definition.Names().Kind {
		return v, nil
	}
	return nil, fmt.Errorf("%s defines no %q of apiVersion %q", a.definition.Name(), kind, apiVersion)
}

// decode copies obj and brings the copy into shape.
func (a *Admitter) decode(v *crd.Version, obj, old Object) (*Result, error) {
	p, err := v.Program()
	if err != nil {
		return nil, err
	}
	if obj, err = copyObject(obj); err != nil {
		return nil, err
	}
	report, err := p.Normalize(obj, schema.DecodeOptions{Report: true, Old: old})
	if err != nil {
		return nil, err
	}
	result := &Result{Object: obj, Changes: report.Changes, kind: v.GroupVersionKind().GroupKind().String()}
	for _, path := range report.UnknownFields() {
		result.Warnings = append(result.Warnings, fmt.Sprintf("unknown field %q", path))
	}
	a.place(obj)
	return result, nil
}

// place puts an object into the namespace it belongs to, and returns its metadata.
func (a *Admitter) place(obj Object) map[string]any {
	meta, ok := obj["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
		obj["metadata"] = meta
	}
	switch namespace, _ := meta["namespace"].(string); {
	case !a.definition.Namespaced():
		delete(meta, "namespace")
	case namespace == "":
		meta["namespace"] = a.namespace
	}
	return meta
}

func (a *Admitter) judge(v *crd.Version, result *Result, old Object, validate validateFunc) (_ *Result, err error) {
	result.Violations, err = validate(v, context.Background(), result.Object, old)
	if err != nil {
		return nil, err
	}
	result.Warnings = append(result.Warnings, v.Warnings(result.Object, old)...)
	return result, nil
}
