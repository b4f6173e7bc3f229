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

// definition is a definition under inspection.
type definition struct {
	// raw is its text, and tree what is in it.
	raw  []byte
	tree map[string]any
	// v1 is the definition if it is written in v1, beta if it is in v1beta1: with
	// defaults and without a status, as it is when somebody creates it.
	v1   *api.CustomResourceDefinition
	beta *v1beta1.CustomResourceDefinition
	// schemas are the OpenAPI schemas in it, as often as they are written down.
	schemas []*schemaSite
	// legacy is the draft-4 schema of 2017, if there is one.
	legacy *schemaSite
}

// schemaSite is a schema in a definition.
type schemaSite struct {
	at    *place
	props *api.JSONSchemaProps
	// structural is its structural form; if there is none, convErrs say why.
	structural *schema.Structural
	convErrs   schema.ConversionErrors
	// prunes reports whether objects are pruned by it.
	prunes bool
	// checked has what schema.Check says, once somebody has asked.
	checked map[schema.Semantics][]schema.Finding
}

// core returns the schema without what has no structural form.
func (s *schemaSite) core() *schema.Structural {
	if s.structural != nil {
		return s.structural
	}
	return schema.StructuralPart(s.props)
}

// check says what keeps the schema from being structural.
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

// read makes a definition of JSON. The error is about the text as a whole; misfit is
// where a value stands that the types have no room for. In the semantics of kube-apiserver
// that is no matter where it does not look.
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
		raw = api.DropForeign(raw)
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
		return d, &misfit{root().child("apiVersion"), fmt.Sprintf("expected %s or %s, got %q", api.APIVersion, v1beta1.APIVersion, meta.APIVersion)}
	}
	d.findSchemas()
	return d, nil
}

// of makes a definition of one that was read already.
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

// misfit is a value that the types have no room for.
type misfit struct {
	at      *place
	message string
}

func (m *misfit) Error() string { return m.at.path() + ": " + m.message }

// newMisfit returns the misfit that an error of decoding is about.
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

// exists reports whether there is something at p in a tree.
func (p *place) exists(tree any) bool {
	_, ok := p.value(tree)
	return ok
}

// value returns what stands at p in a tree.
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
			if err != nil || i < 0 || i >= len(v) {
				return nil, false
			}
			tree = v[i]
		default:
			return nil, false
		}
	}
	return tree, true
}

// prunes reports whether unknown fields are pruned.
func (d *definition) prunes() bool {
	if d.beta != nil {
		return !*d.beta.Spec.PreserveUnknownFields
	}
	return !d.v1.Spec.PreserveUnknownFields
}

// names are the names of the resource, with defaults.
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

// locate finds the places in the document that a path of crd's errors means. There
// are several if the path is of what all versions have in common.
func (d *definition) locate(path string) []*place {
	var found []*place
	for _, p := range d.spellings(path) {
		found = append(found, root().follow(d.tree, p))
	}
	return found
}

// spellings rewrites a path of crd's errors, which is in the form that definitions
// are validated in, to paths of the document.
func (d *definition) spellings(path string) []string {
	if d.beta != nil {
		if rest, ok := cutPath(path, "spec.versions[0].name"); ok && len(rawVersions(d.tree)) == 0 {
			return []string{"spec.version" + rest}
		}
		return []string{path}
	}
	return analysis.V1Paths(path, len(d.v1.Spec.Versions))
}

// inWords replaces paths in the text of an error as spellings does; which says which
// of the spellings applies.
func (d *definition) inWords(text string, which int) string {
	if d.v1 == nil || len(d.v1.Spec.Versions) == 0 {
		return text
	}
	return analysis.V1Words(text, which)
}

// cutPath cuts whole steps off the front of a path.
func cutPath(path, prefix string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, prefix)
	return rest, ok && endsStep(rest)
}

func rawVersions(tree map[string]any) []any {
	spec, _ := tree["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	return versions
}

// sortedNames returns the keys of a map in order.
func sortedNames[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
