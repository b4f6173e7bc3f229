package custom

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/crd"
	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

// Kind implements what is specific to the objects of one version of a resource. It defines
// their representation in memory: trees for custom resources, Go structs for fixed
// resources. Objects always have their apiVersion and kind set. A Kind is safe for concurrent
// use.
type Kind interface {
	// New returns an empty object, and NewList an empty list.
	New() runtime.Object
	NewList() runtime.Object

	// Decode decodes an object from a client's JSON. The second result lists the errors of
	// strict decoding (unknown and duplicate fields), if o asks for a report.
	Decode(src []byte, o schema.DecodeOptions) (runtime.Object, []error, error)
	// DecodeStored decodes an object from the storage, which may have been stored in any
	// version.
	DecodeStored(src []byte) (runtime.Object, error)
	// EncodeStored encodes an object for the storage, in the storage version. old is the stored
	// value that it replaces, or nil.
	EncodeStored(obj runtime.Object, old []byte, w io.Writer) error
	// Default applies defaults to an object that server-side apply has merged.
	Default(obj runtime.Object)

	// Prepare prepares an object for validation, for a create or, with old, an update.
	// PrepareStatus does so for an update of the status.
	Prepare(ctx context.Context, obj, old runtime.Object) error
	PrepareStatus(ctx context.Context, obj, old runtime.Object) error

	// Validate returns the errors of a create or, with old, an update, and warnings for the
	// client if there are none. ValidateStatus does so for an update of the status.
	Validate(ctx context.Context, obj, old runtime.Object) (field.ErrorList, []string)
	ValidateStatus(ctx context.Context, obj, old runtime.Object) (field.ErrorList, []string)
}

// Kinds are the versions of a resource.
type Kinds interface {
	Kind(*crd.Version) (Kind, error)
	Converter
}

// customKinds are the versions of a custom resource.
type customKinds struct {
	definition *crd.Definition
	converter  treeConverter
	// kind returns the Kind of a version.
	kind func(version string) (Kind, error)
}

func (k *customKinds) Kind(v *crd.Version) (Kind, error) {
	// What cannot be read is not served. The Program is compiled for the first object: many clients list all
	// resources, and most of those that a large cluster has are empty.
	if err := v.Definition().Load(); err != nil {
		return nil, err
	}
	out := &customKind{Version: v, kinds: k, apiVersion: v.GroupVersionKind().GroupVersion().String(), id: v.Identity()}
	if out.hasWebhook() {
		out.id = new(crd.Identity) // which may convert differently the next time
	}
	return out, nil
}

// program returns the program of a version.
func (k *customKinds) program(version string) (*schema.Program, error) {
	kind, err := k.kind(version)
	if err != nil {
		return nil, err
	}
	return kind.(*customKind).program()
}

// customKind is the Kind of a custom resource, based on its schema.
type customKind struct {
	*crd.Version
	kinds      *customKinds
	compiled   atomic.Pointer[schema.Program] // see program
	apiVersion string
	// id identifies the views of stored objects that this Kind makes.
	id *viewID
}

// program returns the Program of the version, and keeps it.
func (k *customKind) program() (*schema.Program, error) {
	if p := k.compiled.Load(); p != nil {
		return p, nil
	}
	p, err := k.Program()
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("version %s of %s cannot be served: %w", k.Name(), k.Definition().Name(), err))
	}
	k.compiled.Store(p)
	return p, nil
}

func (k *customKind) New() runtime.Object {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(k.GroupVersionKind())
	return u
}

func (k *customKind) NewList() runtime.Object {
	l := &unstructured.UnstructuredList{}
	l.SetGroupVersionKind(k.GroupVersionKind().GroupVersion().WithKind(k.Definition().Names().ListKind))
	return l
}

func (k *customKind) Decode(src []byte, o schema.DecodeOptions) (runtime.Object, []error, error) {
	program, err := k.program()
	if err != nil {
		return nil, nil, err
	}
	obj, report, err := program.Decode(src, o)
	if err != nil {
		return nil, nil, tooLarge(err)
	}
	if err := k.contradictsStorage(obj, o); err != nil {
		return nil, nil, err
	}
	u := &unstructured.Unstructured{Object: obj}
	if report != nil && u.GroupVersionKind() != k.GroupVersionKind() {
		return u, k.strictErrorsOfOther(u, src, report), nil
	}
	return u, strictErrors(report), nil
}

