package openapi

import (
	_ "embed" // for markers.json
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// markersJSON has what only the comments in the sources of Kubernetes' types say, by package
// and type. A test generates it.
//
//go:embed markers.json
var markersJSON []byte

// typeMarkers are what the comments of a type say about its definition.
type typeMarkers struct {
	// Doc is the description, if the type has no method that returns it.
	Doc string `json:"doc,omitempty"`
	// Map is the map type of a struct.
	Map string `json:"map,omitempty"`
	// Union lists fields of which at most one is set.
	Union *unionMarkers `json:"union,omitempty"`
	// Fields has the fields with markers, by their names in JSON.
	Fields map[string]fieldMarkers `json:"fields,omitempty"`
	// Enum has the values of a text, and their descriptions.
	Enum map[string]string `json:"enum,omitempty"`
}

type unionMarkers struct {
	Discriminator string            `json:"discriminator,omitempty"`
	Fields        map[string]string `json:"fields"`
}

// fieldMarkers are what the comments of a field say about its schema.
type fieldMarkers struct {
	// Doc is the description, if no method of the type returns all of it.
	Doc     string   `json:"doc,omitempty"`
	List    string   `json:"list,omitempty"`
	Keys    []string `json:"keys,omitempty"`
	Map     string   `json:"map,omitempty"`
	Default any      `json:"default,omitempty"`
	// Required is set if the tags of the field do not say the same.
	Required *bool `json:"required,omitempty"`
}

// markers returns the markers of all types. They are read on first use.
var markers = sync.OnceValues(func() (map[string]map[string]*typeMarkers, error) {
	var out map[string]map[string]*typeMarkers
	if err := json.Unmarshal(markersJSON, &out); err != nil {
		return nil, fmt.Errorf("markers of Kubernetes' types: %w", err)
	}
	return out, nil
})

// enum adds the values that a type allows to the schema of a field.
func (m *typeMarkers) enum(s *spec.Schema) {
	for value := range m.Enum {
		s.Enum = append(s.Enum, value)
	}
	slices.SortFunc(s.Enum, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
}

// describe adds the values that a type allows to a description.
func (m *typeMarkers) describe(description string) string {
	if len(m.Enum) == 0 {
		return description
	}
	lines := make([]string, 0, len(m.Enum))
	for value, doc := range m.Enum {
		lines = append(lines, strings.TrimRight(fmt.Sprintf(" - `%q` %s", value, doc), " "))
	}
	slices.Sort(lines)
	return description + "\n\nPossible enum values:\n" + strings.Join(lines, "\n")
}

// extensions returns the extensions of a type's definition.
func (m *typeMarkers) extensions() spec.Extensions {
	if m.Map == "" && m.Union == nil {
		return nil
	}
	out := spec.Extensions{}
	if m.Map != "" {
		out["x-kubernetes-map-type"] = m.Map
	}
	if u := m.Union; u != nil {
		fields := map[string]any{}
		for name, field := range u.Fields {
			fields[name] = field
		}
		union := map[string]any{"fields-to-discriminateBy": fields}
		if u.Discriminator != "" {
			union["discriminator"] = u.Discriminator
		}
		out["x-kubernetes-unions"] = []any{union}
	}
	return out
}

// extend adds the markers of a field to its schema.
func (m fieldMarkers) extend(s *spec.Schema) {
	if m.List != "" {
		s.AddExtension("x-kubernetes-list-type", m.List)
	}
	if len(m.Keys) > 0 {
		keys := make([]any, len(m.Keys))
		for i, key := range m.Keys {
			keys[i] = key
		}
		s.AddExtension("x-kubernetes-list-map-keys", keys)
	}
	if m.Map != "" {
		s.AddExtension("x-kubernetes-map-type", m.Map)
	}
}

// isOmitted reports whether the options of a JSON tag omit some values of the field.
func isOmitted(options string) bool {
	return strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
}

// markersOf returns the markers of a type, without any if it has none.
func markersOf(all map[string]map[string]*typeMarkers, t reflect.Type) *typeMarkers {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if m := all[t.PkgPath()][t.Name()]; m != nil {
		return m
	}
	return &typeMarkers{}
}
