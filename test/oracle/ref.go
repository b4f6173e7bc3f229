package oracle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/crdserverscheme"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/cel/common"
	kjson "sigs.k8s.io/json"
)

// The kind of generated objects.
var (
	testKind       = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}
	testAPIVersion = testKind.GroupVersion().String()
)

// Mode is the origin of an object's bytes.
type Mode int

const (
	// FromRequest is the body of a request.
	FromRequest Mode = iota
	// FromStorage is a value in etcd.
	FromStorage
)

// Decoded is the result of decoding an object.
type Decoded struct {
	Object map[string]any
	// Unknown are the paths of the dropped unknown fields, sorted.
	Unknown []string
	// Duplicate are the paths of the duplicate fields, sorted.
	Duplicate []string
	Err       error
}

// Reference is a schema compiled by the reference.
type Reference struct {
	kind schema.GroupVersionKind
	// raw is the structural schema as NewStructural returns it.
	raw *structuralschema.Structural
	// structural is the same with pruned defaults, as in the handler.
	structural *structuralschema.Structural
	validator  validation.SchemaValidator
	preserve   bool
	strategy   strategy
}

// strategy is the validating part of the reference's create and update strategy, whose type
// is not exported.
type strategy interface {
	Validate(ctx context.Context, obj runtime.Object) field.ErrorList
	ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList
}

