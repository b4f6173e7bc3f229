package lint

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/analysis"
	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
	"espalier.dev/crd"
	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

// definition is a CRD being linted.
type definition struct {
	// raw is the JSON of the CRD, tree the parsed value.
	raw  []byte
	tree map[string]any
	// v1 is the CRD if it is written in v1, beta if it is written in v1beta1. Defaults are
	// set and the status is cleared, as on create.
	v1   *api.CustomResourceDefinition
	beta *v1beta1.CustomResourceDefinition
	// schemas lists every OpenAPI schema in the CRD, including repeated ones.
	schemas []*schemaSite
	// legacy is the draft-4 schema of 2017, or nil.
	legacy *schemaSite
}

// schemaSite is a schema in a CRD.
type schemaSite struct {
	at    *place
	props *api.JSONSchemaProps
	// structural is the structural form, or nil. In that case convErrs holds the reasons.
	structural *schema.Structural
	convErrs   schema.ConversionErrors
	// prunes reports whether the schema prunes objects.
	prunes bool
	// checked caches the results of schema.Check.
	checked map[schema.Semantics][]schema.Finding
}

// core returns the structural part of the schema.
func (s *schemaSite) core() *schema.Structural {
	if s.structural != nil {
		return s.structural
	}
	return schema.StructuralPart(s.props)
}

// check returns the reasons why the schema is not structural.
func (s *schemaSite) check(sem schema.Semantics) []schema.Finding {
	if s.structural == nil {
		return nil
	}
	found, ok := s.checked[sem]
	if !ok {
		if s.checked == nil {
			s.checked = map[schema.Semantics][]schema.Finding{}
		}
		found = schema.Check(s.structural, sem)
		s.checked[sem] = found
	}
	return found
}

func root() *place { return &place{} }

// read decodes a CRD from JSON. A *misfit error locates a value that does not fit the Go
// types; any other error is about the text as a whole. With kube-apiserver semantics,
// values in fields that kube-apiserver does not have are ignored.
func read(raw []byte, sem schema.Semantics) (*definition, error) {
	v, err := jsonx.Parse(raw)
	if err != nil {
		return nil, err
	}
	tree, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("expected an object")
	}
	d := &definition{raw: raw, tree: tree}
	meta := api.IdentifyObject(tree)
	if meta.Kind != api.Kind {
		return d, &misfit{root().child("kind"), fmt.Sprintf("expected %s, got %q", api.Kind, meta.Kind)}
	}
	if !sem.KnowsForeignFields() {
		raw = api.DropMalformedForeign(raw)
	}
	switch meta.APIVersion {
	case api.APIVersion:
		d.v1 = &api.CustomResourceDefinition{}
		if err := api.Unmarshal(raw, d.v1); err != nil {
			return d, newMisfit(err)
		}
		d.v1.Status = api.CustomResourceDefinitionStatus{}
		api.SetDefaults(d.v1)
		crd.PrepareCreate(d.v1)
	case v1beta1.APIVersion:
		d.beta = &v1beta1.CustomResourceDefinition{}
		if err := api.Unmarshal(raw, d.beta); err != nil {
			return d, newMisfit(err)
		}
		d.beta.Status = api.CustomResourceDefinitionStatus{}
		v1beta1.SetDefaults(d.beta)
	default:
		return d, &misfit{root().child("apiVersion"), fmt.Sprintf("expected %s or %s, got %q",
			api.APIVersion, v1beta1.APIVersion, meta.APIVersion)}
	}
	d.findSchemas()
	return d, nil
}

// decoded returns a definition of a decoded CRD that has no text, so it cannot locate errors.
func decoded(in *api.CustomResourceDefinition) *definition {
	d := &definition{v1: in}
	d.findSchemas()
	return d
}

// of returns the definition for a decoded CRD.
func of(in *api.CustomResourceDefinition) (*definition, error) {
	out := in.DeepCopy()
	out.TypeMeta = metav1.TypeMeta{APIVersion: api.APIVersion, Kind: api.Kind}
	out.Status = api.CustomResourceDefinitionStatus{}
	raw, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	return read(raw, schema.KEP)
}

// misfit is an error about a value that does not fit the Go types.
type misfit struct {
	at      *place
	message string
}

func (m *misfit) Error() string { return m.at.path() + ": " + m.message }

