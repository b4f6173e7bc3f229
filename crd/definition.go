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

// Definition is a CustomResourceDefinition, ready to be used. It is immutable and
// safe for concurrent use.
type Definition struct {
	crd *api.CustomResourceDefinition
	// legacy is the draft-4 schema, if there is no other, and legacyErr why it cannot
	// be read. Whether it counts depends on the semantics.
	legacy    *api.JSONSchemaProps
	legacyErr error
	semantics schema.Semantics
	versions  []*Version

	nonStructuralOnce sync.Once
	nonStructural     *api.CustomResourceDefinitionCondition
}

// New makes a Definition of a valid definition that has its defaults. Programs are
// compiled when they are needed for the first time: most versions of most
// definitions are never used.
func New(crd *api.CustomResourceDefinition, o Options) (*Definition, error) {
	if !o.Shared {
		crd = crd.DeepCopy()
	}
	d := &Definition{crd: crd}
	d.legacy, d.legacyErr = api.LegacySchema(crd)
	if len(formOf(crd).spec.schemas()) > 0 {
		// It does not count beside another one.
		d.legacy = nil
	}
	for i := range crd.Spec.Versions {
		v := &Version{spec: &crd.Spec.Versions[i]}
		var err error
		if v.structural, v.unconvertible, err = convert(openAPI(v.spec.Schema)); err != nil {
			return nil, fmt.Errorf("spec.versions[%d].schema.openAPIV3Schema: %w", i, err)
		}
		d.versions = append(d.versions, v)
	}
	made, err := d.With(o)
	if err == nil && o.Forget {
		for _, v := range d.versions {
			if v.unconvertible == nil {
				v.spec.Schema = nil
			}
		}
	}
	return made, err
}

// With is the same definition with other options. The two share what does not depend
// on them: all but the Programs.
func (d *Definition) With(o Options) (*Definition, error) {
	out := &Definition{crd: d.crd, legacy: d.legacy, legacyErr: d.legacyErr, semantics: o.Semantics}
	var legacy *api.JSONSchemaProps
	if o.Semantics.KnowsJSONSchema() {
		if d.legacyErr != nil {
			return nil, d.legacyErr
		}
		legacy = d.legacy
	}
	for _, v := range d.versions {
		out.versions = append(out.versions, &Version{
			definition: out, spec: v.spec, structural: v.structural, unconvertible: v.unconvertible, legacy: legacy, options: o,
		})
	}
	return out, nil
}

// convert makes a schema structural. The keyword $schema, which v1beta1 lets pass
// although it has no place there, says nothing and is left out; unconvertible then
// says that it was there.
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

// dropSchemaKeyword removes $schema from a schema and those in it. It does not use
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

// CRD is the definition as it was given. It must not be changed.
func (d *Definition) CRD() *api.CustomResourceDefinition { return d.crd }

// Name is the name of the definition: the resource, a dot, and the group.
func (d *Definition) Name() string { return d.crd.Name }

// Group is the API group.
func (d *Definition) Group() string { return d.crd.Spec.Group }

// Names are the names that the resource goes by: those that were accepted, or, as
// long as none were, those asked for.
func (d *Definition) Names() api.CustomResourceDefinitionNames {
	if accepted := d.crd.Status.AcceptedNames; accepted.Plural != "" && accepted.Kind != "" {
		return accepted
	}
	return d.crd.Spec.Names
}

// Terminating reports whether the definition is being deleted, so that there can be no new
// objects.
func (d *Definition) Terminating() bool {
	return d.crd.DeletionTimestamp != nil || isTrue(&d.crd.Status, api.Terminating)
}

// Namespaced reports whether objects live in namespaces.
func (d *Definition) Namespaced() bool { return d.crd.Spec.Scope == api.NamespaceScoped }

// Semantics is the schema semantics that applies.
func (d *Definition) Semantics() schema.Semantics { return d.semantics }

// PreservesUnknownFields is preserveUnknownFields: nothing is pruned but metadata.
func (d *Definition) PreservesUnknownFields() bool { return d.crd.Spec.PreserveUnknownFields }

// Established reports whether the resource is served.
func (d *Definition) Established() bool { return isTrue(&d.crd.Status, api.Established) }