// ReferenceSchema reads a v1 schema as the reference does.
func ReferenceSchema(schemaJSON []byte) (*apiextensions.JSONSchemaProps, error) {
	in := &apiextensionsv1.JSONSchemaProps{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(schemaJSON, in); err != nil {
		return nil, err
	}
	out := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(in, out, nil); err != nil {
		return nil, err
	}
	return out, nil
}

// ReferenceStructural returns the structural form of a schema and its violations, or an error
// if it has no structural form.
func ReferenceStructural(props *apiextensions.JSONSchemaProps) (*structuralschema.Structural, field.ErrorList, error) {
	s, err := structuralschema.NewStructural(props)
	if err != nil {
		return nil, nil, err
	}
	return s, structuralschema.ValidateStructural(nil, s.DeepCopy()), nil
}

// NewReference compiles a schema as the handler of custom resources does for one version of a
// CRD. schemaJSON is nil if there is no schema.
func NewReference(schemaJSON []byte, kind schema.GroupVersionKind, namespaced, preserve bool) (*Reference, error) {
	r := &Reference{kind: kind, preserve: preserve}
	var props *apiextensions.JSONSchemaProps
	if schemaJSON != nil {
		var err error
		if props, err = ReferenceSchema(schemaJSON); err != nil {
			return nil, err
		}
		if r.raw, err = structuralschema.NewStructural(props); err != nil {
			return nil, err
		}
		// Rules are compared separately.
		stripRules(r.raw)
		r.structural = r.raw
		if !preserve {
			r.structural = r.raw.DeepCopy()
			if err := defaulting.PruneDefaults(r.structural); err != nil {
				return nil, err
			}
		}
	}
	var err error
	if r.validator, _, err = validation.NewSchemaValidator(props); err != nil {
		return nil, err
	}
	r.strategy = customresource.NewStrategy(crdserverscheme.NewUnstructuredObjectTyper(), namespaced, kind, r.validator, nil, r.structural, nil, nil, nil)
	return r, nil
}

func stripRules(s *structuralschema.Structural) {
	v := structuralschema.Visitor{
		Structural: func(s *structuralschema.Structural) bool {
			s.XValidations = nil
			return true
		},
		NestedValueValidation: func(v *structuralschema.NestedValueValidation) bool {
			v.XValidations = nil
			return true
		},
	}
	v.Visit(s)
}

var errNotThisResource = errors.New("not an object of this resource")

// Decode does what the server does to the bytes of an object before admission, or after
// reading them from storage. It combines the exported parts of the reference as
// unstructuredSchemaCoercer.apply and unstructuredDefaulter.Default in
// pkg/apiserver/customresource_handler.go do, which are not exported.
func (r *Reference) Decode(data []byte, mode Mode) Decoded {
	obj := map[string]any{}
	strict, err := kjson.UnmarshalStrict(data, &obj)
	if err != nil {
		return Decoded{Err: err}
	}
	if obj == nil {
		return Decoded{Err: errNotThisResource}
	}
	var d Decoded
	for _, e := range strict {
		// For an untyped object the decoder reports nothing else.
		dup, ok := e.(kjson.FieldError)
		if !ok || !strings.HasPrefix(e.Error(), "duplicate field ") {
			return Decoded{Err: fmt.Errorf("unexpected strict decoding error: %w", e)}
		}
		d.Duplicate = append(d.Duplicate, dup.FieldPath())
	}

	u := &unstructured.Unstructured{Object: obj}
	kind, foundKind, err := unstructured.NestedString(obj, "kind")
	if err != nil {
		return Decoded{Err: err}
	}
	apiVersion, foundAPIVersion, err := unstructured.NestedString(obj, "apiVersion")
	if err != nil {
		return Decoded{Err: err}
	}
	if kind != r.kind.Kind || apiVersion != r.kind.GroupVersion().String() {
		return Decoded{Err: errNotThisResource}
	}
	drop := mode == FromStorage
	report := mode == FromRequest
	meta, foundMeta, unknown, err := objectmeta.GetObjectMetaWithOptions(obj, objectmeta.ObjectMetaOptions{
		DropMalformedFields:     drop,
		ReturnUnknownFieldPaths: report,
	})
	if err != nil {
		return Decoded{Err: err}
	}
	if !r.preserve {
		unknown = append(unknown, pruning.PruneWithOptions(obj, r.structural, true, structuralschema.UnknownFieldPathOptions{
			TrackUnknownFieldPaths: report,
		})...)
		defaulting.PruneNonNullableNullsWithoutDefaults(obj, r.structural)
	}
	ferr, paths := objectmeta.CoerceWithOptions(nil, obj, r.structural, false, objectmeta.CoerceOptions{
		DropInvalidFields:       drop,
		ReturnUnknownFieldPaths: report,
	})
	if ferr != nil {
		return Decoded{Err: ferr}
	}
	unknown = append(unknown, paths...)
	if drop && meta != nil && meta.Generation == 0 {
		meta.Generation = 1
	}
	if foundKind {
		u.SetKind(kind)
	}
	if foundAPIVersion {
		u.SetAPIVersion(apiVersion)
	}
	if foundMeta {
		if err := objectmeta.SetObjectMeta(obj, meta); err != nil {
			return Decoded{Err: err}
		}
	}
	defaulting.Default(obj, r.structural)
	d.Object, d.Unknown = obj, unknown
	return d
}

// Validate validates an object as on create, or on update if old is not nil, without the
// object's own apiVersion, kind and metadata.
func (r *Reference) Validate(obj, old map[string]any) field.ErrorList {
	ctx := context.Background()
	if old == nil {
		errs := validation.ValidateCustomResource(nil, obj, r.validator)
		errs = append(errs, objectmeta.Validate(ctx, nil, obj, r.structural, false)...)
		return append(errs, listtype.ValidateListSetsAndMaps(nil, r.structural, obj)...)
	}
	correlated := common.NewCorrelatedObject(obj, old, &model.Structural{Structural: r.structural})
	errs := validation.ValidateCustomResourceUpdate(nil, obj, old, r.validator, validation.WithRatcheting(correlated))
	errs = append(errs, objectmeta.Validate(ctx, nil, obj, r.structural, false)...)
	if len(listtype.ValidateListSetsAndMaps(nil, r.structural, old)) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, r.structural, obj)...)
	}
	return errs
}

// ValidateIdentity is Validate with the object's apiVersion, kind and metadata, by the
// reference's strategy.
func (r *Reference) ValidateIdentity(obj, old map[string]any) field.ErrorList {
	u := &unstructured.Unstructured{Object: obj}
	if old == nil {
		return r.strategy.Validate(context.Background(), u)
	}
	return r.strategy.ValidateUpdate(context.Background(), u, &unstructured.Unstructured{Object: old})
}

// Structural returns the schema with pruned defaults.
func (r *Reference) Structural() *structuralschema.Structural { return r.structural }

// mustJSON encodes a tree that is known to be JSON.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