// contradictsStorage returns an error if an object from a client contradicts the types of the
// storage version. It is checked here, so that values that are already stored pass. Objects
// that a webhook converts are checked after the conversion.
func (k *customKind) contradictsStorage(obj schema.Object, o schema.DecodeOptions) error {
	stored := k.Definition().Storage()
	if _, ok := k.kinds.converter.(relabel); !ok || k.Storage() || stored == nil || !k.Definition().Semantics().RefusesContradictions() {
		return nil
	}
	_, err := k.kinds.convertWith(runtime.DeepCopyJSON(obj), stored.GroupVersionKind().GroupVersion(),
		schema.DecodeOptions{WithoutDefaults: true, Old: o.Old})
	if contradiction := (*schema.ContradictionError)(nil); errors.As(err, &contradiction) {
		return err
	}
	return nil // the request's own version reports other errors
}

// strictErrorsOfOther returns the errors of strict decoding of an object that has another kind or
// version than the request, which will fail for it. As in kube-apiserver, the object has the fields
// that the schema of its own version specifies, and an object of another kind has all fields.
func (k *customKind) strictErrorsOfOther(obj *unstructured.Unstructured, src []byte, report *schema.Report) []error {
	gvk, duplicates := obj.GroupVersionKind(), duplicateErrors(report)
	if gvk.GroupKind() != k.GroupVersionKind().GroupKind() {
		return duplicates
	}
	if k.Definition().Version(gvk.Version) != nil {
		program, err := k.kinds.program(gvk.Version)
		if err != nil {
			return duplicates
		}
		if _, report, err = program.Decode(src, schema.DecodeOptions{Report: true}); err != nil {
			return duplicates
		}
		return strictErrors(report)
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(src, &members) != nil || k.Definition().PreservesUnknownFields() {
		return duplicates
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if name != "apiVersion" && name != "kind" && name != "metadata" {
			duplicates = append(duplicates, unknownField(name))
		}
	}
	return duplicates
}

// strictErrors returns the errors of strict decoding, worded as in kube-apiserver.
func strictErrors(r *schema.Report) []error {
	if r == nil {
		return nil
	}
	errs := duplicateErrors(r)
	for _, f := range r.UnknownFields() {
		errs = append(errs, unknownField(f))
	}
	return errs
}

func duplicateErrors(r *schema.Report) (errs []error) {
	for _, f := range r.DuplicateFields() {
		errs = append(errs, fmt.Errorf("duplicate field %q", f))
	}
	return errs
}

func unknownField(path string) error { return fmt.Errorf("unknown field %q", path) }

func (k *customKind) DecodeStored(src []byte) (runtime.Object, error) {
	program, err := k.kinds.program(k.kinds.writtenIn(src, k.Name()))
	if err != nil {
		return nil, err
	}
	obj, _, err := program.Decode(src, schema.DecodeOptions{FromStorage: true})
	if err != nil {
		return nil, err
	}
	if obj, err = k.kinds.convert(obj, k.GroupVersionKind().GroupVersion(), reading); err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: obj}, nil
}

func (k *customKind) EncodeStored(obj runtime.Object, old []byte, w io.Writer) error {
	var tree schema.Object
	switch obj := obj.(type) {
	case *storedTree:
		tree = obj.Object
	case *unstructured.Unstructured:
		tree = obj.Object
	default:
		return fmt.Errorf("%T cannot be stored", obj)
	}
	_, err := k.encodeTree(tree, old, w)
	return err
}

// encodeTree encodes an object for the storage. It also reports whether it is certain that the text
// is canonical.
func (k *customKind) encodeTree(tree schema.Object, old []byte, w io.Writer) (canonical bool, err error) {
	out, err := k.converted(tree, old)
	if err != nil {
		return false, err
	}
	scratch := scratches.Get().(*[]byte)
	defer scratches.Put(scratch)
	data, canonical, err := jsonx.AppendCanonical((*scratch)[:0], map[string]any(out))
	if err != nil {
		return false, err
	}
	data = append(data, '\n') // as kube-apiserver stores it
	if cap(data) <= maxScratch {
		*scratch = data
	}
	_, err = w.Write(data)
	return canonical, err
}

