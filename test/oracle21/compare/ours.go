package compare

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// readBeta reads a v1beta1 CRD and applies its defaults.
func readBeta(data []byte) (*v1beta1.CustomResourceDefinition, error) {
	def := &v1beta1.CustomResourceDefinition{}
	if err := api.Unmarshal(data, def); err != nil {
		return nil, err
	}
	v1beta1.SetDefaults(def)
	return def, nil
}

func options() crd.Options {
	// 1.21 does not support rules, and drops them.
	return crd.Options{Semantics: schema.Kubernetes, IgnoreRules: true}
}

// create validates a new v1beta1 CRD, with the status that the server sets.
func create(def *v1beta1.CustomResourceDefinition) field.ErrorList {
	def.Status = api.CustomResourceDefinitionStatus{}
	def.Generation = 1
	storeVersion(def)
	return crd.ValidateCreateV1beta1(context.Background(), def, options()).Errors
}

// update validates an update of the v1beta1 CRD old.
func update(def, old *v1beta1.CustomResourceDefinition) (field.ErrorList, error) {
	hub, err := v1beta1.ToV1(old)
	if err != nil {
		return nil, err
	}
	def.Status = old.DeepCopy().Status
	storeVersion(def)
	return crd.ValidateUpdateV1beta1(context.Background(), def, hub, options()).Errors, nil
}

// storeVersion adds the storage version to the status.
func storeVersion(def *v1beta1.CustomResourceDefinition) {
	for _, v := range def.Spec.Versions {
		if !v.Storage {
			continue
		}
		for _, stored := range def.Status.StoredVersions {
			if stored == v.Name {
				return
			}
		}
		def.Status.StoredVersions = append(def.Status.StoredVersions, v.Name)
		return
	}
}

// structural returns the structural errors of a schema, or an error if it has no structural
// form.
func structural(props *api.JSONSchemaProps) (*schema.Structural, field.ErrorList, error) {
	s, err := schema.NewStructural(props)
	if err != nil {
		return nil, nil, err
	}
	var errs field.ErrorList
	for _, f := range schema.Check(s, schema.Kubernetes) {
		if f.Refused {
			errs = append(errs, f.FieldError(nil))
		}
	}
	return s, errs, nil
}

// program compiles a schema for objects.
func program(props *api.JSONSchemaProps, id schema.Identity, preserve bool) (*schema.Program, error) {
	s, err := schema.NewStructural(props)
	if err != nil {
		return nil, err
	}
	opts := []schema.Option{schema.WithSemantics(schema.Kubernetes), schema.WithoutRules(), schema.WithIdentity(id)}
	if preserve {
		opts = append(opts, schema.WithPreserveUnknownFields())
	}
	return schema.Compile(s, opts...)
}

// ourErrors converts errors to the reference's format.
func ourErrors(errs field.ErrorList) []Error {
	var out []Error
	for _, e := range errs {
		f := Error{Field: e.Field, Type: e.Type, Detail: e.Detail}
		if b, err := json.Marshal(e.BadValue); err == nil {
			f.Value = b
		}
		out = append(out, f)
	}
	return out
}
