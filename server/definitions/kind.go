package definitions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/api/v1beta1"
	"espalier.dev/crd"
	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
	"espalier.dev/server/custom"
	"espalier.dev/server/definitions/protobuf"
	"espalier.dev/server/fields"
)

// kinds are the versions of the CRD resource.
type kinds struct {
	options crd.Options
	// warnings returns additional warnings for the client that writes a valid CRD.
	warnings func(context.Context, *api.CustomResourceDefinition) []string
	// compliance checks the stored objects; nil if they are not checked.
	compliance Compliance
}

func (k *kinds) Kind(v *crd.Version) (custom.Kind, error) {
	raw, err := schema.Compile(&schema.Structural{
		Generic:    schema.Generic{Type: "object"},
		Extensions: schema.Extensions{XPreserveUnknownFields: true},
	}, schema.WithSemantics(schema.Kubernetes))
	return &kind{kinds: k, Version: v, raw: raw}, err
}

// Convert converts between v1beta1 and v1, and converts the trees of server-side apply to
// either.
func (k *kinds) Convert(in runtime.Object, to runtimeschema.GroupVersion) (runtime.Object, error) {
	switch in := in.(type) {
	case *api.CustomResourceDefinition:
		if to.Version == api.Version {
			return in, nil
		}
		return v1beta1.FromV1(in), nil
	case *v1beta1.CustomResourceDefinition:
		if to.Version == v1beta1.Version {
			return in, nil
		}
		return v1beta1.ToV1(in)
	case *unstructured.Unstructured:
		data, err := in.MarshalJSON()
		if err != nil {
			return nil, err
		}
		c, err := codec.DecodeLenient(data)
		if err != nil {
			return nil, err
		}
		return represent(c, to.Version), nil
	case *api.CustomResourceDefinitionList:
		for i := range in.Items {
			in.Items[i].TypeMeta = metav1.TypeMeta{} // as in any list of Go structs
		}
	case *v1beta1.CustomResourceDefinitionList:
		for i := range in.Items {
			in.Items[i].TypeMeta = metav1.TypeMeta{}
		}
	}
	return in, nil
}

// hub returns a CRD of either version as the hub type. It may share memory with obj.
func hub(obj runtime.Object) (*api.CustomResourceDefinition, error) {
	switch obj := obj.(type) {
	case *api.CustomResourceDefinition:
		return obj, nil
	case *v1beta1.CustomResourceDefinition:
		return v1beta1.ToV1(obj)
	}
	return nil, fmt.Errorf("expected a CRD, got %T", obj)
}

// hubs returns the new and the old state of a CRD as the hub type. The old state is nil for a create.
func hubs(obj, old runtime.Object) (c, before *api.CustomResourceDefinition, err error) {
	if c, err = hub(obj); err != nil || old == nil {
		return c, nil, err
	}
	before, err = hub(old)
	return c, before, err
}

// represent returns a CRD as the type of a version.
func represent(c *api.CustomResourceDefinition, version string) runtime.Object {
	if version == v1beta1.Version {
		return v1beta1.FromV1(c)
	}
	c.TypeMeta = metav1.TypeMeta{APIVersion: api.APIVersion, Kind: api.Kind}
	return c
}

var (
	_ custom.ProtobufKind = &kind{}
	_ custom.PatchKind    = &kind{}
)

// kind is one version of the CRD resource.
type kind struct {
	*kinds
	*crd.Version
	// raw decodes any object, and finds duplicate fields.
	raw *schema.Program
}

func (k *kind) New() runtime.Object {
	if k.Name() == v1beta1.Version {
		return &v1beta1.CustomResourceDefinition{TypeMeta: k.typeMeta(api.Kind)}
	}
	return &api.CustomResourceDefinition{TypeMeta: k.typeMeta(api.Kind)}
}

func (k *kind) NewList() runtime.Object {
	if k.Name() == v1beta1.Version {
		return &v1beta1.CustomResourceDefinitionList{TypeMeta: k.typeMeta(api.ListKind)}
	}
	return &api.CustomResourceDefinitionList{TypeMeta: k.typeMeta(api.ListKind)}
}

func (k *kind) typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: k.GroupVersionKind().GroupVersion().String(), Kind: kind}
}

