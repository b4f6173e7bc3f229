package v1beta1

import (
	"encoding/json"
	"maps"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"espalier.dev/api"
)

// ToV1 converts in to v1. The result shares nothing with in. The defaults of in should
// be set (see SetDefaults), because those of v1 differ. It fails only if in has a
// schema with bytes that are not JSON, which cannot be decoded but can be constructed.
func ToV1(in *CustomResourceDefinition) (*api.CustomResourceDefinition, error) {
	return IntoV1(in.DeepCopy())
}

// IntoV1 is ToV1 for a caller that no longer needs in: the result shares parts with it.
func IntoV1(in *CustomResourceDefinition) (*api.CustomResourceDefinition, error) {
	out := &api.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: api.APIVersion, Kind: api.Kind},
		ObjectMeta: in.ObjectMeta,
		Spec: api.CustomResourceDefinitionSpec{
			Group:                 in.Spec.Group,
			Names:                 in.Spec.Names,
			Scope:                 in.Spec.Scope,
			Versions:              versionsToV1(&in.Spec),
			Conversion:            conversionToV1(in.Spec.Conversion),
			PreserveUnknownFields: in.Spec.PreserveUnknownFields != nil && *in.Spec.PreserveUnknownFields,
		},
		Status: in.Status,
	}
	if v := in.Spec.Validation; v != nil && v.JSONSchema != nil {
		if err := api.SetLegacySchema(out, v.JSONSchema); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// versionsToV1 copies to each version what the spec sets for all versions.
func versionsToV1(spec *CustomResourceDefinitionSpec) []api.CustomResourceDefinitionVersion {
	versions := spec.Versions
	if len(versions) == 0 && spec.Version != "" {
		versions = []CustomResourceDefinitionVersion{{Name: spec.Version, Served: true, Storage: true}}
	}
	if versions == nil {
		return nil
	}
	out := make([]api.CustomResourceDefinitionVersion, len(versions))
	for i := range versions {
		v := versions[i]
		if spec.Subresources != nil {
			v.Subresources = spec.Subresources.DeepCopy()
		}
		if hasOpenAPI(spec.Validation) {
			v.Schema = &CustomResourceVersionSchema{OpenAPIV3Schema: spec.Validation.OpenAPIV3Schema}
			if i > 0 {
				v.Schema = v.Schema.DeepCopy()
			}
		}
		if spec.AdditionalPrinterColumns != nil {
			v.AdditionalPrinterColumns = spec.AdditionalPrinterColumns
		}
		if spec.SelectableFields != nil {
			v.SelectableFields = append([]SelectableField{}, spec.SelectableFields...)
		}
		out[i] = api.CustomResourceDefinitionVersion{
			Name:                     v.Name,
			Served:                   v.Served,
			Storage:                  v.Storage,
			Deprecated:               v.Deprecated,
			DeprecationWarning:       v.DeprecationWarning,
			Schema:                   v.Schema,
			Subresources:             v.Subresources,
			AdditionalPrinterColumns: columns[api.CustomResourceColumnDefinition](v.AdditionalPrinterColumns),
			SelectableFields:         v.SelectableFields,
		}
	}
	return out
}

// hasOpenAPI reports whether v has a schema for the versions. It has none if it only
// has a schema of 2017, which v1 keeps elsewhere.
func hasOpenAPI(v *CustomResourceValidation) bool {
	return v != nil && (v.OpenAPIV3Schema != nil || v.JSONSchema == nil)
}

func conversionToV1(in *CustomResourceConversion) *api.CustomResourceConversion {
	if in == nil {
		return nil
	}
	out := &api.CustomResourceConversion{Strategy: in.Strategy}
	if in.WebhookClientConfig != nil || in.ConversionReviewVersions != nil {
		out.Webhook = &api.WebhookConversion{
			ClientConfig:             in.WebhookClientConfig,
			ConversionReviewVersions: in.ConversionReviewVersions,
		}
	}
	return out
}

// FromV1 converts in to v1beta1. The result shares nothing with in. Values that are the
// same in all versions are moved to the top, as v1beta1 requires. An annotation that is
// not a valid schema of 2017 stays an annotation, so that nothing is lost.
func FromV1(in *api.CustomResourceDefinition) *CustomResourceDefinition {
	return FromV1Shared(in.DeepCopy())
}

// FromV1Shared is FromV1 without a copy: the result shares memory with in.
func FromV1Shared(in *api.CustomResourceDefinition) *CustomResourceDefinition {
	meta := in.ObjectMeta
	legacy, err := api.LegacySchema(in)
	if err == nil && legacy != nil {
		meta.Annotations = maps.Clone(meta.Annotations)
		delete(meta.Annotations, api.JSONSchemaAnnotation)
		if len(meta.Annotations) == 0 {
			meta.Annotations = nil
		}
	}
	preserve := in.Spec.PreserveUnknownFields
	out := &CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: APIVersion, Kind: api.Kind},
		ObjectMeta: meta,
		Spec: CustomResourceDefinitionSpec{
			Group:                 in.Spec.Group,
			Names:                 in.Spec.Names,
			Scope:                 in.Spec.Scope,
			Conversion:            conversionFromV1(in.Spec.Conversion),
			PreserveUnknownFields: &preserve,
		},
		Status: in.Status,
	}
	if in.Spec.Versions != nil {
		out.Spec.Versions = make([]CustomResourceDefinitionVersion, len(in.Spec.Versions))
	}
	for i, v := range in.Spec.Versions {
		out.Spec.Versions[i] = CustomResourceDefinitionVersion{
			Name:                     v.Name,
			Served:                   v.Served,
			Storage:                  v.Storage,
			Deprecated:               v.Deprecated,
			DeprecationWarning:       v.DeprecationWarning,
			Schema:                   v.Schema,
			Subresources:             v.Subresources,
			AdditionalPrinterColumns: columns[CustomResourceColumnDefinition](v.AdditionalPrinterColumns),
			SelectableFields:         v.SelectableFields,
		}
	}
	hoist(&out.Spec, legacy)
	return out
}

