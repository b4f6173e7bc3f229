package main

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apioperation "k8s.io/apimachinery/pkg/api/operation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// reference does what kube-apiserver does to an object on create, with its packages and in
// its order: the request decoder of customresource_handler.go, then Validate of the custom
// resource strategy, without CEL rules.
type reference struct {
	props      *apiextensions.JSONSchemaProps
	structural *structuralschema.Structural
	validator  validation.SchemaValidator
}

func newReference(schema []byte) (*reference, error) {
	var props apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal(schema, &props); err != nil {
		return nil, fmt.Errorf("reference: reading the schema: %w", err)
	}
	r := &reference{props: &apiextensions.JSONSchemaProps{}}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&props, r.props, nil); err != nil {
		return nil, fmt.Errorf("reference: converting the schema: %w", err)
	}
	return r, r.compile()
}

// compile compiles the schema. It copies props because pruning the defaults modifies them.
func (r *reference) compile() error {
	s, err := structuralschema.NewStructural(r.props)
	if err != nil {
		return fmt.Errorf("reference: %w", err)
	}
	s = s.DeepCopy()
	if err := defaulting.PruneDefaults(s); err != nil {
		return fmt.Errorf("reference: %w", err)
	}
	v, _, err := validation.NewSchemaValidator(r.props)
	if err != nil {
		return fmt.Errorf("reference: %w", err)
	}
	r.structural, r.validator = s, v
	return nil
}

// parse decodes without a schema.
func (r *reference) parse(src []byte) (map[string]any, error) {
	obj := map[string]any{}
	err := kjson.UnmarshalCaseSensitivePreserveInts(src, &obj)
	return obj, err
}

func (r *reference) decode(src []byte) (map[string]any, error) {
	obj, err := r.parse(src)
	if err != nil {
		return nil, err
	}
	_, err = r.coerce(obj, false)
	return obj, err
}

// coerce prunes and applies defaults. With track it returns the dropped fields.
func (r *reference) coerce(obj map[string]any, track bool) ([]string, error) {
	u := &unstructured.Unstructured{Object: obj}
	kind, foundKind, err := unstructured.NestedString(obj, "kind")
	if err != nil {
		return nil, err
	}
	apiVersion, foundAPIVersion, err := unstructured.NestedString(obj, "apiVersion")
	if err != nil {
		return nil, err
	}
	meta, foundMeta, unknown, err := objectmeta.GetObjectMetaWithOptions(obj, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: track})
	if err != nil {
		return nil, err
	}
	unknown = append(unknown, pruning.PruneWithOptions(obj, r.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: track})...)
	defaulting.PruneNonNullableNullsWithoutDefaults(obj, r.structural)
	fieldErr, paths := objectmeta.CoerceWithOptions(nil, obj, r.structural, false, objectmeta.CoerceOptions{ReturnUnknownFieldPaths: track})
	if fieldErr != nil {
		return nil, fieldErr
	}
	unknown = append(unknown, paths...)
	if foundKind {
		u.SetKind(kind)
	}
	if foundAPIVersion {
		u.SetAPIVersion(apiVersion)
	}
	if foundMeta {
		if err := objectmeta.SetObjectMeta(obj, meta); err != nil {
			return nil, err
		}
	}
	defaulting.Default(obj, r.structural)
	return unknown, nil
}

func (r *reference) validate(ctx context.Context, obj map[string]any) field.ErrorList {
	errs := validation.ValidateCustomResource(nil, obj, r.validator)
	errs = append(errs, objectmeta.Validate(ctx, nil, obj, r.structural, false)...)
	return append(errs, listtype.ValidateListSetsAndMaps(nil, r.structural, obj)...)
}

func (r *reference) prune(obj map[string]any) error {
	pruning.Prune(obj, r.structural, true)
	return nil
}

// create does what the server does to an object before storing it, on a copy of the tree: it
// decodes the object, reports the dropped fields, and validates it with its metadata.
func (r *reference) create(ctx context.Context, obj map[string]any) (map[string]any, field.ErrorList, error) {
	obj = runtime.DeepCopyJSON(obj)
	if _, err := r.coerce(obj, true); err != nil {
		return nil, nil, err
	}
	u := &unstructured.Unstructured{Object: obj}
	if u.GetNamespace() == "" {
		u.SetNamespace("default")
	}
	for _, k := range []string{"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} {
		unstructured.RemoveNestedField(obj, "metadata", k)
	}
	u.SetGeneration(1)
	if u.GetName() == "" && u.GetGenerateName() != "" {
		// The name is generated before validation; each side would generate a different one.
		u.SetName(u.GetGenerateName() + "00000")
		defer u.SetName("")
	}
	meta := &metav1.ObjectMeta{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj["metadata"].(map[string]any), meta); err != nil {
		return nil, nil, err
	}
	errs := apivalidation.ValidateObjectMetaDeclaratively(ctx, apioperation.Create, meta, nil, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"), true)
	return obj, append(errs, r.validate(ctx, obj)...), nil
}
