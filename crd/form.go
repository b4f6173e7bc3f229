package crd

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
	"espalier.dev/schema"
)

// form is a CRD of either version in the form in which it is validated: what all
// versions have in common is at the top. Paths in errors refer to this form, as in
// kube-apiserver. It shares the schemas with the CRD.
type form struct {
	meta   *metav1.ObjectMeta
	spec   formSpec
	status *api.CustomResourceDefinitionStatus
	// legacy is the draft-4 schema of 2017, if there is one.
	legacy *api.JSONSchemaProps
	// legacyErr is the reason why the draft-4 schema cannot be decoded.
	legacyErr error
	beta      bool
}

type formSpec struct {
	group      string
	version    string
	names      api.CustomResourceDefinitionNames
	scope      api.ResourceScope
	versions   []formVersion
	common     formParts
	conversion *v1beta1.CustomResourceConversion
	// preserve is preserveUnknownFields. Nil means true or false, see prunes and
	// preserves.
	preserve *bool
	// byName are the parts of the versions by their names, the first one of a name.
	byName map[string]*formParts
	// Whether a version has a schema, and subresources, of its own.
	versionSchemas, versionSubresources bool
}

type formVersion struct {
	name               string
	served, storage    bool
	deprecated         bool
	deprecationWarning *string
	parts              formParts
}

// formParts are the parts that can be at the top or in each version.
type formParts struct {
	schema       *api.CustomResourceValidation
	subresources *api.CustomResourceSubresources
	columns      []api.CustomResourceColumnDefinition
	selectable   []api.SelectableField
}

// formOf returns the form of a v1 CRD.
func formOf(crd *api.CustomResourceDefinition) *form {
	f := &form{meta: &crd.ObjectMeta, status: &crd.Status}
	f.legacy, f.legacyErr = api.LegacySchema(crd)
	in := &crd.Spec
	f.spec = formSpec{
		group:      in.Group,
		names:      in.Names,
		scope:      in.Scope,
		conversion: conversionForm(in.Conversion),
		preserve:   &in.PreserveUnknownFields,
	}
	for _, v := range in.Versions {
		f.spec.versions = append(f.spec.versions, formVersion{
			name: v.Name, served: v.Served, storage: v.Storage,
			deprecated: v.Deprecated, deprecationWarning: v.DeprecationWarning,
			parts: formParts{
				schema:       v.Schema,
				subresources: v.Subresources,
				columns:      v.AdditionalPrinterColumns,
				selectable:   v.SelectableFields,
			},
		})
	}
	f.spec.hoist()
	f.spec.index()
	return f
}

// formOfV1beta1 returns the form of a v1beta1 CRD.
func formOfV1beta1(crd *v1beta1.CustomResourceDefinition) *form {
	f := &form{meta: &crd.ObjectMeta, status: &crd.Status, beta: true}
	in := &crd.Spec
	f.spec = formSpec{
		group:      in.Group,
		version:    in.Version,
		names:      in.Names,
		scope:      in.Scope,
		conversion: in.Conversion,
		preserve:   in.PreserveUnknownFields,
		common: formParts{
			subresources: in.Subresources,
			columns:      v1Columns(in.AdditionalPrinterColumns),
			selectable:   in.SelectableFields,
		},
	}
	if v := in.Validation; v != nil {
		f.legacy = v.JSONSchema
		if v.OpenAPIV3Schema != nil || v.JSONSchema == nil {
			f.spec.common.schema = &api.CustomResourceValidation{OpenAPIV3Schema: v.OpenAPIV3Schema}
		}
	}
	for _, v := range in.Versions {
		f.spec.versions = append(f.spec.versions, formVersion{
			name: v.Name, served: v.Served, storage: v.Storage,
			deprecated: v.Deprecated, deprecationWarning: v.DeprecationWarning,
			parts: formParts{
				schema:       v.Schema,
				subresources: v.Subresources,
				columns:      v1Columns(v.AdditionalPrinterColumns),
				selectable:   v.SelectableFields,
			},
		})
	}
	f.spec.index()
	return f
}

func v1Columns(in []v1beta1.CustomResourceColumnDefinition) []api.CustomResourceColumnDefinition {
	var out []api.CustomResourceColumnDefinition
	for i := range in {
		out = append(out, api.CustomResourceColumnDefinition(in[i]))
	}
	return out
}

