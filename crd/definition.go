package crd

import (
	"fmt"
	"slices"
	"sync"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// Definition is a CRD that is ready for use. It is immutable and safe for concurrent
// use.
type Definition struct {
	crd       *api.CustomResourceDefinition
	semantics schema.Semantics
	versions  []*Version
	// schemas has the schemas of the versions, compiled what was made of them. Other
	// states of the CRD may share both.
	schemas  *schemas
	compiled *compiled

	nonStructuralOnce sync.Once
	nonStructural     *api.CustomResourceDefinitionCondition
}

// New returns the Definition of a valid CRD whose defaults are set. Programs are
// compiled on first use: most versions of most CRDs are never used.
func New(crd *api.CustomResourceDefinition, o Options) (*Definition, error) {
	if !o.Shared {
		crd = crd.DeepCopy()
	}
	read, err := newContents(crd)
	if err != nil {
		return nil, err
	}
	d := define(crd, &schemas{kept: read}, o, nil)
	if o.Semantics.KnowsJSONSchema() && read.legacyErr != nil {
		return nil, read.legacyErr
	}
	if o.Forget {
		for i := range crd.Spec.Versions {
			if read.versions[i].unconvertible == nil {
				crd.Spec.Versions[i].Schema, read.versions[i].props = nil, nil
			}
		}
	}
	return d, nil
}

// define returns a Definition. If compiled is nil, nothing is compiled yet.
func define(crd *api.CustomResourceDefinition, s *schemas, o Options, c *compiled) *Definition {
	if c == nil {
		c = &compiled{options: o, versions: make([]programs, len(crd.Spec.Versions))}
	}
	d := &Definition{crd: crd, semantics: o.Semantics, schemas: s, compiled: c, versions: make([]*Version, len(crd.Spec.Versions))}
	versions := make([]Version, len(crd.Spec.Versions))
	for i := range versions {
		versions[i] = Version{definition: d, spec: &crd.Spec.Versions[i], index: i}
		d.versions[i] = &versions[i]
	}
	return d
}

// With returns the same Definition with other options. The two share everything that
// does not depend on the options: all but the Programs.
func (d *Definition) With(o Options) (*Definition, error) {
	if o.Semantics.KnowsJSONSchema() {
		if read, err := d.schemas.get(); err != nil {
			return nil, err
		} else if read.legacyErr != nil {
			return nil, read.legacyErr
		}
	}
	return define(d.crd, d.schemas, o, nil), nil
}

// convert converts a schema to a Structural. The keyword $schema, which v1beta1 allows
// although it is not supported there, is removed; unconvertible is then the error that
// it causes.
func convert(props *api.JSONSchemaProps) (s *schema.Structural, unconvertible, err error) {
	if s, err = schema.NewStructural(props); err == nil {
		return s, nil, nil
	}
	first := err
	props = props.DeepCopy()
	dropSchemaKeyword(props)
	s, err = schema.NewStructural(props)
	return s, first, err
}

// dropSchemaKeyword removes $schema from a schema and its subschemas. It does not use
// schema.WalkSubschemas, which visits copies of the schemas in maps.
func dropSchemaKeyword(s *api.JSONSchemaProps) {
	if s == nil {
		return
	}
	s.Schema = ""
	list := func(schemas []api.JSONSchemaProps) {
		for i := range schemas {
			dropSchemaKeyword(&schemas[i])
		}
	}
	list(s.AllOf)
	list(s.AnyOf)
	list(s.OneOf)
	dropSchemaKeyword(s.Not)
	if s.Items != nil {
		dropSchemaKeyword(s.Items.Schema)
	}
	if s.AdditionalProperties != nil {
		dropSchemaKeyword(s.AdditionalProperties.Schema)
	}
	for name, prop := range s.Properties {
		dropSchemaKeyword(&prop)
		s.Properties[name] = prop
	}
}

// CRD returns the CRD as it was passed to New. It must not be changed. That of a
// Definition that Lazy has returned has no schemas.
func (d *Definition) CRD() *api.CustomResourceDefinition { return d.crd }

// Name returns the name of the CRD: the resource, a dot, and the group.
func (d *Definition) Name() string { return d.crd.Name }

// Group returns the API group.
func (d *Definition) Group() string { return d.crd.Spec.Group }

// Names returns the accepted names of the resource or, if none have been accepted, the
// requested names.
func (d *Definition) Names() api.CustomResourceDefinitionNames {
	if accepted := d.crd.Status.AcceptedNames; accepted.Plural != "" && accepted.Kind != "" {
		return accepted
	}
	return d.crd.Spec.Names
}

// Terminating reports whether the CRD is being deleted, so that no objects can be
// created.
func (d *Definition) Terminating() bool {
	return d.crd.DeletionTimestamp != nil || isTrue(&d.crd.Status, api.Terminating)
}

// Namespaced reports whether objects are namespaced.
func (d *Definition) Namespaced() bool { return d.crd.Spec.Scope == api.NamespaceScoped }

// Semantics returns the schema semantics.
func (d *Definition) Semantics() schema.Semantics { return d.semantics }

// PreservesUnknownFields returns preserveUnknownFields: if it is true, only metadata is
// pruned.
func (d *Definition) PreservesUnknownFields() bool { return d.crd.Spec.PreserveUnknownFields }

// Established reports whether the resource is served.
func (d *Definition) Established() bool { return isTrue(&d.crd.Status, api.Established) }

// GroupResource returns the resource with its group.
func (d *Definition) GroupResource() runtimeschema.GroupResource {
	return runtimeschema.GroupResource{Group: d.Group(), Resource: d.crd.Spec.Names.Plural}
}

// Versions returns the versions in the order of the CRD.
func (d *Definition) Versions() []*Version { return slices.Clone(d.versions) }

// Version returns the version of that name, or nil.
func (d *Definition) Version(name string) *Version {
	for _, v := range d.versions {
		if v.spec.Name == name {
			return v
		}
	}
	return nil
}

// Storage returns the storage version, or nil if there is none.
func (d *Definition) Storage() *Version {
	for _, v := range d.versions {
		if v.spec.Storage {
			return v
		}
	}
	return nil
}

// Version is one version of a Definition.
type Version struct {
	definition *Definition
	spec       *api.CustomResourceDefinitionVersion
	// index is the index of the version in the CRD.
	index int
}

// Definition returns the Definition of the version.
func (v *Version) Definition() *Definition { return v.definition }

// Name returns the name of the version.
func (v *Version) Name() string { return v.spec.Name }

// Served reports whether the version is served.
func (v *Version) Served() bool { return v.spec.Served }

// Storage reports whether the version is the storage version.
func (v *Version) Storage() bool { return v.spec.Storage }

// Spec returns the version as it is in the CRD. It must not be changed. That of a
// Definition that Lazy has returned has no schema: see Schema.
func (v *Version) Spec() *api.CustomResourceDefinitionVersion { return v.spec }

// Structural returns the schema of the version, or nil if it has none or cannot be read.
// It must not be changed.
func (v *Version) Structural() *schema.Structural {
	s, _ := v.schemas()
	return s.structural
}

// Converted returns the schema of the version as it is in the CRD, and as a Structural: nil if
// schema.NewStructural rejects it. They must not be changed.
func (v *Version) Converted() (*api.JSONSchemaProps, *schema.Structural, error) {
	s, err := v.schemas()
	if err != nil || s.unconvertible != nil {
		return s.props, nil, err
	}
	return s.props, s.structural, nil
}

// Schema returns the schema of the version as it is in the CRD, or nil if it has none.
// It must not be changed.
func (v *Version) Schema() (*api.JSONSchemaProps, error) {
	s, err := v.schemas()
	if err != nil {
		return nil, err
	}
	return s.props, nil
}

// Skeleton returns the skeleton of the version's schema: see schema.Skeleton. It returns nil
// if there is no schema.
func (v *Version) Skeleton() (*api.JSONSchemaProps, error) {
	s, err := v.schemas()
	if err != nil {
		return nil, err
	}
	if s.legacy != nil {
		return schema.Skeleton(s.legacy), nil
	}
	return schema.Skeleton(s.props), nil
}

// GroupVersionKind returns the apiVersion and kind of the objects.
func (v *Version) GroupVersionKind() runtimeschema.GroupVersionKind {
	return runtimeschema.GroupVersionKind{Group: v.definition.Group(), Version: v.spec.Name, Kind: v.definition.Names().Kind}
}

// DeprecationWarning returns the warning for clients that use the version, or "".
// Unless the CRD has a text for it, it names the highest newer version.
func (v *Version) DeprecationWarning() string {
	if !v.spec.Deprecated {
		return ""
	}
	if w := v.spec.DeprecationWarning; w != nil {
		return *w
	}
	gvk := v.GroupVersionKind()
	text := fmt.Sprintf("%s/%s %s is deprecated", gvk.Group, gvk.Version, gvk.Kind)
	newer := v.Name()
	for _, other := range v.definition.Versions() {
		if other.Served() && !other.spec.Deprecated && version.CompareKubeAwareVersionStrings(newer, other.Name()) < 0 {
			newer = other.Name()
		}
	}
	if newer != v.Name() {
		text += fmt.Sprintf("; use %s/%s %s", gvk.Group, newer, gvk.Kind)
	}
	return text
}

// Program returns the compiled schema of the version.
func (v *Version) Program() (*schema.Program, error) {
	return v.programs().request.get(func() (*schema.Program, error) {
		s, err := v.schemas()
		if err != nil {
			return nil, err
		}
		if s.legacy != nil {
			return schema.CompileJSONSchema(s.legacy, v.compileOptions(s)...)
		}
		return schema.Compile(s.structural, v.compileOptions(s)...)
	})
}

// StatusProgram returns the Program for validating updates of the status: violations
// outside of the status are not reported. Decode with Program instead.
func (v *Version) StatusProgram() (*schema.Program, error) {
	return v.programs().status.get(func() (*schema.Program, error) {
		s, err := v.schemas()
		if err != nil {
			return nil, err
		}
		opts := append(v.compileOptions(s), schema.WithNamesBelow(1))
		if s.legacy != nil {
			return schema.CompileJSONSchema(statusOfLegacy(s.legacy), opts...)
		}
		return schema.Compile(statusOf(s.structural), opts...)
	})
}

func (v *Version) compileOptions(s versionSchema) []schema.Option {
	o := &v.definition.compiled.options
	gvk := v.GroupVersionKind()
	opts := []schema.Option{
		schema.WithSemantics(v.definition.semantics),
		schema.WithIdentity(schema.Identity{
			APIVersion: gvk.GroupVersion().String(),
			Kind:       gvk.Kind,
			Namespaced: v.definition.Namespaced(),
		}),
		schema.WithPatterns(o.Patterns),
	}
	if v.definition.PreservesUnknownFields() {
		opts = append(opts, schema.WithPreserveUnknownFields())
	}
	switch {
	case o.IgnoreRules:
		opts = append(opts, schema.WithoutRules())
	case o.Rules != nil:
		// Rules see the whole object, even if only its status is validated.
		opts = append(opts, schema.WithRules(func(*schema.Structural) (schema.Rules, error) {
			return o.Rules.Compile(s.structural)
		}))
	}
	return opts
}

// statusOf returns the part of a resource's schema that applies to updates of the
// status. The list types of the rest are kept, because kube-apiserver checks them too.
func statusOf(s *schema.Structural) *schema.Structural {
	if s == nil {
		return nil
	}
	out := s.DeepCopy()
	for name, prop := range out.Properties {
		if name != "status" {
			dropConditions(prop)
		} else {
			dropEmbedded(prop)
		}
	}
	out.Type, out.ValueValidation, out.XUnions, out.XEmbeddedResource = "", nil, nil, false
	return out
}

// dropConditions removes everything but list types and rules from a schema.
func dropConditions(s *schema.Structural) {
	for _, s := range s.All() {
		s.Generic = schema.Generic{}
		s.ValueValidation, s.XUnions, s.XEmbeddedResource, s.XIntOrString = nil, nil, false, false
		if ap := s.AdditionalProperties; ap != nil {
			ap.Bool = true
		}
	}
}

// dropEmbedded stops the validation of embedded metadata.
func dropEmbedded(s *schema.Structural) {
	for _, s := range s.All() {
		s.XEmbeddedResource = false
	}
}

// statusOfLegacy is statusOf for a draft-4 schema.
func statusOfLegacy(s *api.JSONSchemaProps) *api.JSONSchemaProps {
	out := &api.JSONSchemaProps{Definitions: s.Definitions}
	if status, ok := s.Properties["status"]; ok {
		out.Properties = map[string]api.JSONSchemaProps{"status": status}
	}
	return out
}
