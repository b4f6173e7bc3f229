package crd

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"espalier.dev/schema"
)

// Superseded returns errors for spellings of earlier drafts of the documents in the
// JSON of a CRD, of either version. The types do not have them, so decoding would drop
// them silently, and with them the author's intention. kube-apiserver does that, so in
// its semantics there are no such errors.
func Superseded(raw []byte, sem schema.Semantics) (field.ErrorList, error) {
	if !knowsSuperseded(sem) {
		return nil, nil
	}
	var tree any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &tree); err != nil {
		return nil, fmt.Errorf("decode the CRD: %w", err)
	}
	w := supersededWalk{}
	root, _ := tree.(map[string]any)
	spec, _ := root["spec"].(map[string]any)
	path := field.NewPath("spec")
	for _, old := range [...]struct{ name, now string }{
		{"prune", "use preserveUnknownFields: false for prune: true, and true for prune: false"},
		{"preserveUnknownProperties", "use preserveUnknownFields"},
	} {
		if _, ok := spec[old.name]; ok {
			w.add(path.Child(old.name), old.now)
		}
	}
	w.schemas(spec["validation"], path.Child("validation"))
	versions, _ := spec["versions"].([]any)
	for i, v := range versions {
		version, _ := v.(map[string]any)
		w.schemas(version["schema"], path.Child("versions").Index(i).Child("schema"))
	}
	return w.errs, nil
}

type supersededWalk struct {
	errs  field.ErrorList
	steps pathSteps
}

func (w *supersededWalk) add(path *field.Path, now string) {
	if w.steps.tooMany() {
		return
	}
	e := field.Forbidden(path, "has been superseded: "+now)
	w.steps.add(e)
	w.errs = append(w.errs, e)
}

// schemas walks the schemas of a version.
func (w *supersededWalk) schemas(v any, path *field.Path) {
	m, _ := v.(map[string]any)
	for _, spelling := range [...]string{"openAPIV3Schema", "jsonSchema"} {
		w.schema(m[spelling], path.Child(spelling))
	}
}

func (w *supersededWalk) schema(v any, path *field.Path) {
	s, _ := v.(map[string]any)
	for _, k := range sortedKeys(s) {
		at := path.Child(k)
		switch k {
		case "x-kubernetes-no-prune", "x-kubernetes-no-pruning", "x-no-pruning":
			w.add(at, "use x-kubernetes-preserve-unknown-fields: true")
		case "x-kubernetes-preserve-unknown-properties", "preserveUnknownProperties":
			w.add(at, "use x-kubernetes-preserve-unknown-fields")
		case "properties", "patternProperties", "definitions", "dependencies":
			m, _ := s[k].(map[string]any)
			for _, name := range sortedKeys(m) {
				w.schema(m[name], at.Key(name))
			}
		case "items", "additionalItems", "additionalProperties", "not", "allOf", "anyOf", "oneOf":
			w.schema(s[k], at)
			list, _ := s[k].([]any)
			for i := range list {
				w.schema(list[i], at.Index(i))
			}
		}
	}
}