// hoist moves the values that all versions have in common, and the schema of 2017, to
// the top.
func hoist(spec *CustomResourceDefinitionSpec, legacy *JSONSchemaProps) {
	if legacy != nil {
		spec.Validation = &CustomResourceValidation{JSONSchema: legacy}
	}
	if len(spec.Versions) == 0 {
		return
	}
	first := spec.Versions[0]
	spec.Version = first.Name
	// Beside a schema of 2017, an empty schema at the top cannot be distinguished from
	// none.
	emptyBesideLegacy := legacy != nil && first.Schema != nil && first.Schema.OpenAPIV3Schema == nil
	if first.Schema != nil && !emptyBesideLegacy && same(spec.Versions, getSchema) {
		spec.Validation = &CustomResourceValidation{OpenAPIV3Schema: first.Schema.OpenAPIV3Schema, JSONSchema: legacy}
		for i := range spec.Versions {
			spec.Versions[i].Schema = nil
		}
	}
	if same(spec.Versions, getSubresources) {
		spec.Subresources = first.Subresources
		for i := range spec.Versions {
			spec.Versions[i].Subresources = nil
		}
	}
	if same(spec.Versions, getColumns) {
		spec.AdditionalPrinterColumns = first.AdditionalPrinterColumns
		for i := range spec.Versions {
			spec.Versions[i].AdditionalPrinterColumns = nil
		}
	}
	if same(spec.Versions, getSelectable) {
		spec.SelectableFields = first.SelectableFields
		for i := range spec.Versions {
			spec.Versions[i].SelectableFields = nil
		}
	}
}

func conversionFromV1(in *api.CustomResourceConversion) *CustomResourceConversion {
	if in == nil {
		return nil
	}
	out := &CustomResourceConversion{Strategy: in.Strategy}
	if in.Webhook != nil {
		out.WebhookClientConfig = in.Webhook.ClientConfig
		out.ConversionReviewVersions = in.Webhook.ConversionReviewVersions
	}
	return out
}

// columns converts columns between the versions, whose structs differ in a tag only.
func columns[Out, In api.CustomResourceColumnDefinition | CustomResourceColumnDefinition](in []In) []Out {
	if in == nil {
		return nil
	}
	out := make([]Out, len(in))
	for i := range in {
		out[i] = Out(in[i])
	}
	return out
}

func getSchema(v *CustomResourceDefinitionVersion) any       { return v.Schema }
func getSubresources(v *CustomResourceDefinitionVersion) any { return v.Subresources }
func getColumns(v *CustomResourceDefinitionVersion) any      { return v.AdditionalPrinterColumns }
func getSelectable(v *CustomResourceDefinitionVersion) any   { return v.SelectableFields }

// same reports whether the value is equal in all versions.
func same(versions []CustomResourceDefinitionVersion, get func(*CustomResourceDefinitionVersion) any) bool {
	for i := range versions {
		if !equal(get(&versions[0]), get(&versions[i])) {
			return false
		}
	}
	return true
}

// equal compares by meaning: empty lists equal missing ones, and JSON in schemas is
// compared regardless of formatting.
func equal(a, b any) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	if va := reflect.ValueOf(a); va.Kind() == reflect.Slice && va.Len() == 0 {
		return reflect.ValueOf(b).Len() == 0
	}
	ta, okA := tree(a)
	tb, okB := tree(b)
	return okA && okB && reflect.DeepEqual(ta, tb)
}

// tree returns v as it would be decoded from its JSON.
func tree(v any) (out any, ok bool) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, false
	}
	return out, kjson.UnmarshalCaseSensitivePreserveInts(data, &out) == nil
}
