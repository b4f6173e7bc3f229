package api

import "strings"

// defaultServicePort is the default port of a webhook's service.
const defaultServicePort int32 = 443

// SetDefaults sets the defaults of a v1 CRD, as Kubernetes does.
func SetDefaults(crd *CustomResourceDefinition) {
	spec := &crd.Spec
	SetNamesDefaults(&spec.Names)
	if spec.Conversion == nil {
		spec.Conversion = &CustomResourceConversion{Strategy: NoneConverter}
	}
	if w := spec.Conversion.Webhook; w != nil {
		SetClientConfigDefaults(w.ClientConfig)
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

// SetNamesDefaults derives the singular and the list kind from the kind.
func SetNamesDefaults(n *CustomResourceDefinitionNames) {
	if n.Singular == "" {
		n.Singular = strings.ToLower(n.Kind)
	}
	if n.ListKind == "" && n.Kind != "" {
		n.ListKind = n.Kind + "List"
	}
}

// SetClientConfigDefaults sets the port of a webhook's service. c may be nil.
func SetClientConfigDefaults(c *WebhookClientConfig) {
	if c != nil && c.Service != nil && c.Service.Port == nil {
		port := defaultServicePort
		c.Service.Port = &port
	}
}
