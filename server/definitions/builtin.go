package definitions

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
	"espalier.dev/crd"
	"espalier.dev/openapi"
	"espalier.dev/schema"
	"espalier.dev/server/served"
)

// Name is the name of the CRD that would define CRDs.
const Name = "customresourcedefinitions.apiextensions.k8s.io"

// definition returns the definition of the CRD resource itself: its names, versions and how
// its fields merge. Package crd validates CRDs, not this schema.
func definition(sem schema.Semantics) (*crd.Definition, error) {
	deprecated := v1beta1.APIVersion + " " + api.Kind + " is deprecated; use " + api.APIVersion + " " + api.Kind
	version := func(name string, beta bool, spec map[string]api.JSONSchemaProps) api.CustomResourceDefinitionVersion {
		v := api.CustomResourceDefinitionVersion{
			// As in kube-apiserver: v1beta1 is smaller, because it stores what versions have
			// in common once.
			Name: name, Served: true, Storage: beta,
			Schema: &api.CustomResourceValidation{OpenAPIV3Schema: rootSchema(spec)},
			Subresources: &api.CustomResourceSubresources{
				Status: &api.CustomResourceSubresourceStatus{},
			},
		}
		if beta {
			v.Deprecated, v.DeprecationWarning = true, &deprecated
		}
		return v
	}
	beta := specFields()
	beta["validation"], beta["version"], beta["subresources"],
		beta["additionalPrinterColumns"] = anything("object"), anything("string"), anything("object"), anything("array")
	beta["selectableFields"] = anything("array")
	names := api.CustomResourceDefinitionNames{
		Plural: "customresourcedefinitions", Singular: "customresourcedefinition", Kind: api.Kind, ListKind: api.Kind + "List",
		ShortNames: []string{"crd", "crds"}, Categories: []string{"api-extensions"},
	}
	return crd.New(&api.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: Name},
		Spec: api.CustomResourceDefinitionSpec{
			Group: "apiextensions.k8s.io", Scope: api.ClusterScoped, Names: names,
			Versions: []api.CustomResourceDefinitionVersion{version("v1", false, specFields()), version("v1beta1", true, beta)},
		},
		Status: api.CustomResourceDefinitionStatus{
			AcceptedNames: names, StoredVersions: []string{"v1beta1"},
			Conditions: []api.CustomResourceDefinitionCondition{
				{Type: api.NamesAccepted, Status: api.ConditionTrue}, {Type: api.Established, Status: api.ConditionTrue},
			},
		},
	}, crd.Options{Semantics: sem})
}

// describe describes a version of CRDs. They are documented by their Go types.
func describe(v *crd.Version) *served.Description {
	d := served.Describe(v)
	d.PatchTypes = append(d.PatchTypes, types.StrategicMergePatchType)
	d.OpenAPI = served.OpenAPI{
		V2: func(b *openapi.Builder) (*spec.Swagger, error) { return b.DefinitionsV2(v.Name()) },
		V3: func(b *openapi.Builder) (*spec3.OpenAPI, error) { return b.DefinitionsV3(v.Name()) },
	}
	return d
}

// rootSchema defines how the fields of a CRD merge: lists are replaced as a whole, except
// conditions.
func rootSchema(spec map[string]api.JSONSchemaProps) *api.JSONSchemaProps {
	mapList := "map"
	conditions := anything("array")
	conditions.Items.Schema.XPreserveUnknownFields = nil
	conditions.Items.Schema.Type = api.StringOrArray{"object"}
	conditions.Items.Schema.Properties = map[string]api.JSONSchemaProps{}
	for _, name := range []string{"type", "status", "lastTransitionTime", "reason", "message"} {
		conditions.Items.Schema.Properties[name] = anything("string")
	}
	conditions.Items.Schema.Properties["observedGeneration"] = anything("integer")
	conditions.XListType, conditions.XListMapKeys = &mapList, []string{"type"}
	status := object(map[string]api.JSONSchemaProps{
		"conditions": conditions, "acceptedNames": namesSchema(),
		"storedVersions": anything("array"), "observedGeneration": anything("integer"),
	})
	root := object(map[string]api.JSONSchemaProps{"spec": object(spec), "status": status})
	return &root
}

func specFields() map[string]api.JSONSchemaProps {
	return map[string]api.JSONSchemaProps{
		"group": anything("string"), "scope": anything("string"), "names": namesSchema(), "versions": anything("array"),
		"conversion": anything("object"), "preserveUnknownFields": anything("boolean"),
	}
}

func namesSchema() api.JSONSchemaProps {
	return object(map[string]api.JSONSchemaProps{
		"plural": anything("string"), "singular": anything("string"), "kind": anything("string"), "listKind": anything("string"),
		"shortNames": anything("array"), "categories": anything("array"),
	})
}

func object(properties map[string]api.JSONSchemaProps) api.JSONSchemaProps {
	return api.JSONSchemaProps{Type: api.StringOrArray{"object"}, Properties: properties}
}

// anything returns a schema that allows all values of a type.
func anything(typ string) api.JSONSchemaProps {
	yes := true
	s := api.JSONSchemaProps{Type: api.StringOrArray{typ}}
	switch typ {
	case "object":
		s.XPreserveUnknownFields = &yes
	case "array":
		s.Items = &api.JSONSchemaPropsOrArray{Schema: &api.JSONSchemaProps{XPreserveUnknownFields: &yes}}
	}
	return s
}
