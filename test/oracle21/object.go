package main

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/crdserverscheme"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type objectRequest struct {
	Object      json.RawMessage `json:"object"`
	Old         json.RawMessage `json:"old"`
	FromStorage bool            `json:"fromStorage"`
}

type objectAnswer struct {
	Error  string                 `json:"error,omitempty"`
	Panic  string                 `json:"panic,omitempty"`
	Object map[string]interface{} `json:"object,omitempty"`
	Errors []fieldError           `json:"errors,omitempty"`
}

// readSchema reads a schema in the format that v1 and v1beta1 share; empty data or null means
// no schema.
func readSchema(data []byte) (*apiextensions.JSONSchemaProps, error) {
	if len(data) == 0 || string(data) == "null" {
		return nil, nil
	}
	in := &v1.JSONSchemaProps{}
	if err := json.Unmarshal(data, in); err != nil {
		return nil, err
	}
	out := &apiextensions.JSONSchemaProps{}
	if err := v1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(in, out, nil); err != nil {
		return nil, err
	}
	return out, nil
}

// structural returns the structural errors of a schema.
func structural(data []byte) (answer, error) {
	props, err := readSchema(data)
	if err != nil {
		return answer{}, err
	}
	s, err := structuralschema.NewStructural(props)
	if err != nil {
		return answer{}, fmt.Errorf("no structural form: %w", err)
	}
	return answer{Errors: fieldErrors(structuralschema.ValidateStructural(nil, s))}, nil
}

// resource is one version of a custom resource, set up like getOrCreateServingInfoFor in
// pkg/apiserver/customresource_handler.go, which is not exported.
type resource struct {
	kind       schema.GroupVersionKind
	preserve   bool
	structural *structuralschema.Structural
	strategy   objectStrategy
}

type objectStrategy interface {
	Validate(ctx context.Context, obj runtime.Object) field.ErrorList
	ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList
}

func newResource(req *request) (*resource, error) {
	r := &resource{
		kind:     schema.GroupVersionKind{Group: req.Group, Version: req.Version, Kind: req.Kind},
		preserve: req.Preserve,
	}
	props, err := readSchema(req.Schema)
	if err != nil {
		return nil, err
	}
	var validationSchema *apiextensions.CustomResourceValidation
	if props != nil {
		validationSchema = &apiextensions.CustomResourceValidation{OpenAPIV3Schema: props}
		r.structural, err = structuralschema.NewStructural(props)
		if err != nil && !r.preserve {
			return nil, fmt.Errorf("no structural form: %w", err)
		}
		if !r.preserve {
			r.structural = r.structural.DeepCopy()
			if err := defaulting.PruneDefaults(r.structural); err != nil {
				return nil, err
			}
		}
	}
	validator, _, err := validation.NewSchemaValidator(validationSchema)
	if err != nil {
		return nil, err
	}
	r.strategy = customresource.NewStrategy(crdserverscheme.NewUnstructuredObjectTyper(), req.Namespaced, r.kind,
		validator, nil, map[string]*structuralschema.Structural{req.Version: r.structural}, nil, nil)
	return r, nil
}

// objects decodes and validates objects.
func objects(req *request) (answer, error) {
	r, err := newResource(req)
	if err != nil {
		return answer{}, err
	}
	var a answer
	for i := range req.Objects {
		a.Results = append(a.Results, r.object(&req.Objects[i]))
	}
	return a, nil
}

func (r *resource) object(req *objectRequest) (a objectAnswer) {
	defer func() {
		if p := recover(); p != nil {
			a = objectAnswer{Panic: fmt.Sprint(p)}
		}
	}()
	obj, err := r.decode(req.Object, req.FromStorage)
	if err != nil {
		return objectAnswer{Error: err.Error()}
	}
	var errs field.ErrorList
	if len(req.Old) > 0 {
		old, err := r.decode(req.Old, true)
		if err != nil {
			return objectAnswer{Error: "old: " + err.Error()}
		}
		errs = r.strategy.ValidateUpdate(context.Background(), obj.DeepCopy(), old)
	} else {
		errs = r.strategy.Validate(context.Background(), obj.DeepCopy())
	}
	return objectAnswer{Object: obj.Object, Errors: fieldErrors(errs)}
}

// decode does what unstructuredSchemaCoercer.apply and unstructuredDefaulter.Default
// in pkg/apiserver/customresource_handler.go do, which are not exported.
func (r *resource) decode(data []byte, fromStorage bool) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(data); err != nil {
		return nil, err
	}
	kind, foundKind, err := unstructured.NestedString(u.Object, "kind")
	if err != nil {
		return nil, err
	}
	apiVersion, foundAPIVersion, err := unstructured.NestedString(u.Object, "apiVersion")
	if err != nil {
		return nil, err
	}
	meta, foundMeta, err := objectmeta.GetObjectMeta(u.Object, fromStorage)
	if err != nil {
		return nil, err
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil, err
	}
	if gv != r.kind.GroupVersion() || kind != r.kind.Kind {
		return nil, fmt.Errorf("not an object of this resource: %s %s", apiVersion, kind)
	}
	if !r.preserve {
		pruning.Prune(u.Object, r.structural, false)
		defaulting.PruneNonNullableNullsWithoutDefaults(u.Object, r.structural)
	}
	if err := objectmeta.Coerce(nil, u.Object, r.structural, false, fromStorage); err != nil {
		return nil, err
	}
	if fromStorage && meta != nil && meta.Generation == 0 {
		meta.Generation = 1
	}
	if foundKind {
		u.SetKind(kind)
	}
	if foundAPIVersion {
		u.SetAPIVersion(apiVersion)
	}
	if foundMeta {
		if err := objectmeta.SetObjectMeta(u.Object, meta); err != nil {
			return nil, err
		}
	}
	defaulting.Default(u.Object, r.structural)
	return u, nil
}
