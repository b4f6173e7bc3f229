package resources

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/crd"
	"espalier.dev/schema"
)

// Kind is what is particular to the objects of one version of a resource. It is safe
// for concurrent use.
type Kind interface {
	// Decode reads an object from JSON. The second result is what a strict reader
	// objects to (unknown and duplicate fields), if o asks for a report.
	Decode(src []byte, o schema.DecodeOptions) (schema.Object, []error, error)
	// Normalize does to a tree what Decode does to bytes.
	Normalize(obj schema.Object, o schema.DecodeOptions) error
	// Default completes an object that server-side apply has put together.
	Default(obj schema.Object)

	PrepareCreate(ctx context.Context, obj schema.Object)
	PrepareUpdate(ctx context.Context, obj, old schema.Object)
	PrepareStatusUpdate(ctx context.Context, obj, old schema.Object)

	// Validate judges an object that is to be created or, with old, to replace old.
	Validate(ctx context.Context, obj, old schema.Object) field.ErrorList
	// ValidateStatus judges an object whose status alone is to replace that of old.
	ValidateStatus(ctx context.Context, obj, old schema.Object) field.ErrorList
	// Warnings is what the writer of a valid object is to be told.
	Warnings(ctx context.Context, obj, old schema.Object) []string
}

// Kinds says what is particular to the resources that are built in, and how their
// versions convert. A resource that is defined by a CustomResourceDefinition has none.
type Kinds interface {
	Kind(*crd.Version) (Kind, error)
	Converter() Converter
}

// customKind is the Kind of a custom resource: what its schema says.
type customKind struct {
	*crd.Version
	program *schema.Program
}

func newCustomKind(v *crd.Version) (Kind, error) {
	p, err := v.Program()
	if err != nil {
		return nil, err
	}
	return &customKind{Version: v, program: p}, nil
}

func (k *customKind) Decode(src []byte, o schema.DecodeOptions) (schema.Object, []error, error) {
	obj, report, err := k.program.Decode(src, o)
	if err != nil {
		return nil, nil, err
	}
	return obj, strictErrors(report), nil
}

// strictErrors are the complaints of a strict reader, in the words of kube-apiserver.
func strictErrors(r *schema.Report) (errs []error) {
	if r == nil {
		return nil
	}
	for _, f := range r.DuplicateFields() {
		errs = append(errs, fmt.Errorf("duplicate field %q", f))
	}
	for _, f := range r.UnknownFields() {
		errs = append(errs, fmt.Errorf("unknown field %q", f))
	}
	return errs
}

func (k *customKind) Normalize(obj schema.Object, o schema.DecodeOptions) error {
	_, err := k.program.Normalize(obj, o)
	return err
}

func (k *customKind) Default(obj schema.Object) { k.program.Default(obj) }

func (k *customKind) PrepareCreate(_ context.Context, obj schema.Object) {
	if k.HasStatus() {
		delete(obj, "status")
	}
	setGeneration(obj, 1)
}

func (k *customKind) PrepareUpdate(_ context.Context, obj, old schema.Object) {
	k.Version.PrepareUpdate(obj, old)
}

func (k *customKind) PrepareStatusUpdate(_ context.Context, obj, old schema.Object) {
	k.Version.PrepareStatusUpdate(obj, old)
}

func (k *customKind) Validate(ctx context.Context, obj, old schema.Object) field.ErrorList {
	return fieldErrors(k.Version.Validate(ctx, obj, old))
}

func (k *customKind) ValidateStatus(ctx context.Context, obj, old schema.Object) field.ErrorList {
	return fieldErrors(k.Version.ValidateStatus(ctx, obj, old))
}

func fieldErrors(vs schema.Violations, err error) field.ErrorList {
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	return vs.FieldErrors()
}

func (k *customKind) Warnings(_ context.Context, obj, old schema.Object) []string {
	return crd.FinalizerWarnings(obj, old)
}

func setGeneration(obj schema.Object, n int64) {
	meta, ok := obj["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
		obj["metadata"] = meta
	}
	meta["generation"] = n
}
