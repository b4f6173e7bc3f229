package v1beta1

import "espalier.dev/api"

// SetDefaults sets the defaults of a v1beta1 CRD, as Kubernetes does.
func SetDefaults(crd *CustomResourceDefinition) {
	spec := &crd.Spec
	if spec.Scope == "" {
		spec.Scope = api.NamespaceScoped
	}
	api.SetNamesDefaults(&spec.Names)
	if len(spec.Versions) == 0 && spec.Version != "" {
		spec.Versions = []CustomResourceDefinitionVersion{{Name: spec.Version, Served: true, Storage: true}}
	}
	if spec.Version == "" && len(spec.Versions) > 0 {
		spec.Version = spec.Versions[0].Name
	}
	if spec.Conversion == nil {
		spec.Conversion = &CustomResourceConversion{Strategy: api.NoneConverter}
	}
	if c := spec.Conversion; c.Strategy == api.WebhookConverter && len(c.ConversionReviewVersions) == 0 {
		c.ConversionReviewVersions = []string{Version}
	}
	api.SetClientConfigDefaults(spec.Conversion.WebhookClientConfig)
	if spec.PreserveUnknownFields == nil {
		preserve := true
		spec.PreserveUnknownFields = &preserve
	}
	if len(crd.Status.StoredVersions) == 0 {
		for _, v := range spec.Versions {
			if v.Storage {
				crd.Status.StoredVersions = []string{v.Name}
				break
			}
		}
	}
}
