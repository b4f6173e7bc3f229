package oracle

import (
	"errors"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"espalier.dev"
)

// TestFromObject passes Kubernetes' CRD types to the library, as a controller does: without
// apiVersion and kind.
func TestFromObject(t *testing.T) {
	one := float64(1)
	props := apiextensionsv1.JSONSchemaProps{
		Type: "object",
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"replicas": {Type: "integer", Minimum: &one, Default: &apiextensionsv1.JSON{Raw: []byte("3")}},
			"names":    {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}}},
		},
	}
	v1 := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "things.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com",
			Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &props},
			}},
		},
	}
	named := v1.DeepCopy()
	named.APIVersion, named.Kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
	preserve := false
	beta := &apiextensionsv1beta1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "things.example.com"},
		Spec: apiextensionsv1beta1.CustomResourceDefinitionSpec{
			Group: "example.com", Version: "v1",
			Scope:                 apiextensionsv1beta1.ClusterScoped,
			PreserveUnknownFields: &preserve,
			Names:                 apiextensionsv1beta1.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing"},
			Validation: &apiextensionsv1beta1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1beta1.JSONSchemaProps{
				Type: "object",
				Properties: map[string]apiextensionsv1beta1.JSONSchemaProps{
					"replicas": {Type: "integer", Minimum: &one, Default: &apiextensionsv1beta1.JSON{Raw: []byte("3")}},
				},
			}},
		},
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(named)
	if err != nil {
		t.Fatal(err)
	}
	for name, crd := range map[string]any{"v1": v1, "v1 value": *v1, "v1 with a kind": named, "v1beta1": beta, "converted": tree} {
		t.Run(name, func(t *testing.T) {
			a, err := espalier.FromObject(t.Context(), crd)
			if err != nil {
				t.Fatal(err)
			}
			thing := espalier.Object{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "t"}, "unknown": true}
			result, err := a.Create(t.Context(), thing)
			if err != nil || result.Err() != nil {
				t.Fatal(err, result.Err())
			}
			if result.Object["replicas"] != int64(3) || result.Object["unknown"] != nil {
				t.Errorf("got %v", result.Object)
			}
			thing["replicas"] = 0
			if result, err = a.Create(t.Context(), thing); err != nil || result.Err() == nil {
				t.Errorf("got %v, %v; want a violation", result, err)
			}
		})
	}
	broken := v1.DeepCopy()
	broken.Spec.Scope = "Global"
	_, err = espalier.FromObject(t.Context(), broken)
	if invalid, ok := errors.AsType[*espalier.InvalidError](err); !ok || invalid.Errors[0].Field != "spec.scope" {
		t.Errorf("got %v", err)
	}
}
