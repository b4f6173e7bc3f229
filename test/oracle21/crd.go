package main

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// definitions decodes, encodes and validates CRDs.
type definitions struct {
	scheme   *runtime.Scheme
	decoder  runtime.Decoder
	strategy strategy
}

// strategy is the create and update strategy of the CRD registry. Its type is not exported.
type strategy interface {
	PrepareForCreate(ctx context.Context, obj runtime.Object)
	Validate(ctx context.Context, obj runtime.Object) field.ErrorList
	PrepareForUpdate(ctx context.Context, obj, old runtime.Object)
	ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList
}

func newDefinitions() (*definitions, error) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	codecs := serializer.NewCodecFactory(scheme)
	return &definitions{
		scheme:   scheme,
		decoder:  codecs.UniversalDecoder(apiextensions.SchemeGroupVersion),
		strategy: customresourcedefinition.NewStrategy(scheme),
	}, nil
}

// read decodes a CRD, applies the defaults of its API version, and returns both.
func (d *definitions) read(data []byte) (*apiextensions.CustomResourceDefinition, schema.GroupVersion, error) {
	obj, kind, err := d.decoder.Decode(data, nil, nil)
	if err != nil {
		return nil, schema.GroupVersion{}, err
	}
	crd, ok := obj.(*apiextensions.CustomResourceDefinition)
	if !ok {
		return nil, schema.GroupVersion{}, fmt.Errorf("not a CustomResourceDefinition but %T", obj)
	}
	return crd, kind.GroupVersion(), nil
}

// write returns the CRD in both API versions.
func (d *definitions) write(crd *apiextensions.CustomResourceDefinition) (a answer, err error) {
	if a.V1beta1, err = d.encode(crd, v1beta1.SchemeGroupVersion); err != nil {
		return answer{}, err
	}
	if a.V1, err = d.encode(crd, v1.SchemeGroupVersion); err != nil {
		return answer{}, err
	}
	return a, nil
}

func (d *definitions) encode(crd *apiextensions.CustomResourceDefinition, version schema.GroupVersion) ([]byte, error) {
	// The conversion shares memory with its source.
	out, err := d.scheme.ConvertToVersion(crd.DeepCopy(), version)
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

func (d *definitions) convert(data []byte) (answer, error) {
	crd, _, err := d.read(data)
	if err != nil {
		return answer{}, err
	}
	return d.write(crd)
}

// create does what rest.BeforeCreate and the strategy do to a CRD.
func (d *definitions) create(data []byte) (answer, error) {
	crd, version, err := d.read(data)
	if err != nil {
		return answer{}, err
	}
	ctx := requestContext(version)
	d.strategy.PrepareForCreate(ctx, crd)
	errs := d.strategy.Validate(ctx, crd)
	a, err := d.write(crd)
	a.Errors = fieldErrors(errs)
	return a, err
}

// update does what rest.BeforeUpdate and the strategy do to a CRD.
func (d *definitions) update(data, oldData []byte) (answer, error) {
	crd, version, err := d.read(data)
	if err != nil {
		return answer{}, err
	}
	old, _, err := d.read(oldData)
	if err != nil {
		return answer{}, fmt.Errorf("old: %w", err)
	}
	ctx := requestContext(version)
	d.strategy.PrepareForUpdate(ctx, crd, old)
	errs := d.strategy.ValidateUpdate(ctx, crd, old)
	a, err := d.write(crd)
	a.Errors = fieldErrors(errs)
	return a, err
}

// requestContext returns the context of a request in an API version, which the strategy
// reads.
func requestContext(version schema.GroupVersion) context.Context {
	return genericapirequest.WithRequestInfo(context.Background(), &genericapirequest.RequestInfo{
		IsResourceRequest: true, APIGroup: version.Group, APIVersion: version.Version,
	})
}
