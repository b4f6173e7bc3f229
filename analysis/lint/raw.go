package lint

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/nearest"
)

// duplicates reports keys that occur twice in an object.
func (c *check) duplicates(raw []byte) {
	if !json.Valid(raw) {
		return
	}
	for steps := range jsonx.Duplicates(raw) {
		if c.steps > maxSteps {
			return
		}
		at := root()
		for _, s := range steps {
			switch {
			case s.IsIndex:
				at = at.index(s.Index)
			case at.form == member && holdsNames(at.token):
				at = at.key(s.Key)
			default:
				at = at.child(s.Key)
			}
		}
		c.warn(duplicateKey, at, fmt.Sprintf("%q occurs more than once: only the last one takes effect", at.token))
	}
}

// holdsNames reports whether the keys of a field are user-defined names.
func holdsNames(field string) bool {
	switch field {
	case "properties", "patternProperties", "definitions", "dependencies", "annotations", "labels":
		return true
	}
	return false
}

// unknownFields reports fields that the Go types do not have.
func (c *check) unknownFields() {
	t := reflect.TypeFor[api.CustomResourceDefinition]()
	if c.d.beta != nil {
		t = reflect.TypeFor[v1beta1.CustomResourceDefinition]()
	}
	u := unknowns{check: c, structs: map[reflect.Type]map[string]reflect.Type{}}
	for _, k := range sortedNames(c.d.tree) {
		if k != "status" {
			// Unknown fields in the status do not matter: the API server drops the status.
			u.member(c.d.tree, k, t, root())
		}
	}
}

// unknowns compares a tree with Go types.
type unknowns struct {
	*check
	structs map[reflect.Type]map[string]reflect.Type
}

func (u *unknowns) value(v any, t reflect.Type, at *place) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[api.JSON](), reflect.TypeFor[api.StringOrArray]():
		return
	case reflect.TypeFor[api.JSONSchemaPropsOrArray](), reflect.TypeFor[api.JSONSchemaPropsOrBool](),
		reflect.TypeFor[api.JSONSchemaPropsOrStringArray]():
		t = reflect.TypeFor[api.JSONSchemaProps]()
		if list, ok := v.([]any); ok {
			for i := range list {
				u.value(list[i], t, at.index(i))
			}
			return
		}
	case reflect.TypeFor[api.JSONSchemaProps]():
	default:
		if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
			return
		}
	}
	switch v := v.(type) {
	case map[string]any:
		for _, k := range sortedNames(v) {
			switch t.Kind() {
			case reflect.Struct:
				u.member(v, k, t, at)
			case reflect.Map:
				u.value(v[k], t.Elem(), at.key(k))
			}
		}
	case []any:
		if t.Kind() == reflect.Slice {
			for i := range v {
				u.value(v[i], t.Elem(), at.index(i))
			}
		}
	}
}

// member checks a field of an object that should match t.
func (u *unknowns) member(obj map[string]any, name string, t reflect.Type, at *place) {
	fields, ok := u.structs[t]
	if !ok {
		fields = map[string]reflect.Type{}
		wireFields(t, fields)
		u.structs[t] = fields
	}
	if ft, ok := fields[name]; ok {
		if u.release != 0 {
			u.later(t, name, at)
		}
		u.value(obj[name], ft, at.child(name))
		return
	}
	isSchema := t == reflect.TypeFor[api.JSONSchemaProps]()
	if isSuperseded(name, t) {
		return // superseded, which is worse
	}
	message := fmt.Sprintf("unknown field %q: the API server drops it", name)
	if isSchema {
		message = fmt.Sprintf("schemas of CRDs do not support the keyword %q: the API server drops it", name)
	}
	n := note{severity: analysis.Warning}
	switch hint := u.hint(name, t, at); {
	case hint != "":
		n.detail = []string{hint}
	default:
		var free []string
		for _, f := range sortedNames(fields) {
			if _, taken := obj[f]; !taken {
				free = append(free, f)
			}
		}
		if meant := nearest.Name(name, slices.Values(free)); meant != "" {
			n.detail = []string{"did you mean " + meant + "?"}
		}
	}
	u.add(unknownField, at.child(name), n, message)
}

// hint suggests a replacement for a field that exists in another version or standard.
func (u *unknowns) hint(name string, t reflect.Type, at *place) string {
	switch t {
	case reflect.TypeFor[api.CustomResourceDefinitionSpec]():
		switch name {
		case "validation":
			return "this is a v1beta1 field: in v1 each version has its own schema"
		case "version", "subresources", "additionalPrinterColumns", "selectableFields":
			return "this is a v1beta1 field: in v1 each of spec.versions has its own"
		}
	case reflect.TypeFor[api.CustomResourceConversion]():
		switch name {
		case "webhookClientConfig":
			return "this is a v1beta1 field: in v1 it is webhook.clientConfig"
		case "conversionReviewVersions":
			return "this is a v1beta1 field: in v1 it is webhook.conversionReviewVersions"
		}
	case reflect.TypeFor[api.JSONSchemaProps]():
		switch name {
		case "const":
			return "use enum with one value"
		case "examples":
			return "use example"
		case "if", "then", "else", "contains", "propertyNames", "$defs", "discriminator":
			return "it is a keyword of JSON Schema or OpenAPI: an x-kubernetes-validations rule may express the condition"
		case "deprecated", "writeOnly", "xml", "$comment", "$id":
			return "it is a keyword of JSON Schema or OpenAPI"
		}
	}
	return ""
}

// wireFields collects the fields of a struct by their JSON names.
func wireFields(t reflect.Type, out map[string]reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			wireFields(f.Type, out)
		case name != "" && name != "-":
			out[name] = f.Type
		}
	}
}