func conversionForm(in *api.CustomResourceConversion) *v1beta1.CustomResourceConversion {
	if in == nil {
		return nil
	}
	out := &v1beta1.CustomResourceConversion{Strategy: in.Strategy}
	if in.Webhook != nil {
		out.WebhookClientConfig = in.Webhook.ClientConfig
		out.ConversionReviewVersions = in.Webhook.ConversionReviewVersions
	}
	return out
}

// hoist moves the parts that all versions have in common to the top.
func (s *formSpec) hoist() {
	if len(s.versions) == 0 {
		return
	}
	s.version = s.versions[0].name
	if s.same(func(p *formParts) any { return p.schema }) {
		s.common.schema = s.versions[0].parts.schema
		s.clear(func(p *formParts) { p.schema = nil })
	}
	if s.same(func(p *formParts) any { return p.subresources }) {
		s.common.subresources = s.versions[0].parts.subresources
		s.clear(func(p *formParts) { p.subresources = nil })
	}
	if s.same(func(p *formParts) any { return p.columns }) {
		s.common.columns = s.versions[0].parts.columns
		s.clear(func(p *formParts) { p.columns = nil })
	}
	if s.same(func(p *formParts) any { return p.selectable }) {
		s.common.selectable = s.versions[0].parts.selectable
		s.clear(func(p *formParts) { p.selectable = nil })
	}
}

func (s *formSpec) same(get func(*formParts) any) bool {
	first := get(&s.versions[0].parts)
	for i := range s.versions[1:] {
		if !equal(get(&s.versions[i+1].parts), first) {
			return false
		}
	}
	return true
}

func (s *formSpec) clear(drop func(*formParts)) {
	for i := range s.versions {
		drop(&s.versions[i].parts)
	}
}

// prunes reports whether unknown fields are pruned. The default is true, as in v1; in
// v1beta1 the field is always set.
func (s *formSpec) prunes() bool { return s.preserve == nil || !*s.preserve }

// preserves reports whether unknown fields are preserved. The default is true.
func (s *formSpec) preserves() bool { return s.preserve == nil || *s.preserve }

// openAPI returns the schema in v, or nil.
func openAPI(v *api.CustomResourceValidation) *api.JSONSchemaProps {
	if v == nil {
		return nil
	}
	return v.OpenAPIV3Schema
}

// schemas returns all schemas.
func (s *formSpec) schemas() []*api.JSONSchemaProps {
	var all []*api.JSONSchemaProps
	add := func(v *api.CustomResourceValidation) {
		if schema := openAPI(v); schema != nil {
			all = append(all, schema)
		}
	}
	add(s.common.schema)
	for i := range s.versions {
		add(s.versions[i].parts.schema)
	}
	return all
}

// anySchema reports whether has returns true for a schema or one of its subschemas.
func (s *formSpec) anySchema(has func(*api.JSONSchemaProps) bool) bool {
	for _, props := range s.schemas() {
		if schema.AnySubschema(props, has) {
			return true
		}
	}
	return false
}

// hasPerVersion reports whether has returns true for the parts of a version.
func (s *formSpec) hasPerVersion(has func(*formParts) bool) bool {
	for i := range s.versions {
		if has(&s.versions[i].parts) {
			return true
		}
	}
	return false
}

func hasSchema(p *formParts) bool       { return p.schema != nil }
func hasSubresources(p *formParts) bool { return p.subresources != nil }
func hasColumns(p *formParts) bool      { return len(p.columns) > 0 }

// index makes the parts of versions known by their names. A CRD can have so many versions that
// a search for each of them would take long.
func (s *formSpec) index() {
	s.versionSchemas, s.versionSubresources = s.hasPerVersion(hasSchema), s.hasPerVersion(hasSubresources)
	s.byName = make(map[string]*formParts, len(s.versions))
	for i := range s.versions {
		v := &s.versions[i]
		if _, ok := s.byName[v.name]; !ok {
			s.byName[v.name] = &v.parts
		}
	}
}

// schemaFor returns the schema of a version. It returns false if the version does not
// exist or its schema is ambiguous.
func (s *formSpec) schemaFor(name string) (*api.CustomResourceValidation, bool) {
	if !s.versionSchemas {
		return s.common.schema, true
	}
	if p, ok := s.byName[name]; ok && s.common.schema == nil {
		return p.schema, true
	}
	return nil, false
}

// subresourcesFor returns the subresources of a version.
func (s *formSpec) subresourcesFor(v *formVersion) *api.CustomResourceSubresources {
	if !s.versionSubresources {
		return s.common.subresources
	}
	return s.byName[v.name].subresources
}
