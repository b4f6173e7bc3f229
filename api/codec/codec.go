// Package codec reads and writes CustomResourceDefinitions in every version there
// is. In between they are of the hub's types, those of package api.
package codec

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
)

// Decode reads a definition from JSON, fills in the defaults of the version that it
// is written in and converts it to the hub. The error says what is wrong and at
// which path.
//
// Of a v1beta1 definition that gives a value both for all versions and for one, or
// two names of the first version, only one can be kept: that is an error too.
// [DecodeLenient] takes such a definition all the same.
func Decode(data []byte) (*api.CustomResourceDefinition, error) {
	return decode(data, func(crd *v1beta1.CustomResourceDefinition) error {
		return v1beta1.CheckForm(crd).ToAggregate()
	})
}

// DecodeLenient is Decode for definitions that need not be right, as a linter sees
// them: where v1beta1 gives two values, the one at the top is taken.
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

// unknown returns why data is not a CustomResourceDefinition: text that is not JSON
// and an apiVersion or kind that is not a string are worse than err.
func unknown(data []byte, err error) error {
	if worse := api.Unmarshal(data, &metav1.TypeMeta{}); worse != nil {
		return worse
	}
	return err
}

// Encode writes a definition as JSON in the given apiVersion.
func Encode(crd *api.CustomResourceDefinition, apiVersion string) ([]byte, error) {
	switch apiVersion {
	case api.APIVersion:
		out := *crd
		out.TypeMeta = metav1.TypeMeta{APIVersion: api.APIVersion, Kind: api.Kind}
		return json.Marshal(&out)
	case v1beta1.APIVersion:
		return json.Marshal(v1beta1.FromV1(crd))
	}
	return nil, fmt.Errorf("apiVersion: expected %s or %s, got %q", api.APIVersion, v1beta1.APIVersion, apiVersion)
}