// GroupResource is the resource's name.
func (d *Definition) GroupResource() runtimeschema.GroupResource {
	return runtimeschema.GroupResource{Group: d.Group(), Resource: d.crd.Spec.Names.Plural}
}

// Versions are the versions, in the order of the definition.
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

// Storage is the version in which objects are stored, or nil if there is none.
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
	structural *schema.Structural
	// unconvertible says why the schema as it was given has no structural form.
	unconvertible error
	legacy        *api.JSONSchemaProps
	options       Options

	request, status lazyProgram
}

// lazyProgram is compiled when it is needed for the first time.
type lazyProgram struct {
	once    sync.Once
	program *schema.Program
	err     error
}

func (l *lazyProgram) get(compile func() (*schema.Program, error)) (*schema.Program, error) {
	l.once.Do(func() { l.program, l.err = compile() })
	return l.program, l.err
}

// Definition is the definition that the version is of.
func (v *Version) Definition() *Definition { return v.definition }

// Name is the version's name.
func (v *Version) Name() string { return v.spec.Name }

// Served reports whether requests may use the version.
func (v *Version) Served() bool { return v.spec.Served }

// Storage reports whether objects are stored in the version.
func (v *Version) Storage() bool { return v.spec.Storage }

// Spec is the version as it was given. It must not be changed.
func (v *Version) Spec() *api.CustomResourceDefinitionVersion { return v.spec }

// Structural is the schema of the version, or nil. It must not be changed.
func (v *Version) Structural() *schema.Structural { return v.structural }

// GroupVersionKind is what stands in apiVersion and kind of an object.
func (v *Version) GroupVersionKind() runtimeschema.GroupVersionKind {
	return runtimeschema.GroupVersionKind{Group: v.definition.Group(), Version: v.spec.Name, Kind: v.definition.Names().Kind}
}

// DeprecationWarning is what whoever uses the version is to be told, or "". Unless
// its author says something, it names the best version that is newer.
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

// Program is what the version does to objects.
func (v *Version) Program() (*schema.Program, error) {
	return v.request.get(func() (*schema.Program, error) {
		if v.legacy != nil {
			return schema.CompileJSONSchema(v.legacy, v.compileOptions()...)
		}
		return schema.Compile(v.structural, v.compileOptions()...)
	})
}

// StatusProgram validates objects whose status alone is written: what is wrong
// elsewhere is not the writer's fault. Decoding is for Program.
func (v *Version) StatusProgram() (*schema.Program, error) {
	return v.status.get(func() (*schema.Program, error) {
		opts := append(v.compileOptions(), schema.WithNamesBelow(1))
		if v.legacy != nil {
			return schema.CompileJSONSchema(statusOfLegacy(v.legacy), opts...)
		}
		return schema.Compile(statusOf(v.structural), opts...)
	})
}

func (v *Version) compileOptions() []schema.Option {
	gvk := v.GroupVersionKind()
	opts := []schema.Option{
		schema.WithSemantics(v.definition.semantics),
		schema.WithIdentity(schema.Identity{
			APIVersion: gvk.GroupVersion().String(),
			Kind:       gvk.Kind,
			Namespaced: v.definition.Namespaced(),
		}),
	}
	if v.definition.PreservesUnknownFields() {
		opts = append(opts, schema.WithPreserveUnknownFields())
	}
	switch {
	case v.options.IgnoreRules:
		opts = append(opts, schema.WithoutRules())
	case v.options.Rules != nil:
		// Rules see the whole of an object, also where its status alone is validated.
		opts = append(opts, schema.WithRules(func(*schema.Structural) (schema.Rules, error) {
			return v.options.Rules.Compile(v.structural)
		}))
	}
	return opts
}

// statusOf is the schema of a resource as far as its status goes. Of the rest,
// the types of lists stay: that is what kube-apiserver checks too.
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

// dropConditions leaves of a schema what lists are in it, and where rules are.
func dropConditions(s *schema.Structural) {
	for _, s := range s.All() {
		s.Generic = schema.Generic{}
		s.ValueValidation, s.XUnions, s.XEmbeddedResource, s.XIntOrString = nil, nil, false, false
		if ap := s.AdditionalProperties; ap != nil && ap.Structural == nil {
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
