package definitions

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"sync/atomic"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/api/v1beta1"
	"espalier.dev/crd"
	"espalier.dev/schema"
	"espalier.dev/server/resources"
)

// kinds are the versions of definitions.
type kinds struct {
	options crd.Options
	// warnings returns what else to tell the writer of a valid CRD.
	warnings func(context.Context, *api.CustomResourceDefinition) []string
	// decoded counts what is read from the storage.
	decoded *atomic.Uint64
}

func (k *kinds) Kind(v *crd.Version) (resources.Kind, error) {
	raw, err := schema.Compile(&schema.Structural{
		Generic:    schema.Generic{Type: "object"},
		Extensions: schema.Extensions{XPreserveUnknownFields: true},
	}, schema.WithSemantics(schema.Kubernetes))
	if err != nil {
		return nil, err
	}
	return &kind{kinds: k, Version: v, raw: raw}, nil
}

func (k *kinds) Converter() resources.Converter { return converter{} }

// converter turns v1beta1 into v1 and back.
type converter struct{}

func (converter) Convert(obj schema.Object, to runtimeschema.GroupVersion) (schema.Object, error) {
	c, err := typed(obj)
	if err != nil {
		// It comes from the storage and is not served, see kind.Decode.
		out := maps.Clone(obj)
		out["apiVersion"] = to.String()
		return out, nil
	}
	return tree(c, to.String())
}

// typed reads a tree into the hub's types.
func typed(obj schema.Object) (*api.CustomResourceDefinition, error) {
	data, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	return codec.DecodeLenient(data)
}

// tree writes the hub's types as a tree of a version.
func tree(c *api.CustomResourceDefinition, apiVersion string) (schema.Object, error) {
	data, err := codec.Encode(c, apiVersion)
	if err != nil {
		return nil, err
	}
	return read(data)
}

// read makes a tree of JSON, with integers and floats apart.
func read(data []byte) (schema.Object, error) {
	obj := schema.Object{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &obj); err != nil {
		return nil, err
	}
	return obj, nil
}

// kind is one version of definitions.
type kind struct {
	*kinds
	*crd.Version
	// raw reads any object, and finds what is in it twice.
	raw *schema.Program
}

func (k *kind) Decode(src []byte, o schema.DecodeOptions) (schema.Object, []error, error) {
	decode := codec.Decode
	if o.FromStorage {
		decode = codec.DecodeLenient
		k.decoded.Add(1)
	}
	var complaints []error
	if !o.FromStorage {
		old, err := crd.Superseded(src, k.options.Semantics)
		if err != nil {
			return nil, nil, err
		}
		if len(old) > 0 {
			return nil, nil, old.ToAggregate()
		}
	}
	if o.Report {
		obj, report, err := k.raw.Decode(src, schema.DecodeOptions{Report: true})
		if err != nil {
			return nil, nil, err
		}
		for _, f := range report.DuplicateFields() {
			complaints = append(complaints, fmt.Errorf("duplicate field %q", f))
		}
		for _, f := range unknownFields(obj, k.goType(), k.options.Semantics != schema.Kubernetes) {
			complaints = append(complaints, fmt.Errorf("unknown field %q", f))
		}
	}
	if k.options.Semantics == schema.Kubernetes {
		src = api.DropForeign(src)
	}
	c, err := decode(src)
	if err != nil && o.FromStorage {
		// One that cannot be read is not served, but it can be seen and deleted.
		obj, _, err := k.raw.Decode(src, schema.DecodeOptions{FromStorage: true})
		if err == nil {
			obj["apiVersion"], obj["kind"] = k.GroupVersionKind().GroupVersion().String(), api.Kind
		}
		return obj, nil, err
	}
	if err != nil {
		return nil, nil, err
	}
	obj, err := tree(c, k.GroupVersionKind().GroupVersion().String())
	return obj, complaints, err
}

func (k *kind) goType() reflect.Type {
	if k.Name() == "v1beta1" {
		return reflect.TypeFor[v1beta1.CustomResourceDefinition]()
	}
	return reflect.TypeFor[api.CustomResourceDefinition]()
}

func (k *kind) Normalize(obj schema.Object, _ schema.DecodeOptions) error {
	return k.change(obj, func(*api.CustomResourceDefinition) {})
}

func (k *kind) Default(obj schema.Object) {
	// What cannot be read is for Validate to refuse.
	_ = k.change(obj, func(*api.CustomResourceDefinition) {})
}

// change lets f change a tree as the hub's types.
func (k *kind) change(obj schema.Object, f func(*api.CustomResourceDefinition)) error {
	c, err := typed(obj)
	if err != nil {
		return err
	}
	f(c)
	out, err := tree(c, k.GroupVersionKind().GroupVersion().String())
	if err != nil {
		return err
	}
	clear(obj)
	maps.Copy(obj, out)
	return nil
}

// What a tree cannot be turned into, Validate refuses: the errors that are dropped
// here come again there.

func (k *kind) PrepareCreate(_ context.Context, obj schema.Object) {
	_ = k.change(obj, crd.PrepareCreate)
}

func (k *kind) PrepareUpdate(_ context.Context, obj, old schema.Object) {
	before, err := typed(old)
	if err != nil {
		return
	}
	_ = k.change(obj, func(c *api.CustomResourceDefinition) { crd.PrepareUpdate(c, before) })
}

func (k *kind) PrepareStatusUpdate(_ context.Context, obj, old schema.Object) {
	k.Version.PrepareStatusUpdate(obj, old)
}

func (k *kind) Validate(ctx context.Context, obj, old schema.Object) field.ErrorList {
	return k.judge(ctx, obj, old, k.options).Errors
}

func (k *kind) Warnings(ctx context.Context, obj, old schema.Object) []string {
	o := k.options
	o.Rules, o.IgnoreRules = nil, true
	warnings := k.judge(ctx, obj, old, o).Warnings
	c, err := typed(obj)
	if err != nil {
		return warnings
	}
	return append(warnings, k.warnings(ctx, c)...)
}

// judge is what there is to say about a write of a definition.
func (k *kind) judge(ctx context.Context, obj, old schema.Object, o crd.Options) crd.Result {
	fail := func(err error) crd.Result {
		return crd.Result{Errors: field.ErrorList{field.InternalError(nil, err)}}
	}
	var before *api.CustomResourceDefinition
	if old != nil {
		var err error
		if before, err = typed(old); err != nil {
			return fail(err)
		}
	}
	if k.Name() == "v1beta1" {
		data, err := json.Marshal(obj)
		if err != nil {
			return fail(err)
		}
		c := &v1beta1.CustomResourceDefinition{}
		if err := api.Unmarshal(data, c); err != nil {
			return fail(err)
		}
		v1beta1.SetDefaults(c)
		if before != nil {
			return crd.ValidateUpdateV1beta1(ctx, c, before, o)
		}
		return crd.ValidateCreateV1beta1(ctx, c, o)
	}
	c, err := typed(obj)
	if err != nil {
		return fail(err)
	}
	if before != nil {
		return crd.ValidateUpdate(ctx, c, before, o)
	}
	return crd.ValidateCreate(ctx, c, o)
}

func (k *kind) ValidateStatus(ctx context.Context, obj, old schema.Object) field.ErrorList {
	c, err := typed(obj)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	before, err := typed(old)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	return crd.ValidateStatusUpdate(ctx, c, before)
}

// FromProtobuf turns the body of a typed client's request into JSON.
func (k *kind) FromProtobuf(data []byte) ([]byte, error) { return fromProtobuf(data) }
