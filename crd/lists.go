package crd

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
)

// lists validates the list type and map type of s.
func (w *schemaWalk) lists(s *api.JSONSchemaProps, p *place) {
	w.shape(s, p, s.XMapType, "x-kubernetes-map-type", "object", "atomic", "granular")
	if s.Type.Single() == "array" && w.d.atomicSets && hasMergedSet(s) {
		// kube-apiserver shows the list type in both cases.
		keyword := "x-kubernetes-map-type"
		if s.Items.Schema.Type.Single() == "array" {
			keyword = "x-kubernetes-list-type"
		}
		w.invalid(p, child("items", keyword), s.Items.Schema.XListType, "must be atomic as item of a list with x-kubernetes-list-type=set")
	}
	w.shape(s, p, s.XListType, "x-kubernetes-list-type", "array", "atomic", "set", "map")
	if len(s.XListMapKeys) > 0 {
		const detail = "must be map if x-kubernetes-list-map-keys is non-empty"
		if s.XListType == nil {
			w.require(p, child("x-kubernetes-list-type"), detail)
		} else if *s.XListType != "map" {
			w.invalid(p, child("x-kubernetes-list-type"), *s.XListType, detail)
		}
	}
	if s.XListType != nil && *s.XListType == "map" {
		w.mapList(s, p)
	}
	if w.d.completeKeys {
		w.keys(s, p)
	}
}

// shape validates a list type or map type: its value, and the type of the schema.
func (w *schemaWalk) shape(s *api.JSONSchemaProps, p *place, value *string, keyword, typ string, allowed ...string) {
	if value == nil {
		return
	}
	if t := typeOf(s); t != typ {
		detail := "must be " + typ + " if " + keyword + " is specified"
		if t == "" {
			w.require(p, child("type"), detail)
		} else {
			w.invalid(p, child("type"), t, detail)
		}
	}
	if !slices.Contains(allowed, *value) {
		w.unsupported(p, child(keyword), *value, allowed)
	}
}

// hasMergedSet reports whether s is a set whose items are merged field by field, so
// that they cannot be identified by their value.
func hasMergedSet(s *api.JSONSchemaProps) bool {
	if s.XListType == nil || *s.XListType != "set" || s.Items == nil || s.Items.Schema == nil {
		return false
	}
	switch item := s.Items.Schema; item.Type.Single() {
	case "array":
		return item.XListType != nil && *item.XListType != "atomic"
	case "object":
		return item.XMapType == nil || *item.XMapType != "atomic"
	}
	return false
}

// mapList validates a list of type map.
func (w *schemaWalk) mapList(s *api.JSONSchemaProps, p *place) {
	if len(s.XListMapKeys) == 0 {
		w.require(p, child("x-kubernetes-list-map-keys"), "must not be empty if x-kubernetes-list-type is map")
	}
	if s.Items == nil {
		w.require(p, child("items"), "must have a schema if x-kubernetes-list-type is map")
		return
	}
	item := s.Items.Schema
	if item == nil {
		w.invalid(p, child("items"), s.Items, "must only have a single schema if x-kubernetes-list-type is map")
		return
	}
	if t := typeOf(item); t != "object" {
		w.invalid(p, child("items", "type"), t, "must be object if parent array's x-kubernetes-list-type is map")
		return
	}
	seen := map[string]bool{}
	for _, k := range s.XListMapKeys {
		if prop, ok := item.Properties[k]; !ok {
			w.invalid(p, child("x-kubernetes-list-map-keys"), s.XListMapKeys, "entries must all be names of item properties")
		} else if t := prop.Type.Single(); t == "array" || t == "object" {
			w.invalid(p, keyPath(k, "type"), "object", "must be a scalar type if parent array's x-kubernetes-list-type is map")
		}
		if seen[k] {
			w.invalid(p, child("x-kubernetes-list-map-keys"), s.XListMapKeys, "must not contain duplicate entries")
		}
		seen[k] = true
	}
}

// keyPath returns the path of a keyword in the property that is a key of a list.
func keyPath(key, keyword string) func(*field.Path) *field.Path {
	return func(p *field.Path) *field.Path {
		return p.Child("items").Child("properties").Key(key).Child(keyword)
	}
}

// hasIncompleteKeys reports whether s is a list of type set or map whose items may be
// null or may lack a key.
func hasIncompleteKeys(s *api.JSONSchemaProps) bool {
	w := schemaWalk{}
	w.keys(s, &place{})
	return w.found > 0
}

// keys checks that the items of a list of type set or map are not null and have their
// keys.
func (w *schemaWalk) keys(s *api.JSONSchemaProps, p *place) {
	if s.Items == nil || s.Items.Schema == nil || s.XListType == nil || *s.XListType != "set" && *s.XListType != "map" {
		return
	}
	item := s.Items.Schema
	if item.Nullable {
		w.forbid(p, child("items", "nullable"), "cannot be nullable when x-kubernetes-list-type is "+*s.XListType)
	}
	if *s.XListType != "map" {
		return
	}
	required := map[string]bool{}
	for _, name := range item.Required {
		required[name] = true
	}
	for _, k := range s.XListMapKeys {
		prop, ok := item.Properties[k]
		if !ok {
			continue
		}
		if !required[k] && prop.Default == nil {
			w.require(p, keyPath(k, "default"),
				"this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property")
		}
		if prop.Nullable {
			w.forbid(p, keyPath(k, "nullable"), "this property is in x-kubernetes-list-map-keys, so it cannot be nullable")
		}
	}
}
