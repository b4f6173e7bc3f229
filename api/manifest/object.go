package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
)

// FromObject returns the CRD in a Go value: anything that marshals to the JSON of a
// CRD, such as an unstructured object or a struct of package api, api/v1beta1 or
// k8s.io/apiextensions-apiserver. Structs need not have an apiVersion and kind: their
// type determines them.
func FromObject(v any) (CRD, error) {
	switch v.(type) {
	case nil:
		return CRD{}, errors.New("the CRD is nil")
	case string, []byte:
		return CRD{}, fmt.Errorf("a %T is not an object", v)
	}
	content := v
	if u, ok := v.(unstructured.Unstructured); ok {
		content = u.Object // its methods, such as MarshalJSON, belong to the pointer
	}
	src, err := json.Marshal(content)
	if err != nil {
		return CRD{}, fmt.Errorf("marshal a %T: %w", v, err)
	}
	if string(src) == "null" {
		return CRD{}, fmt.Errorf("the %T is nil", v)
	}
	id, err := api.Identify(src)
	if err != nil {
		return CRD{}, err
	}
	if id == (metav1.TypeMeta{}) {
		if id = typeMetaOf(reflect.TypeOf(v)); id != (metav1.TypeMeta{}) {
			if src, err = withTypeMeta(src, id); err != nil {
				return CRD{}, err
			}
		}
	}
	var c Contents
	if err := c.add("", src, 0); err != nil {
		return CRD{}, err
	}
	if err := c.Check(); err != nil {
		return CRD{}, fmt.Errorf("a %T is not a CRD: %w", v, err)
	}
	if n := len(c.CRDs); n > 1 {
		return CRD{}, fmt.Errorf("a %T is a list of %d CRDs: expected one", v, n)
	}
	return c.CRDs[0], nil
}

// typeMetaOf returns the apiVersion and kind of a CRD struct. It recognizes structs by
// the names of their type and package, because the product must not import
// k8s.io/apiextensions-apiserver.
func typeMetaOf(t reflect.Type) metav1.TypeMeta {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Name() != api.Kind {
		return metav1.TypeMeta{}
	}
	switch {
	case t == reflect.TypeFor[api.CustomResourceDefinition](), path.Base(t.PkgPath()) == "v1":
		return metav1.TypeMeta{APIVersion: api.APIVersion, Kind: api.Kind}
	case path.Base(t.PkgPath()) == "v1beta1":
		return metav1.TypeMeta{APIVersion: v1beta1.APIVersion, Kind: api.Kind}
	}
	return metav1.TypeMeta{}
}

// withTypeMeta returns the JSON of an object with another apiVersion and kind.
func withTypeMeta(src []byte, id metav1.TypeMeta) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := api.Unmarshal(src, &members); err != nil {
		return nil, err
	}
	for key, value := range map[string]string{"apiVersion": id.APIVersion, "kind": id.Kind} {
		quoted, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		members[key] = quoted
	}
	return json.Marshal(members)
}
