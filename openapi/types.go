package openapi

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// reflector creates definitions of Go types from their fields, tags and methods, as a
// code generator does from their source code.
type reflector struct {
	ref common.ReferenceCallback
	// name returns the name of the definition of a type.
	name func(reflect.Type) string
	// doc returns the descriptions of a type's fields by name, with "" for the type
	// itself.
	doc func(reflect.Type) map[string]string
	// special are schemas that cannot be derived from the type; inline are those of
	// types without a definition of their own.
	special, inline map[reflect.Type]spec.Schema
	// marks are extensions that cannot be derived from the type, by the name of the
	// type and, after a dot, of the field.
	marks map[string]spec.Extensions
	// defaults are those that cannot be derived from the type, and optional the fields
	// that are optional although their tags do not say so, by type and field.
	defaults map[string]any
	optional []string
	// comments are the markers in the comments of Kubernetes' types, by package and type.
	// They replace marks, defaults and optional.
	comments map[string]map[string]*typeMarkers

	definitions map[string]common.OpenAPIDefinition
}

// metaReflector creates the definitions of the types that all resources share.
func metaReflector(ref common.ReferenceCallback) *reflector {
	return &reflector{
		ref:  ref,
		name: func(t reflect.Type) string { return util.GetCanonicalTypeName(reflect.Zero(t).Interface()) },
		doc:  swaggerDoc,
		special: map[reflect.Type]spec.Schema{
			reflect.TypeFor[metav1.Time](): {SchemaProps: spec.SchemaProps{
				Description: "Time is a wrapper around time.Time which supports correct marshaling to YAML and JSON.  Wrappers are provided for many of the factory methods that the time package offers.",
				Type:        metav1.Time{}.OpenAPISchemaType(),
				Format:      metav1.Time{}.OpenAPISchemaFormat(),
			}},
		},
		marks: map[string]spec.Extensions{
			"OwnerReference":             {"x-kubernetes-map-type": "atomic"},
			"ObjectMeta.ownerReferences": {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": []any{"uid"}},
			"ObjectMeta.finalizers":      {"x-kubernetes-list-type": "set"},
		},
		defaults:    map[string]any{"ScaleSpec.replicas": int64(0)},
		definitions: map[string]common.OpenAPIDefinition{},
	}
}

// swaggerDoc returns the generated descriptions of a type.
func swaggerDoc(t reflect.Type) map[string]string {
	if d, ok := reflect.Zero(t).Interface().(interface{ SwaggerDoc() map[string]string }); ok {
		return d.SwaggerDoc()
	}
	return nil
}

// add adds the definitions of a type and of those that it refers to, and returns the
// name of its definition.
func (r *reflector) add(t reflect.Type) string {
	name := r.name(t)
	if _, ok := r.definitions[name]; ok {
		return name
	}
	r.definitions[name] = common.OpenAPIDefinition{} // types may refer to themselves
	if s, ok := r.special[t]; ok {
		r.definitions[name] = common.OpenAPIDefinition{Schema: s}
		return name
	}
	var def common.OpenAPIDefinition
	s := &def.Schema
	s.Description = r.doc(t)[""]
	s.Type = spec.StringOrArray{"object"}
	s.Extensions = r.marks[t.Name()]
	if r.comments != nil {
		s.Extensions = markersOf(r.comments, t).extensions()
	}
	r.fields(t, &def)
	slices.Sort(def.Dependencies)
	def.Dependencies = slices.Compact(def.Dependencies)
	r.definitions[name] = def
	return name
}

func (r *reflector) fields(t reflect.Type, def *common.OpenAPIDefinition) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		if f.Anonymous && name == "" {
			r.fields(f.Type, def)
			continue
		}
		omitted := isOmitted(options)
		s := r.value(f.Type, def)
		s.Description = r.doc(t)[name]
		required := !omitted && !slices.Contains(r.optional, t.Name()+"."+name)
		if r.comments != nil {
			required = r.mark(&s, t, name, f.Type, !omitted)
		} else {
			s.Default = r.defaults[t.Name()+"."+name]
			if slices.Contains(s.Type, "array") && !strings.HasSuffix(t.Name(), "List") { // lists are not applied
				s.AddExtension("x-kubernetes-list-type", "atomic")
			}
			for k, v := range r.marks[t.Name()+"."+name] {
				s.AddExtension(k, v)
			}
		}
		if s.Default == nil {
			s.Default = r.zero(f.Type, omitted)
		}
		for tag, extension := range map[string]string{
			"patchStrategy": "x-kubernetes-patch-strategy",
			"patchMergeKey": "x-kubernetes-patch-merge-key",
		} {
			if v := f.Tag.Get(tag); v != "" {
				s.AddExtension(extension, v)
			}
		}
		def.Schema.SetProperty(name, s)
		if required {
			def.Schema.Required = append(def.Schema.Required, name)
		}
	}
}

// mark adds what the comments of a field and of its type say to the schema of the field. It
// returns whether the field is required, given what its tags say.
func (r *reflector) mark(s *spec.Schema, t reflect.Type, name string, of reflect.Type, required bool) bool {
	m := markersOf(r.comments, t).Fields[name]
	m.extend(s)
	s.Default = m.Default
	if m.Doc != "" {
		s.Description = m.Doc
	}
	s.Description = markersOf(r.comments, of).describe(s.Description)
	if m.Required != nil {
		return *m.Required
	}
	return required
}

// value returns the schema of a field, an item or a map value.
func (r *reflector) value(t reflect.Type, def *common.OpenAPIDefinition) (s spec.Schema) {
	if s, ok := r.inline[t]; ok {
		return s
	}
	switch t.Kind() {
	case reflect.Pointer:
		return r.value(t.Elem(), def)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return typed("string", "byte")
		}
		s = typed("array", "")
		items := r.value(t.Elem(), def)
		s.Items = &spec.SchemaOrArray{Schema: &items}
		return s
	case reflect.Map:
		s = typed("object", "")
		values := r.value(t.Elem(), def)
		s.AdditionalProperties = &spec.SchemaOrBool{Allows: true, Schema: &values}
		return s
	case reflect.Struct:
	case reflect.Interface:
		return s
	default:
		s = typed(common.OpenAPITypeFormat(t.Kind().String()))
		if r.comments != nil {
			markersOf(r.comments, t).enum(&s)
		}
		return s
	}
	name := r.add(t)
	def.Dependencies = append(def.Dependencies, name)
	s.Ref = r.ref(name)
	return s
}

func typed(name, format string) (s spec.Schema) {
	s.Type, s.Format = spec.StringOrArray{name}, format
	return s
}

// zero returns the default that a type implies: the value of a field that is missing in
// the JSON, if the Go type cannot represent that it is missing.
func (r *reflector) zero(t reflect.Type, optional bool) any {
	if _, ok := r.special[t]; ok {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface:
		return nil
	case reflect.Struct:
		if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
			return nil // its zero value is null
		}
		if t.NumField() == 1 && t.Field(0).Anonymous {
			return r.zero(t.Field(0).Type, optional)
		}
		return map[string]any{}
	}
	if optional {
		return nil
	}
	z, _ := common.OpenAPIZeroValue(t.Kind().String())
	return z
}
