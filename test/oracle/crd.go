package oracle

import (
	"context"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// crdWith wraps a schema in a CRD that is otherwise valid.
func crdWith(props *apiextensions.JSONSchemaProps) *apiextensions.CustomResourceDefinition {
	preserve := false
	return &apiextensions.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "things.example.com", ResourceVersion: "1"},
		Spec: apiextensions.CustomResourceDefinitionSpec{
			Group:   testKind.Group,
			Version: testKind.Version,
			Versions: []apiextensions.CustomResourceDefinitionVersion{
				{Name: testKind.Version, Served: true, Storage: true},
			},
			Names: apiextensions.CustomResourceDefinitionNames{
				Plural: "things", Singular: "thing", Kind: testKind.Kind, ListKind: "ThingList",
			},
			Scope:                 apiextensions.NamespaceScoped,
			Conversion:            &apiextensions.CustomResourceConversion{Strategy: apiextensions.NoneConverter},
			PreserveUnknownFields: &preserve,
			Validation:            &apiextensions.CustomResourceValidation{OpenAPIV3Schema: props},
		},
		Status: apiextensions.CustomResourceDefinitionStatus{StoredVersions: []string{testKind.Version}},
	}
}

const schemaRoot = "spec.validation.openAPIV3Schema"

// Accepts returns the errors of the API server for a CRD with the schema: on create, or, if
// stored is set, on an update of the stored CRD, which ignores errors that older servers
// accepted. panicked reports whether the reference panics on the schema; there are no errors
// then.
func Accepts(props *apiextensions.JSONSchemaProps, stored bool) (errs field.ErrorList, panicked bool) {
	crd := crdWith(props)
	panicked = guard(func() {
		if stored {
			errs = validation.ValidateCustomResourceDefinitionUpdate(context.Background(), crd, crd.DeepCopy())
		} else {
			errs = validation.ValidateCustomResourceDefinition(context.Background(), crd)
		}
	}) != ""
	return errs, panicked
}

// accepts reports whether the API server accepts a CRD with the schema.
func accepts(props *apiextensions.JSONSchemaProps, stored bool) bool {
	errs, panicked := Accepts(props, stored)
	return len(errs) == 0 && !panicked
}

// dropDefaults removes the defaults that errs are about from a schema and reports whether
// there were any.
func dropDefaults(schema map[string]any, errs field.ErrorList) bool {
	dropped := false
	walkSchemas(schema, schemaRoot, func(path string, s map[string]any) {
		if _, ok := s["default"]; !ok {
			return
		}
		for _, e := range errs {
			if rest, ok := strings.CutPrefix(e.Field, path+".default"); ok && (rest == "" || strings.ContainsAny(rest[:1], ".[")) {
				delete(s, "default")
				dropped = true
				return
			}
		}
	})
	return dropped
}

// walkSchemas visits a schema and those below it, outside of logical operators.
func walkSchemas(s map[string]any, path string, visit func(path string, s map[string]any)) {
	visit(path, s)
	if items, ok := s["items"].(map[string]any); ok {
		walkSchemas(items, path+".items", visit)
	}
	if props, ok := s["properties"].(map[string]any); ok {
		for _, k := range sortedKeys(props) {
			if p, ok := props[k].(map[string]any); ok {
				walkSchemas(p, path+".properties["+k+"]", visit)
			}
		}
	}
	if ap, ok := s["additionalProperties"].(map[string]any); ok {
		walkSchemas(ap, path+".additionalProperties", visit)
	}
}

func schemaOf(v any) map[string]any {
	m, _ := v.(map[string]any)
	s, _ := m["openAPIV3Schema"].(map[string]any)
	return s
}
