// Package codec decodes and encodes CRDs in all versions. It represents them with the
// types of package api.
package codec

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
)

// Decode decodes a CRD from JSON, sets the defaults of its version and converts it to
// v1. The error contains the path of the problem.
//
// A v1beta1 CRD that sets a value both for all versions and for a version, or names two
// different first versions, is an error, because v1 can represent only one of the two.
// [DecodeLenient] accepts such a CRD.
func Decode(data []byte) (*api.CustomResourceDefinition, error) {
	return decode(data, func(crd *v1beta1.CustomResourceDefinition) error {
		return v1beta1.CheckForm(crd).ToAggregate()
	})
}

// DecodeLenient is Decode for CRDs that may be invalid, as in a linter: if v1beta1 has
// two values, it uses the one at the top.
func DecodeLenient(data []byte) (*api.CustomResourceDefinition, error) {
	return decode(data, func(*v1beta1.CustomResourceDefinition) error { return nil })
}

func decode(data []byte, check func(*v1beta1.CustomResourceDefinition) error) (*api.CustomResourceDefinition, error) {
	id, err := api.Identify(data)
	if err != nil || id.Kind != api.Kind {
		return nil, unknown(data, fmt.Errorf("kind: expected %s, got %q", api.Kind, id.Kind))
	}
	switch id.APIVersion {
	case api.APIVersion:
		crd := &api.CustomResourceDefinition{}
		if err := api.Unmarshal(data, crd); err != nil {
			return nil, err
		}
		api.SetDefaults(crd)
		return crd, nil
	case v1beta1.APIVersion:
		crd := &v1beta1.CustomResourceDefinition{}
		if err := api.Unmarshal(data, crd); err != nil {
			return nil, err
		}
		v1beta1.SetDefaults(crd)
		if err := check(crd); err != nil {
			return nil, err
		}
		return v1beta1.IntoV1(crd)
	}
	return nil, unknown(data, fmt.Errorf("apiVersion: expected %s or %s, got %q", api.APIVersion, v1beta1.APIVersion, id.APIVersion))
}

// unknown returns why data is not a CRD. Invalid JSON and an apiVersion or kind that is
// not a string take precedence over err.
func unknown(data []byte, err error) error {
	if worse := api.Unmarshal(data, &metav1.TypeMeta{}); worse != nil {
		return worse
	}
	return err
}

// Encode encodes a CRD as JSON in the given apiVersion.
func Encode(crd *api.CustomResourceDefinition, apiVersion string) ([]byte, error) {
	switch apiVersion {
	case api.APIVersion:
		out := *crd
		out.TypeMeta = metav1.TypeMeta{APIVersion: api.APIVersion, Kind: api.Kind}
		return json.Marshal(&out)
	case v1beta1.APIVersion:
		return json.Marshal(v1beta1.FromV1Shared(crd))
	}
	return nil, fmt.Errorf("apiVersion: expected %s or %s, got %q", api.APIVersion, v1beta1.APIVersion, apiVersion)
}