func (k *kind) Decode(src []byte, o schema.DecodeOptions) (runtime.Object, []error, error) {
	complaints, err := k.check(src, o.Report)
	if err != nil {
		return nil, nil, err
	}
	c, err := k.read(src, codec.Decode)
	if err != nil {
		if last, twice := lastIdentity(src); twice {
			c, err = k.read(last, codec.Decode)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	return represent(c, k.Name()), complaints, nil
}

// lastIdentity returns a CRD without repeated members, and reports whether it repeats its apiVersion or
// kind. The last one counts for kube-apiserver, and the first one for package codec, which does not
// read more.
func lastIdentity(src []byte) (last []byte, twice bool) {
	first, err := api.Identify(src)
	if err != nil {
		return nil, false
	}
	var tree map[string]json.RawMessage
	var id metav1.TypeMeta
	if json.Unmarshal(src, &tree) != nil || json.Unmarshal(src, &id) != nil || id == first {
		return nil, false
	}
	last, err = json.Marshal(tree)
	return last, err == nil
}

// check returns an error if the JSON that a client sends has a superseded spelling and, if report
// is set, the errors of strict decoding.
func (k *kind) check(src []byte, report bool) (complaints []error, err error) {
	old, err := crd.Superseded(src, k.options.Semantics)
	if err != nil {
		return nil, err
	}
	if len(old) > 0 {
		return nil, old.ToAggregate()
	}
	if !report {
		return nil, nil
	}
	obj, found, err := k.raw.Decode(src, schema.DecodeOptions{Report: true})
	if err != nil {
		return nil, err
	}
	for _, f := range found.DuplicateFields() {
		complaints = append(complaints, fmt.Errorf("duplicate field %q", f))
	}
	// Decoding has dropped those of the metadata.
	unknown := append(found.UnknownFields(), unknownFields(obj, k.goType(), k.options.Semantics.KnowsForeignFields())...)
	slices.Sort(unknown)
	for _, f := range slices.Compact(unknown) {
		complaints = append(complaints, fmt.Errorf("unknown field %q", f))
	}
	return complaints, nil
}

// CheckStrategic implements custom.PatchKind.
func (k *kind) CheckStrategic(patch []byte) (known []byte, err error) {
	old, err := crd.Superseded(patch, k.options.Semantics)
	switch {
	case err != nil:
		return patch, nil // it is no JSON, which k8s.io/apiserver reports
	case len(old) > 0:
		return nil, old.ToAggregate()
	case k.options.Semantics.KnowsForeignFields():
		return patch, nil
	}
	return api.DropForeign(patch), nil
}

// CheckApplied implements custom.PatchKind.
func (k *kind) CheckApplied(src []byte, report bool) (known []byte, complaints []error, err error) {
	complaints, err = k.check(src, report)
	drops := k.options.Semantics.DropsAppliedUnknownFields()
	if bad := (*schema.MetadataError)(nil); errors.As(err, &bad) && !drops {
		return src, nil, nil // field management reports it
	}
	if err != nil {
		return nil, nil, err
	}
	known = src
	var tree map[string]any
	if err := api.Unmarshal(known, &tree); err != nil {
		return nil, nil, err
	}
	if !drops {
		if err := misfit(undeclaredFields(tree, k.goType())); err != nil {
			return nil, nil, err
		}
		// What is left to drop are annotations, which nobody should own.
		return api.DropForeign(src), duplicatesOf(complaints), nil
	}
	if dropUnknown(tree, k.goType()) {
		known, err = jsonx.Append(nil, tree)
	}
	return known, complaints, err
}

// duplicatesOf returns the errors of strict decoding that are about repeated fields.
func duplicatesOf(complaints []error) []error {
	return slices.DeleteFunc(complaints, func(err error) bool { return !strings.HasPrefix(err.Error(), "duplicate field") })
}

// misfit returns the error of field management for fields that do not exist, or nil if there are none.
func misfit(unknown []string) error {
	var errs typed.ValidationErrors
	for _, f := range unknown {
		errs = append(errs, typed.ValidationError{Path: "." + f, ErrorMessage: "field not declared in schema"})
	}
	if len(errs) == 0 {
		return nil
	}
	return &fields.MisfitError{Err: errs}
}

// read decodes a CRD of either version.
func (k *kinds) read(src []byte, decode func([]byte) (*api.CustomResourceDefinition, error)) (*api.CustomResourceDefinition, error) {
	if k.options.Semantics.KnowsForeignFields() {
		return decode(src)
	}
	c, err := decode(api.DropForeign(src))
	if err != nil {
		return c, err
	}
	// A tree keeps the last of repeated annotations, a decoder all of them.
	return c, api.SetLegacySchema(c, nil)
}

// readStored decodes a stored CRD.
func (k *kinds) readStored(src []byte) (*api.CustomResourceDefinition, error) {
	return k.read(src, codec.DecodeLenient)
}

// readHead decodes a stored CRD without its schemas. The second result is the text of its
// spec.
func (k *kinds) readHead(src []byte) (c *api.CustomResourceDefinition, spec []byte, err error) {
	c, spec, err = codec.DecodeHead(src)
	if k.options.Semantics.KnowsForeignFields() {
		return c, spec, err
	}
	if err != nil {
		if c, spec, err = codec.DecodeHead(api.DropForeign(src)); err != nil {
			return nil, nil, err
		}
	}
	return c, spec, api.SetLegacySchema(c, nil) // kube-apiserver does not support it
}

func (k *kind) DecodeStored(src []byte) (runtime.Object, error) {
	c, err := k.readStored(src)
	if err != nil {
		// A CRD whose spec cannot be decoded is not served, but can be read and deleted.
		m := &metav1.PartialObjectMetadata{}
		if api.Unmarshal(src, m) != nil || m.Name == "" {
			return nil, err
		}
		c = &api.CustomResourceDefinition{ObjectMeta: m.ObjectMeta}
	}
	return represent(c, k.Name()), nil
}

// unreadable reports whether the spec of a stored CRD could not be decoded. Such a CRD must
// not be overwritten.
func unreadable(c *api.CustomResourceDefinition) bool { return c.Spec.Group == "" }

// EncodeStored writes v1beta1, as kube-apiserver does.
func (k *kind) EncodeStored(obj runtime.Object, _ []byte, w io.Writer) error {
	c, err := hub(obj)
	if err != nil {
		return err
	}
	data, err := codec.Encode(c, v1beta1.APIVersion)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

func (k *kind) goType() reflect.Type {
	if k.Name() == "v1beta1" {
		return reflect.TypeFor[v1beta1.CustomResourceDefinition]()
	}
	return reflect.TypeFor[api.CustomResourceDefinition]()
}

func (k *kind) Default(obj runtime.Object) {
	switch obj := obj.(type) {
	case *api.CustomResourceDefinition:
		api.SetDefaults(obj)
	case *v1beta1.CustomResourceDefinition:
		v1beta1.SetDefaults(obj)
	}
}

// change applies f to a CRD of either version, as the hub type.
func change(obj runtime.Object, f func(*api.CustomResourceDefinition)) error {
	c, err := hub(obj)
	if err != nil {
		return err
	}
	f(c)
	if beta, ok := obj.(*v1beta1.CustomResourceDefinition); ok {
		*beta = *v1beta1.FromV1(c)
	}
	return nil
}

func (k *kind) Prepare(_ context.Context, obj, old runtime.Object) error {
	if old == nil {
		return change(obj, crd.PrepareCreate)
	}
	before, err := hub(old)
	if err != nil {
		return err
	}
	return change(obj, func(c *api.CustomResourceDefinition) { crd.PrepareUpdate(c, before) })
}

func (k *kind) PrepareStatus(_ context.Context, obj, old runtime.Object) error {
	before, err := hub(old)
	if err != nil {
		return err
	}
	before = before.DeepCopy()
	return change(obj, func(c *api.CustomResourceDefinition) {
		managed := c.ManagedFields
		version := c.ResourceVersion
		c.ObjectMeta, c.Spec = before.ObjectMeta, before.Spec
		c.ManagedFields, c.ResourceVersion = managed, version
	})
}

func (k *kind) Validate(ctx context.Context, obj, old runtime.Object) (field.ErrorList, []string) {
	c, before, err := hubs(obj, old)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}, nil
	}
	result := k.judge(ctx, obj, c, before)
	if len(result.Errors) > 0 {
		return result.Errors, nil
	}
	warnings := append(result.Warnings, k.warnings(ctx, c)...)
	if k.compliance != nil && before != nil {
		warnings = append(warnings, k.compliance.Warnings(ctx, before, c)...)
	}
	return nil, warnings
}

// judge validates a write of a CRD in the version in which it was sent. c and before are its new and
// its old state as the hub type; before is nil for a create.
func (k *kind) judge(ctx context.Context, obj runtime.Object, c, before *api.CustomResourceDefinition) crd.Result {
	beta, ok := obj.(*v1beta1.CustomResourceDefinition)
	switch {
	case ok && before != nil:
		return crd.ValidateUpdateV1beta1(ctx, beta, before, k.options)
	case ok:
		return crd.ValidateCreateV1beta1(ctx, beta, k.options)
	case before != nil:
		return crd.ValidateUpdate(ctx, c, before, k.options)
	}
	return crd.ValidateCreate(ctx, c, k.options)
}

func (k *kind) ValidateStatus(ctx context.Context, obj, old runtime.Object) (field.ErrorList, []string) {
	c, before, err := hubs(obj, old)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}, nil
	}
	return crd.ValidateStatusUpdate(ctx, c, before), nil
}

// FromProtobuf implements custom.ProtobufKind.
func (k *kind) FromProtobuf(data []byte) ([]byte, error) { return protobuf.Decode(data) }

// ToProtobuf implements custom.ProtobufKind.
func (k *kind) ToProtobuf(obj runtime.Object) ([]byte, bool, error) { return protobuf.Encode(obj) }
