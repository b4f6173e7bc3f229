package policies

import (
	"fmt"
	"reflect"
	"sync"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"espalier.dev/openapi"
	"espalier.dev/server/fields"
)

// builtinTypes has the types by which objects of Kubernetes' own kinds are merged. They are made from
// the definitions of OpenAPI, a kind at a time when it is needed.
type builtinTypes struct {
	scheme *apiruntime.Scheme
	types  *openapi.Types

	mu   sync.Mutex
	made map[runtimeschema.GroupVersionKind]managedfields.TypeConverter
}

func newBuiltinTypes(scheme *apiruntime.Scheme) *builtinTypes {
	return &builtinTypes{scheme: scheme, types: openapi.NewTypes(), made: map[runtimeschema.GroupVersionKind]managedfields.TypeConverter{}}
}

// of returns the types of a kind.
func (t *builtinTypes) of(gvk runtimeschema.GroupVersionKind) (managedfields.TypeConverter, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.made[gvk]; known != nil {
		return known, nil
	}
	obj, err := t.scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	name, definitions, err := t.types.Definitions(reflect.TypeOf(obj).Elem())
	if err != nil {
		return nil, fmt.Errorf("types of %s: %w", gvk, err)
	}
	schemas := map[string]*spec.Schema{}
	for key, d := range definitions {
		if d.Schema.Format == "int-or-string" {
			d.Schema.Type, d.Schema.OneOf = spec.StringOrArray{"string"}, nil // as in OpenAPI v2: a value without structure
		}
		schemas[key] = &d.Schema
	}
	schemas[name].VendorExtensible.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind}})
	made, err := managedfields.NewTypeConverter(schemas, false)
	if err != nil {
		return nil, fmt.Errorf("types of %s: %w", gvk, err)
	}
	t.made[gvk] = &fields.Bounded{TypeConverter: made}
	return t.made[gvk], nil
}
