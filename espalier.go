// Package espalier applies to an object what the Kubernetes API server applies to it,
// without a cluster: it prunes the fields that the CRD does not specify, drops nulls,
// fills in defaults and validates.
//
// [Parse] reads a CRD from YAML or JSON, [FromObject] accepts one as a Go value, and both
// return an [Admitter]. [Kind] returns one for a built-in kind, such as Deployment, in
// programs that import package kinds. [Load] reads a directory of CRDs and returns a [Set],
// which finds the CRD or the built-in kind of each object by its apiVersion and kind.
// [Admitter.Create], [Admitter.Update]
// and [Admitter.UpdateStatus] accept an object and return a [Result]: the object as it
// would be stored, the changes, and the reasons to reject it. [ToObject] and [Result.Into]
// convert from and to structs.
//
// A CRD with CEL rules (x-kubernetes-validations) needs [WithRules] and package crd/cel, or
// [WithoutRules]. Only programs that import crd/cel link a CEL runtime.
//
// Contexts limit how long CEL rules may run.
package espalier

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// Object is a JSON object with integers as int64 and all other numbers as float64, like
// an unstructured object of Kubernetes. Arguments may also contain Go's other number
// types, []string and map[string]string.
type Object = schema.Object

// Option configures how objects are admitted. Every function that accepts options
// supports all of them.
type Option func(*options)

type options struct {
	crd.Options
	namespace string
}

// WithSemantics sets the schema semantics: schema.KEP, which follows the design
// documents and is the default, or schema.Kubernetes, which does what kube-apiserver
// does.
func WithSemantics(s schema.Semantics) Option {
	return func(o *options) { o.Semantics = s }
}

// WithRules enforces CEL rules (x-kubernetes-validations) with a checker: cel.Checker{}
// of package crd/cel. A CRD with rules is rejected without this option or
// [WithoutRules]. If both are given, the last one wins.
func WithRules(r crd.RuleChecker) Option {
	return func(o *options) { o.Rules, o.IgnoreRules = r, false }
}

// WithoutRules ignores CEL rules.
func WithoutRules() Option {
	return func(o *options) { o.Rules, o.IgnoreRules = nil, true }
}

// WithNamespace sets the namespace of objects that have none, as the path of a request
// does. The default is "default".
func WithNamespace(namespace string) Option {
	return func(o *options) { o.namespace = namespace }
}

// Admitter admits the objects of one CRD or built-in kind as the API server does. It is
// safe for concurrent use.
type Admitter struct {
	// definition is nil for a built-in kind.
	definition *crd.Definition
	kind       runtimeschema.GroupKind
	// versions has the served versions by the apiVersion of their objects. Those of a built-in
	// kind are nil.
	versions  map[string]*crd.Version
	namespace string
	warnings  []string
}

// New returns an Admitter for a CRD. It sets the CRD's defaults and validates it as if
// it were created as apiextensions.k8s.io/v1. If the API server would reject the CRD,
// the error is an [*InvalidError]. For v1beta1, use [NewV1beta1]; [Parse] and
// [FromObject] accept both versions.
func New(ctx context.Context, definition *api.CustomResourceDefinition, opts ...Option) (*Admitter, error) {
	if definition == nil {
		return nil, errors.New("the CRD is nil")
	}
	return newOptions(opts).new(ctx, definition.DeepCopy())
}

// NewV1beta1 is New for a CRD that is created as apiextensions.k8s.io/v1beta1. Its schema
// need not be structural, it may preserve unknown fields, and it may have a schema in
// the draft-4 dialect.
func NewV1beta1(ctx context.Context, definition *v1beta1.CustomResourceDefinition, opts ...Option) (*Admitter, error) {
	if definition == nil {
		return nil, errors.New("the CRD is nil")
	}
	return newOptions(opts).newV1beta1(ctx, definition.DeepCopy())
}

func newOptions(opts []Option) *options {
	o := &options{}
	for _, opt := range opts {
		opt(o)
	}
	return o
}

// new returns an Admitter for a CRD, which it changes.
func (o *options) new(ctx context.Context, definition *api.CustomResourceDefinition) (*Admitter, error) {
	api.SetDefaults(definition)
	crd.PrepareCreate(definition)
	return o.admitter(definition, crd.ValidateCreate(ctx, definition, o.Options))
}

// newV1beta1 returns an Admitter for a v1beta1 CRD, which it changes.
func (o *options) newV1beta1(ctx context.Context, definition *v1beta1.CustomResourceDefinition) (*Admitter, error) {
	v1beta1.SetDefaults(definition)
	found := crd.ValidateCreateV1beta1(ctx, definition, o.Options)
	if len(found.Errors) > 0 {
		return nil, invalidCRD(definition.Name, found.Errors)
	}
	hub, err := v1beta1.ToV1(definition)
	if err != nil {
		return nil, err
	}
	crd.PrepareCreate(hub)
	return o.admitter(hub, found)
}

// admitter returns an Admitter for a CRD that has been validated.
func (o *options) admitter(definition *api.CustomResourceDefinition, found crd.Result) (*Admitter, error) {
	if len(found.Errors) > 0 {
		return nil, invalidCRD(definition.Name, found.Errors)
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

// ForDefinition returns an Admitter for a Definition that the caller has validated. It
// compiles a schema when the first object needs it, so a program with many CRDs and few
// objects does little work. Objects without a namespace get the given one, or "default"
// if it is empty. All other options are part of the Definition.
func ForDefinition(definition *crd.Definition, namespace string) *Admitter {
	a := &Admitter{definition: definition, versions: map[string]*crd.Version{}, namespace: orDefault(namespace)}
	a.kind = runtimeschema.GroupKind{Group: definition.Group(), Kind: definition.Names().Kind}
	for _, v := range definition.Versions() {
		if v.Served() {
			a.versions[v.GroupVersionKind().GroupVersion().String()] = v
		}
	}
	return a
}

func orDefault(namespace string) string { return cmp.Or(namespace, "default") }

// Definition returns the compiled CRD. It is nil for a built-in kind.
func (a *Admitter) Definition() *crd.Definition { return a.definition }

// Warnings returns the warnings that the API server sends to a client that creates the
// CRD.
func (a *Admitter) Warnings() []string { return a.warnings }