// scratches pools the memory in which objects are encoded, of at most maxScratch bytes each.
var scratches = sync.Pool{New: func() any { return new([]byte) }}

const maxScratch = 64 << 10

// storageVersion is the version in which objects are stored.
func (k *customKind) storageVersion() runtimeschema.GroupVersion {
	return k.Definition().Storage().GroupVersionKind().GroupVersion()
}

// converted returns an object in the storage version. A value that contradicts the type that it has
// there is an error, unless the stored value that the object replaces has it already.
func (k *customKind) converted(obj schema.Object, old []byte) (schema.Object, error) {
	why := writing
	if _, ok := k.kinds.converter.(relabel); ok {
		why = reading // Decode has checked it
	}
	out, err := k.kinds.convertCopy(obj, k.storageVersion(), why)
	contradiction := (*schema.ContradictionError)(nil)
	if old != nil && errors.As(err, &contradiction) {
		stored, failed := k.kinds.kind(k.storageVersion().Version)
		if failed != nil {
			return nil, failed
		}
		before, failed := stored.DecodeStored(old)
		if failed != nil {
			return nil, failed
		}
		out, err = k.kinds.convertWith(runtime.DeepCopyJSON(obj), k.storageVersion(),
			schema.DecodeOptions{WithoutDefaults: true, Old: content(before)})
	}
	if errors.As(err, &contradiction) {
		// The object that the client sent is malformed, in the version that is stored.
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return out, err
}

// Default applies no defaults if they are too large: the caller's interface has no errors, so applyDefaults
// must follow.
func (k *customKind) Default(obj runtime.Object) { _ = k.applyDefaults(content(obj)) }

// applyDefaults applies defaults. The error is an API status.
func (k *customKind) applyDefaults(obj schema.Object) error {
	program, err := k.program()
	if err != nil {
		return err
	}
	return tooLarge(program.Default(obj))
}

// tooLarge returns the API status for an object whose defaults are too large, and other errors as they are.
func tooLarge(err error) error {
	if large := (*schema.DefaultsError)(nil); errors.As(err, &large) {
		return apierrors.NewRequestEntityTooLargeError(large.Error())
	}
	return err
}

func (k *customKind) Prepare(_ context.Context, obj, old runtime.Object) error {
	if old != nil {
		k.PrepareUpdate(content(obj), content(old))
		return nil
	}
	tree := content(obj)
	if k.HasStatus() {
		delete(tree, "status")
	}
	setGeneration(tree, 1)
	return nil
}

func (k *customKind) PrepareStatus(_ context.Context, obj, old runtime.Object) error {
	k.PrepareStatusUpdate(content(obj), content(old))
	return nil
}

func (k *customKind) Validate(ctx context.Context, obj, old runtime.Object) (field.ErrorList, []string) {
	vs, err := k.Version.Validate(ctx, content(obj), content(old))
	return k.fieldErrors(vs, err), crd.FinalizerWarnings(content(obj), content(old))
}

func (k *customKind) ValidateStatus(ctx context.Context, obj, old runtime.Object) (field.ErrorList, []string) {
	vs, err := k.Version.ValidateStatus(ctx, content(obj), content(old))
	return k.fieldErrors(vs, err), nil
}

func (k *customKind) fieldErrors(vs schema.Violations, err error) field.ErrorList {
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	truncated := vs.Truncated()
	if len(vs) > 2*crd.MaxErrors {
		// The others are not reported, and the text of an error can be long.
		vs, truncated = vs[:2*crd.MaxErrors], true
	}
	errs := vs.FieldErrorsIn(k.Definition().Semantics())
	if truncated {
		errs = append(errs, schema.MoreErrors())
	}
	return errs
}

func setGeneration(obj schema.Object, n int64) {
	meta, ok := obj["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
		obj["metadata"] = meta
	}
	meta["generation"] = n
}

// content returns the tree of an object, or nil if it is not a tree.
func content(obj runtime.Object) schema.Object {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object
	}
	return nil
}
