package openapi

import (
	_ "embed" // for docs.json
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
)

// docsJSON has the doc comments of the API types by package, type and field. A test
// generates it.
//
//go:embed docs.json
var docsJSON []byte

// definitionsName is the prefix of the names of the definitions of an API version.
// Tools rely on these names.
const definitionsName = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions."

// DefinitionsV3 returns the OpenAPI v3 document of the resource
// CustomResourceDefinition in version v1 or v1beta1 of apiextensions.k8s.io.
func (b *Builder) DefinitionsV3(version string) (*spec3.OpenAPI, error) {
	r, definitions, err := definitionsResource(version, prefixV3)
	if err != nil {
		return nil, err
	}
	return b.buildV3(r, definitions)
}

// DefinitionsV2 returns the same in OpenAPI v2.
func (b *Builder) DefinitionsV2(version string) (*spec.Swagger, error) {
	r, definitions, err := definitionsResource(version, prefixV2)
	if err != nil {
		return nil, err
	}
	return b.buildV2(r, definitions)
}

func definitionsResource(version, prefix string) (*resource, map[string]common.OpenAPIDefinition, error) {
	var docs map[string]map[string]map[string]string
	if err := json.Unmarshal(docsJSON, &docs); err != nil {
		return nil, nil, fmt.Errorf("documentation of the API types: %w", err)
	}
	object, list := reflect.TypeFor[api.CustomResourceDefinition](), reflect.TypeFor[api.CustomResourceDefinitionList]()
	switch version {
	case api.Version:
	case v1beta1.Version:
		object, list = reflect.TypeFor[v1beta1.CustomResourceDefinition](), reflect.TypeFor[v1beta1.CustomResourceDefinitionList]()
	default:
		return nil, nil, fmt.Errorf("%s has no version %q", api.GroupName, version)
	}
	r := definitionsReflector(version, refTo(prefix), docs)
	gvk := api.GroupVersion().WithKind(api.Kind)
	gvk.Version = version
	out := &resource{kind: gvk, plural: "customresourcedefinitions", status: true, object: r.add(object), list: r.add(list)}
	for name, kind := range map[string]string{out.object: api.Kind, out.list: api.ListKind} {
		def := r.definitions[name]
		def.Schema.AddExtension(gvkExtension, kindList(gvk.GroupVersion().WithKind(kind)))
		r.definitions[name] = def
	}
	// The Builder has the types that all resources share.
	maps.DeleteFunc(r.definitions, func(name string, _ common.OpenAPIDefinition) bool { return !strings.HasPrefix(name, definitionsName) })
	return out, r.definitions, nil
}

// definitionsReflector creates the definitions of the types of an API version. Types
// that v1beta1 shares with v1 get a definition in each.
func definitionsReflector(version string, ref common.ReferenceCallback, docs map[string]map[string]map[string]string) *reflector {
	r := metaReflector(ref)
	ours := func(t reflect.Type) bool {
		return t.PkgPath() == reflect.TypeFor[api.JSON]().PkgPath() ||
			t.PkgPath() == reflect.TypeFor[v1beta1.CustomResourceDefinition]().PkgPath()
	}
	metaName := r.name
	r.name = func(t reflect.Type) string {
		if !ours(t) {
			return metaName(t)
		}
		name := t.Name()
		if version == v1beta1.Version && t == reflect.TypeFor[v1beta1.CustomResourceVersionSchema]() {
			name = "CustomResourceVersionSchema" // CustomResourceValidation is another type there
		}
		return definitionsName + version + "." + name
	}
	r.doc = func(t reflect.Type) map[string]string {
		if !ours(t) {
			return swaggerDoc(t)
		}
		return docs[t.PkgPath()[strings.LastIndex(t.PkgPath(), "/")+1:]][t.Name()]
	}
	// These can be any JSON value, or have one of several types, which a schema that
	// kubectl can read cannot express.
	for _, t := range []reflect.Type{
		reflect.TypeFor[api.JSON](),
		reflect.TypeFor[api.JSONSchemaPropsOrArray](),
		reflect.TypeFor[api.JSONSchemaPropsOrBool](),
		reflect.TypeFor[api.JSONSchemaPropsOrStringArray](),
	} {
		r.special[t] = spec.Schema{SchemaProps: spec.SchemaProps{Description: r.doc(t)[""]}}
	}
	reason := typed("string", "")
	reason.Enum = []any{string(api.FieldValueDuplicate), string(api.FieldValueForbidden),
		string(api.FieldValueInvalid), string(api.FieldValueRequired)}
	r.inline = map[reflect.Type]spec.Schema{
		reflect.TypeFor[api.StringOrArray]():         {},
		reflect.TypeFor[api.FieldValueErrorReason](): reason,
	}
	if version == api.Version {
		// Only the draft-4 schemas of v1beta1 have lists of types.
		r.inline[reflect.TypeFor[api.StringOrArray]()] = typed("string", "")
	}
	maps.Copy(r.marks, map[string]spec.Extensions{
		"CustomResourceDefinitionStatus.conditions": {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": []any{"type"}},
		"JSONSchemaProps.x-kubernetes-validations": {
			"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": []any{"rule"},
			"x-kubernetes-patch-merge-key": "rule", "x-kubernetes-patch-strategy": "merge",
		},
	})
	r.optional = []string{
		"CustomResourceDefinitionStatus.conditions",
		"CustomResourceDefinitionStatus.acceptedNames",
		"CustomResourceDefinitionStatus.storedVersions",
	}
	return r
}
