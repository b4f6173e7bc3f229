package v1beta1

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopyInto copies c to out, sharing nothing with it.
func (c *CustomResourceDefinition) DeepCopyInto(out *CustomResourceDefinition) {
	out.TypeMeta = c.TypeMeta
	c.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	c.Spec.DeepCopyInto(&out.Spec)
	c.Status.DeepCopyInto(&out.Status)
}

// DeepCopy returns a copy that shares nothing with c.
func (c *CustomResourceDefinition) DeepCopy() *CustomResourceDefinition {
	if c == nil {
		return nil
	}
	out := new(CustomResourceDefinition)
	c.DeepCopyInto(out)
	return out
}

// DeepCopyObject makes a CustomResourceDefinition a runtime.Object.
func (c *CustomResourceDefinition) DeepCopyObject() runtime.Object {
	if c == nil {
		return nil
	}
	return c.DeepCopy()
}

// DeepCopyObject makes a CustomResourceDefinitionList a runtime.Object.
func (l *CustomResourceDefinitionList) DeepCopyObject() runtime.Object {
	if l == nil {
		return nil
	}
	out := &CustomResourceDefinitionList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	if l.Items != nil {
		out.Items = make([]CustomResourceDefinition, len(l.Items))
		for i := range l.Items {
			l.Items[i].DeepCopyInto(&out.Items[i])
		}
	}
	return out
}

// DeepCopyInto copies s to out, sharing nothing with it.
func (s *CustomResourceDefinitionSpec) DeepCopyInto(out *CustomResourceDefinitionSpec) {
	*out = *s
	s.Names.DeepCopyInto(&out.Names)
	if s.Validation != nil {
		out.Validation = &CustomResourceValidation{
			OpenAPIV3Schema: s.Validation.OpenAPIV3Schema.DeepCopy(),
			JSONSchema:      s.Validation.JSONSchema.DeepCopy(),
		}
	}
	out.Subresources = s.Subresources.DeepCopy()
	if s.Versions != nil {
		out.Versions = make([]CustomResourceDefinitionVersion, len(s.Versions))
		for i := range s.Versions {
			s.Versions[i].DeepCopyInto(&out.Versions[i])
		}
	}
	out.AdditionalPrinterColumns = slices.Clone(s.AdditionalPrinterColumns)
	out.SelectableFields = slices.Clone(s.SelectableFields)
	if s.Conversion != nil {
		out.Conversion = &CustomResourceConversion{
			Strategy:                 s.Conversion.Strategy,
			WebhookClientConfig:      s.Conversion.WebhookClientConfig.DeepCopy(),
			ConversionReviewVersions: slices.Clone(s.Conversion.ConversionReviewVersions),
		}
	}
	if s.PreserveUnknownFields != nil {
		preserve := *s.PreserveUnknownFields
		out.PreserveUnknownFields = &preserve
	}
}

// DeepCopyInto copies v to out, sharing nothing with it.
func (v *CustomResourceDefinitionVersion) DeepCopyInto(out *CustomResourceDefinitionVersion) {
	*out = *v
	if v.DeprecationWarning != nil {
		warning := *v.DeprecationWarning
		out.DeprecationWarning = &warning
	}
	out.Schema = v.Schema.DeepCopy()
	out.Subresources = v.Subresources.DeepCopy()
	out.AdditionalPrinterColumns = slices.Clone(v.AdditionalPrinterColumns)
	out.SelectableFields = slices.Clone(v.SelectableFields)
}