// newMisfit returns the misfit for a decoding error.
func newMisfit(err error) *misfit {
	e, ok := errors.AsType[*api.MisfitError](err)
	if !ok {
		return &misfit{root(), err.Error()}
	}
	at := root()
	for _, step := range e.Path {
		switch step.Kind {
		case api.KeyStep:
			at = at.key(step.Name)
		case api.ItemStep:
			at = at.index(step.Index)
		default:
			at = at.child(step.Name)
		}
	}
	return &misfit{at, e.Err.Error()}
}

// exists reports whether the tree has a value at p.
func (p *place) exists(tree any) bool {
	_, ok := p.value(tree)
	return ok
}

// value returns the value at p in a tree.
func (p *place) value(tree any) (any, bool) {
	for _, s := range p.steps() {
		switch v := tree.(type) {
		case map[string]any:
			sub, ok := v[s.token]
			if !ok {
				return nil, false
			}
			tree = sub
		case []any:
			i, err := strconv.Atoi(s.token)
			if err != nil || i >= len(v) {
				return nil, false
			}
			tree = v[i]
		default:
			return nil, false
		}
	}
	return tree, true
}

// prunes reports whether the CRD prunes unknown fields.
func (d *definition) prunes() bool {
	if d.beta != nil {
		return !*d.beta.Spec.PreserveUnknownFields
	}
	return !d.v1.Spec.PreserveUnknownFields
}

// names returns the names of the resource, with defaults.
func (d *definition) names() api.CustomResourceDefinitionNames {
	if d.beta != nil {
		return d.beta.Spec.Names
	}
	return d.v1.Spec.Names
}

func (d *definition) group() string {
	if d.beta != nil {
		return d.beta.Spec.Group
	}
	return d.v1.Spec.Group
}

func (d *definition) meta() *metav1.ObjectMeta {
	if d.beta != nil {
		return &d.beta.ObjectMeta
	}
	return &d.v1.ObjectMeta
}

func (d *definition) findSchemas() {
	spec := root().child("spec")
	if d.v1 != nil {
		for i := range d.v1.Spec.Versions {
			d.addSchema(spec.child("versions").index(i).child("schema"), d.v1.Spec.Versions[i].Schema)
		}
		return
	}
	for i := range d.beta.Spec.Versions {
		d.addSchema(spec.child("versions").index(i).child("schema"), d.beta.Spec.Versions[i].Schema)
	}
	if v := d.beta.Spec.Validation; v != nil {
		d.addSchema(spec.child("validation"), &api.CustomResourceValidation{OpenAPIV3Schema: v.OpenAPIV3Schema})
		if v.JSONSchema != nil {
			d.legacy = &schemaSite{at: spec.child("validation", "jsonSchema"), props: v.JSONSchema}
		}
	}
}

func (d *definition) addSchema(at *place, v *api.CustomResourceValidation) {
	if v == nil || v.OpenAPIV3Schema == nil {
		return
	}
	s := &schemaSite{at: at.child("openAPIV3Schema"), props: v.OpenAPIV3Schema, prunes: d.prunes()}
	structural, err := schema.NewStructural(v.OpenAPIV3Schema)
	if err != nil {
		s.convErrs, _ = err.(schema.ConversionErrors)
	} else {
		s.structural = structural
	}
	d.schemas = append(d.schemas, s)
}

// locate returns the places in the document that the path of a crd error refers to. There
// are several if the path is of a field that all versions share.
func (d *definition) locate(path string) []*place {
	var found []*place
	for _, p := range d.spellings(path) {
		found = append(found, root().follow(d.tree, p))
	}
	return found
}

// spellings translates the path of a crd error, which refers to the internal form, to paths
// of the document.
func (d *definition) spellings(path string) []string {
	if d.beta != nil {
		if rest, ok := cutPath(path, "spec.versions[0].name"); ok && len(rawVersions(d.tree)) == 0 {
			return []string{"spec.version" + rest}
		}
		return []string{path}
	}
	return analysis.V1Paths(path, len(d.v1.Spec.Versions))
}

// inWords translates the paths in an error text as spellings does. The index which selects
// the spelling.
func (d *definition) inWords(text string, which int) string {
	if d.v1 == nil || len(d.v1.Spec.Versions) == 0 {
		return text
	}
	return analysis.V1Words(text, which)
}

// cutPath removes a prefix of whole steps from a path.
func cutPath(path, prefix string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, prefix)
	return rest, ok && endsStep(rest)
}

func rawVersions(tree map[string]any) []any {
	spec, _ := tree["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	return versions
}

// sortedNames returns the sorted keys of a map.
func sortedNames[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
