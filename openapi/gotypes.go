package openapi

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/common"
)

// Types has the definitions of Go types, as they are in OpenAPI v3 documents. It is safe for
// concurrent use. Definitions must not be changed.
type Types struct{ library library }

// NewTypes returns Types. A definition is made when it is first needed.
func NewTypes() *Types { return &Types{library: library{prefix: prefixV3}} }

// Definitions returns the definitions of one of Kubernetes' types and of all types that it refers
// to, and the name of its own definition. References are their names after SchemaPrefix.
func (t *Types) Definitions(of reflect.Type) (name string, definitions map[string]common.OpenAPIDefinition, err error) {
	definitions, err = t.library.get(of)
	if err != nil {
		return "", nil, err
	}
	return t.library.types.name(of), definitions, nil
}

// CustomResourceDefinition returns the same for CustomResourceDefinition in version v1 or v1beta1
// of apiextensions.k8s.io.
func (t *Types) CustomResourceDefinition(version string) (name string, definitions map[string]common.OpenAPIDefinition, err error) {
	r, own, err := definitionsResource(version, prefixV3)
	if err != nil {
		return "", nil, err
	}
	_, definitions, err = t.Definitions(reflect.TypeFor[metav1.ObjectMeta]())
	if err != nil {
		return "", nil, err
	}
	for name, d := range own {
		definitions[name] = d
	}
	return r.object, definitions, nil
}

// SchemaPrefix is the prefix of references in OpenAPI v3 documents.
const SchemaPrefix = prefixV3
