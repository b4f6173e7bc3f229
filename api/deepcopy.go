package api

import (
	"bytes"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// clonePtr copies the value that p points to, which must not contain pointers.
func clonePtr[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// cloneSlice copies a slice and its items, with DeepCopyInto.
func cloneSlice[T any, P interface {
	*T
	DeepCopyInto(*T)
}](in []T) []T {
	if in == nil {
		return nil
	}
	out := make([]T, len(in))
	for i := range in {
		P(&in[i]).DeepCopyInto(&out[i])
	}
	return out
}

// cloneMap copies a map and its values, with DeepCopyInto.
func cloneMap[T any, P interface {
	*T
	DeepCopyInto(*T)
}](in map[string]T) map[string]T {
	if in == nil {
		return nil
	}
	out := make(map[string]T, len(in))
	for k, v := range in {
		var c T
		P(&v).DeepCopyInto(&c)
		out[k] = c
	}
	return out
}

// cloneDeep copies the value that p points to, with DeepCopyInto.
func cloneDeep[T any, P interface {
	*T
	DeepCopyInto(*T)
}](p *T) *T {
	if p == nil {
		return nil
	}
	out := new(T)
	P(p).DeepCopyInto(out)
	return out
}

// DeepCopyInto copies s to out, sharing nothing with it.
func (s *JSONSchemaProps) DeepCopyInto(out *JSONSchemaProps) {
	*out = *s
	out.Ref = clonePtr(s.Ref)
	out.Type = slices.Clone(s.Type)
	out.Default = cloneDeep(s.Default)
	out.Maximum = clonePtr(s.Maximum)
	out.Minimum = clonePtr(s.Minimum)
	out.MaxLength = clonePtr(s.MaxLength)
	out.MinLength = clonePtr(s.MinLength)
	out.MaxItems = clonePtr(s.MaxItems)
	out.MinItems = clonePtr(s.MinItems)
	out.MultipleOf = clonePtr(s.MultipleOf)
	out.Enum = cloneSlice(s.Enum)
	out.MaxProperties = clonePtr(s.MaxProperties)
	out.MinProperties = clonePtr(s.MinProperties)
	out.Required = slices.Clone(s.Required)
	out.Items = cloneDeep(s.Items)
	out.AllOf = cloneSlice(s.AllOf)
	out.OneOf = cloneSlice(s.OneOf)
	out.AnyOf = cloneSlice(s.AnyOf)
	out.Not = cloneDeep(s.Not)
	out.Properties = cloneMap(s.Properties)
	out.AdditionalProperties = cloneDeep(s.AdditionalProperties)
	out.PatternProperties = cloneMap(s.PatternProperties)
	out.Dependencies = cloneMap(s.Dependencies)
	out.AdditionalItems = cloneDeep(s.AdditionalItems)
	out.Definitions = cloneMap(s.Definitions)
	out.ExternalDocs = clonePtr(s.ExternalDocs)
	out.Example = cloneDeep(s.Example)
	out.XPreserveUnknownFields = clonePtr(s.XPreserveUnknownFields)
	out.XListMapKeys = slices.Clone(s.XListMapKeys)
	out.XListType = clonePtr(s.XListType)
	out.XMapType = clonePtr(s.XMapType)
	out.XValidations = cloneSlice(s.XValidations)
	out.XUnions = cloneSlice(s.XUnions)
}

// DeepCopy returns a copy that shares nothing with s.
func (s *JSONSchemaProps) DeepCopy() *JSONSchemaProps { return cloneDeep(s) }

// DeepCopyInto copies j to out, sharing nothing with it.
func (j *JSON) DeepCopyInto(out *JSON) { out.Raw = bytes.Clone(j.Raw) }

// DeepCopyInto copies u to out, sharing nothing with it.
func (u *Union) DeepCopyInto(out *Union) {
	*out = *u
	if u.Fields != nil {
		out.Fields = make(map[string]string, len(u.Fields))
		for k, v := range u.Fields {
			out.Fields[k] = v
		}
	}
}

// DeepCopyInto copies r to out, sharing nothing with it.
func (r *ValidationRule) DeepCopyInto(out *ValidationRule) {
	*out = *r
	out.Reason = clonePtr(r.Reason)
	out.OptionalOldSelf = clonePtr(r.OptionalOldSelf)
}

// DeepCopyInto copies s to out, sharing nothing with it.
func (s *JSONSchemaPropsOrArray) DeepCopyInto(out *JSONSchemaPropsOrArray) {
	out.Schema = s.Schema.DeepCopy()
	out.JSONSchemas = cloneSlice(s.JSONSchemas)
}

// DeepCopyInto copies s to out, sharing nothing with it.
func (s *JSONSchemaPropsOrBool) DeepCopyInto(out *JSONSchemaPropsOrBool) {
	out.Allows = s.Allows
	out.Schema = s.Schema.DeepCopy()
}

// DeepCopyInto copies s to out, sharing nothing with it.
func (s *JSONSchemaPropsOrStringArray) DeepCopyInto(out *JSONSchemaPropsOrStringArray) {
	out.Schema = s.Schema.DeepCopy()
	out.Property = slices.Clone(s.Property)
}

// DeepCopyInto copies c to out, sharing nothing with it.
func (c *CustomResourceDefinition) DeepCopyInto(out *CustomResourceDefinition) {
	out.TypeMeta = c.TypeMeta
	c.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	c.Spec.DeepCopyInto(&out.Spec)
	c.Status.DeepCopyInto(&out.Status)
}

// DeepCopy returns a copy that shares nothing with c.
func (c *CustomResourceDefinition) DeepCopy() *CustomResourceDefinition { return cloneDeep(c) }

// DeepCopyObject makes a CustomResourceDefinition a runtime.Object.
func (c *CustomResourceDefinition) DeepCopyObject() runtime.Object {
	if c == nil {
		return nil
	}
	return c.DeepCopy()
}

// DeepCopyInto copies l to out, sharing nothing with it.
func (l *CustomResourceDefinitionList) DeepCopyInto(out *CustomResourceDefinitionList) {
	out.TypeMeta = l.TypeMeta
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = cloneSlice(l.Items)
}

// DeepCopy returns a copy that shares nothing with l.
func (l *CustomResourceDefinitionList) DeepCopy() *CustomResourceDefinitionList { return cloneDeep(l) }

// DeepCopyObject makes a CustomResourceDefinitionList a runtime.Object.
func (l *CustomResourceDefinitionList) DeepCopyObject() runtime.Object {
	if l == nil {
		return nil
	}
	return l.DeepCopy()
}

// DeepCopyInto copies s to out, sharing nothing with it.
func (s *CustomResourceDefinitionSpec) DeepCopyInto(out *CustomResourceDefinitionSpec) {
	*out = *s
	s.Names.DeepCopyInto(&out.Names)
	out.Versions = cloneSlice(s.Versions)
	out.Conversion = cloneDeep(s.Conversion)
}

// DeepCopyInto copies n to out, sharing nothing with it.
func (n *CustomResourceDefinitionNames) DeepCopyInto(out *CustomResourceDefinitionNames) {
	*out = *n
	out.ShortNames = slices.Clone(n.ShortNames)
	out.Categories = slices.Clone(n.Categories)
}

// DeepCopyInto copies v to out, sharing nothing with it.
func (v *CustomResourceDefinitionVersion) DeepCopyInto(out *CustomResourceDefinitionVersion) {
	*out = *v
	out.DeprecationWarning = clonePtr(v.DeprecationWarning)
	out.Schema = v.Schema.DeepCopy()
	out.Subresources = v.Subresources.DeepCopy()
	out.AdditionalPrinterColumns = slices.Clone(v.AdditionalPrinterColumns)
	out.SelectableFields = slices.Clone(v.SelectableFields)
}

// DeepCopyInto copies v to out, sharing nothing with it.
func (v *CustomResourceValidation) DeepCopyInto(out *CustomResourceValidation) {
	out.OpenAPIV3Schema = v.OpenAPIV3Schema.DeepCopy()
}

// DeepCopy returns a copy that shares nothing with v.
func (v *CustomResourceValidation) DeepCopy() *CustomResourceValidation { return cloneDeep(v) }

// DeepCopyInto copies s to out, sharing nothing with it.
func (s *CustomResourceSubresources) DeepCopyInto(out *CustomResourceSubresources) {
	out.Status = clonePtr(s.Status)
	out.Scale = cloneDeep(s.Scale)
}

// DeepCopy returns a copy that shares nothing with s.
func (s *CustomResourceSubresources) DeepCopy() *CustomResourceSubresources { return cloneDeep(s) }

// DeepCopyInto copies s to out, sharing nothing with it.
func (s *CustomResourceSubresourceScale) DeepCopyInto(out *CustomResourceSubresourceScale) {
	*out = *s
	out.LabelSelectorPath = clonePtr(s.LabelSelectorPath)
}

// DeepCopyInto copies c to out, sharing nothing with it.
func (c *CustomResourceConversion) DeepCopyInto(out *CustomResourceConversion) {
	out.Strategy = c.Strategy
	out.Webhook = cloneDeep(c.Webhook)
}

// DeepCopyInto copies w to out, sharing nothing with it.
func (w *WebhookConversion) DeepCopyInto(out *WebhookConversion) {
	out.ClientConfig = w.ClientConfig.DeepCopy()
	out.ConversionReviewVersions = slices.Clone(w.ConversionReviewVersions)
}

// DeepCopyInto copies c to out, sharing nothing with it.
func (c *WebhookClientConfig) DeepCopyInto(out *WebhookClientConfig) {
	out.URL = clonePtr(c.URL)
	out.Service = cloneDeep(c.Service)
	out.CABundle = bytes.Clone(c.CABundle)
}

// DeepCopy returns a copy that shares nothing with c.
func (c *WebhookClientConfig) DeepCopy() *WebhookClientConfig { return cloneDeep(c) }

// DeepCopyInto copies s to out, sharing nothing with it.
func (s *ServiceReference) DeepCopyInto(out *ServiceReference) {
	*out = *s
	out.Path = clonePtr(s.Path)
	out.Port = clonePtr(s.Port)
}

// DeepCopyInto copies s to out, sharing nothing with it.
func (s *CustomResourceDefinitionStatus) DeepCopyInto(out *CustomResourceDefinitionStatus) {
	*out = *s
	out.Conditions = cloneSlice(s.Conditions)
	s.AcceptedNames.DeepCopyInto(&out.AcceptedNames)
	out.StoredVersions = slices.Clone(s.StoredVersions)
}

// DeepCopyInto copies c to out, sharing nothing with it.
func (c *CustomResourceDefinitionCondition) DeepCopyInto(out *CustomResourceDefinitionCondition) {
	*out = *c
	c.LastTransitionTime.DeepCopyInto(&out.LastTransitionTime)
}

// DeepCopyInto copies r to out, sharing nothing with it.
func (r *ConversionReview) DeepCopyInto(out *ConversionReview) {
	out.TypeMeta = r.TypeMeta
	out.Request = cloneDeep(r.Request)
	out.Response = cloneDeep(r.Response)
}

// DeepCopy returns a copy that shares nothing with r.
func (r *ConversionReview) DeepCopy() *ConversionReview { return cloneDeep(r) }

// DeepCopyObject makes a ConversionReview a runtime.Object.
func (r *ConversionReview) DeepCopyObject() runtime.Object {
	if r == nil {
		return nil
	}
	return r.DeepCopy()
}

// DeepCopyInto copies r to out, sharing nothing with it.
func (r *ConversionRequest) DeepCopyInto(out *ConversionRequest) {
	*out = *r
	out.Objects = cloneSlice(r.Objects)
}

// DeepCopyInto copies r to out, sharing nothing with it.
func (r *ConversionResponse) DeepCopyInto(out *ConversionResponse) {
	*out = *r
	out.ConvertedObjects = cloneSlice(r.ConvertedObjects)
	r.Result.DeepCopyInto(&out.Result)
}
