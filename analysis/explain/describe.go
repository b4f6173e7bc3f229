package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"espalier.dev/crd"
	"espalier.dev/internal/nearest"
	"espalier.dev/schema"
)

// Doc explains a resource or one of its fields.
type Doc struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
	// Served and Storage are the flags of the version in the CRD.
	Served  bool `json:"served"`
	Storage bool `json:"storage"`
	// Deprecated is the warning that clients of the version get, or "".
	Deprecated string `json:"deprecated,omitempty"`
	Namespaced bool   `json:"namespaced"`
	// Semantics is the schema semantics that applies.
	Semantics string `json:"semantics"`
	// NoSchema is set if the version has no schema to explain.
	NoSchema bool   `json:"noSchema,omitempty"`
	Field    *Field `json:"field"`
}

// Options configure Describe.
type Options struct {
	// Recursive includes the fields of fields, at any depth.
	Recursive bool
}

// everything is deeper than any schema that a CRD can hold.
const everything = 1 << 20

// Describe explains the field of a version at path, or the whole resource if path is empty.
// A path may leave out the steps through arrays and maps: spec.ports.name and
// spec.ports[].name are the same. A key of a map may be written as *, and a name with dots
// as ["a.b"].
//
// The error is an [*UnknownFieldError] if there is no such field.
func Describe(v *crd.Version, path string, o Options) (*Doc, error) {
	steps, err := parsePath(path)
	if err != nil {
		return nil, err
	}
	doc, at, err := start(v)
	if err != nil {
		return nil, err
	}
	for _, name := range steps {
		if at, err = step(at, name); err != nil {
			return nil, err
		}
	}
	depth := 1
	if o.Recursive {
		depth = everything
	}
	w := &walker{semantics: v.Definition().Semantics()}
	doc.Field = w.describe(at, depth)
	return doc, nil
}

// start returns the Doc of a version, without a field, and the place of the whole resource.
func start(v *crd.Version) (*Doc, place, error) {
	gvk := v.GroupVersionKind()
	d := v.Definition()
	doc := &Doc{
		Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Served: v.Served(), Storage: v.Storage(),
		Deprecated: v.DeprecationWarning(), Namespaced: d.Namespaced(), Semantics: d.Semantics().String(),
	}
	s, err := SchemaOf(v)
	if err != nil {
		return nil, place{}, err
	}
	doc.NoSchema = s == nil
	if s == nil {
		s = &schema.Structural{Generic: schema.Generic{Type: "object"}}
	}
	return doc, place{fates: rootFates(Resource(s), d.PreservesUnknownFields())}, nil
}

// step returns the place of a field of a value, going through arrays and maps.
func step(at place, name string) (place, error) {
	for {
		s := at.schema()
		if _, ok := s.Properties[name]; ok {
			return at.field(name), nil
		}
		switch ap := s.AdditionalProperties; {
		case s.Items != nil:
			at = at.items()
			if name == "[]" {
				return at, nil
			}
		case ap != nil && ap.Structural != nil:
			at = at.values()
			if name == "*" {
				return at, nil
			}
		default:
			e := &UnknownFieldError{
				Path: at.path, Name: name, Type: typeName(s), Known: slices.Sorted(maps.Keys(s.Properties)),
				Preserved: s.XPreserveUnknownFields || ap != nil && ap.Bool,
			}
			e.Nearest = nearest.Name(name, slices.Values(e.Known))
			return at, e
		}
	}
}

// parsePath splits a path into the names of fields, [] for items, and * for values of maps.
func parsePath(path string) (steps []string, err error) {
	rest := strings.TrimPrefix(path, ".")
	for rest != "" {
		if inner, ok := strings.CutPrefix(rest, "["); ok {
			end := strings.IndexByte(inner, ']')
			var name string
			if inner != "" && (inner[0] == '"' || inner[0] == '\'') {
				close := strings.Index(inner[1:], inner[:1]+"]")
				if close < 0 {
					return nil, fmt.Errorf("path %q has an unclosed bracket", path)
				}
				name, end = inner[1:close+1], close+2
			} else if end < 0 {
				return nil, fmt.Errorf("path %q has an unclosed bracket", path)
			} else if name = inner[:end]; strings.Trim(name, "0123456789") == "" || name == "*" {
				name = "[]"
			}
			steps, rest = append(steps, name), strings.TrimPrefix(inner[end+1:], ".")
			continue
		}
		end := strings.IndexAny(rest, ".[")
		if end < 0 {
			end = len(rest)
		}
		if end == 0 {
			return nil, fmt.Errorf("path %q has an empty field name", path)
		}
		steps, rest = append(steps, rest[:end]), strings.TrimPrefix(rest[end:], ".")
	}
	return steps, nil
}

// UnknownFieldError is returned for a field that a resource does not have.
type UnknownFieldError struct {
	// Path leads to the value that lacks the field, Type is its type.
	Path, Type string
	// Name is the requested field.
	Name string
	// Nearest is the field with the most similar name, or "".
	Nearest string
	// Known are the existing fields.
	Known []string
	// Preserved is set if the value accepts any field without specifying it.
	Preserved bool
}

// Error names the unknown field and the nearest known one.
func (e *UnknownFieldError) Error() string {
	text := fmt.Sprintf("there is no field %q in %s", e.Name, orRoot(e.Path))
	switch {
	case e.Nearest != "" || len(e.Known) > 0:
		text += nearest.Hint(e.Nearest, e.Known)
	case e.Preserved:
		text += ", which accepts any field: the schema does not describe them"
	case e.Type == "Object":
		text += ", which has no specified fields"
	default:
		text += fmt.Sprintf(", which is of type %s", e.Type)
	}
	return text
}
