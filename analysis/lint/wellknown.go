package lint

import (
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"espalier.dev/api"
	"espalier.dev/internal/upstream"
)

// knownType is an object type of the Kubernetes API, such as PodSpec or LabelSelector. CRDs embed
// them, and cannot change them.
type knownType struct {
	// fields are the types of the fields.
	fields map[string]knownField
	// required are the fields that all objects have.
	required []string
	// partial is set for metadata, of which CRDs specify some fields at most.
	partial bool
}

// knownField is the type of a field.
type knownField struct {
	// json is the type in JSON, or "" for any.
	json string
	// object is the type of the field, of its items, or of its values, if that is an object type,
	// else nil.
	object *knownType
}

// intOrString is the type in JSON of a field that is an integer or a string.
const intOrString = "int-or-string"

// knownTypes returns the object types in all kinds of Kubernetes by the names of their fields. They
// come from the Go types, so that no list of them can be out of date.
var knownTypes = sync.OnceValue(func() map[string][]*knownType {
	all := knownLibrary{}
	for _, t := range upstream.Scheme().AllKnownTypes() {
		all.object(t)
	}
	index := map[string][]*knownType{}
	for _, k := range all {
		for name := range k.fields {
			index[name] = append(index[name], k)
		}
	}
	return index
})

// knownLibrary has object types by their Go types.
type knownLibrary map[reflect.Type]*knownType

// object returns the object type of a Go type, of its items, or of its values. It returns nil if
// that is no object type.
func (l knownLibrary) object(t reflect.Type) *knownType {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || jsonType(t) != "object" {
		return nil
	}
	if l[t] == nil {
		l[t] = &knownType{fields: map[string]knownField{}, partial: t == reflect.TypeFor[metav1.ObjectMeta]()}
		l.fields(l[t], t)
	}
	return l[t]
}

// fields adds the fields of a Go type to an object type.
func (l knownLibrary) fields(k *knownType, t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && f.Anonymous:
			l.fields(k, f.Type)
		case name != "":
			k.fields[name] = knownField{jsonType(f.Type), l.object(f.Type)}
			if !strings.Contains(options, "omit") {
				k.required = append(k.required, name)
			}
		}
	}
}

// jsonType returns the type of a Go type in JSON, or "" if it is not known.
func jsonType(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[metav1.Duration]():
		return "string"
	case reflect.TypeFor[intstr.IntOrString](), reflect.TypeFor[resource.Quantity]():
		return intOrString
	case reflect.TypeFor[runtime.RawExtension](), reflect.TypeFor[metav1.FieldsV1]():
		return ""
	}
	switch t.Kind() {
	case reflect.Pointer:
		return jsonType(t.Elem())
	case reflect.Struct, reflect.Map:
		return "object"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "string"
		}
		return "array"
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8,
		reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "integer"
	}
	return ""
}

// wellKnown returns the type of the Kubernetes API that a schema describes, or nil.
func wellKnown(s *api.JSONSchemaProps) *knownType {
	if len(s.Properties) < 2 {
		return nil
	}
	tried := map[*knownType]bool{}
	for _, name := range sortedNames(s.Properties) {
		for _, k := range knownTypes()[name] {
			if !tried[k] && !k.partial && k.describes(s) {
				return k
			}
			tried[k] = true
		}
	}
	return nil
}

// describes reports whether a schema is that of the type. The schema may be of an older version,
// which lacks fields, but has most of those of the type. They have the same types, at any depth. It
// has other fields only if it has so many of the type that this is no coincidence: the type is then
// inlined.
func (k *knownType) describes(s *api.JSONSchemaProps) bool {
	same := 0
	for name := range s.Properties {
		if _, ok := k.fields[name]; ok {
			same++
		}
	}
	const many = 10
	if same < many && same < len(s.Properties) || !k.partial && 2*same <= len(k.fields) {
		return false
	}
	for _, name := range k.required {
		if _, ok := s.Properties[name]; !ok {
			return false
		}
	}
	for name := range s.Properties {
		p := s.Properties[name]
		if want, ok := k.fields[name]; ok && !want.fits(&p) {
			return false
		}
	}
	return true
}

// fits reports whether a schema is that of the field.
func (f knownField) fits(s *api.JSONSchemaProps) bool {
	if got := knownTypeOf(s); got != "" && f.json != "" && got != f.json && !(f.json == intOrString && got == "string") {
		return false
	}
	switch {
	case s.Items != nil && s.Items.Schema != nil:
		s = s.Items.Schema
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		s = s.AdditionalProperties.Schema
	}
	return f.object == nil || len(s.Properties) == 0 || f.object.describes(s)
}

// knownTypeOf returns the type of a schema, or "" if it has none.
func knownTypeOf(s *api.JSONSchemaProps) string {
	if s.XIntOrString {
		return intOrString
	}
	return s.Type.Single()
}

// leftAlone reports whether most conventions do not apply to a schema because it is a part of a type
// of the Kubernetes API, which the author of the CRD cannot change. Parents must be asked first. The
// spec and status of a resource are its own, even if they look like those of another one.
func (n *node) leftAlone() bool {
	if n.up == nil {
		return false
	}
	isField := false
	if n.up.known != nil {
		_, isField = n.up.known.fields[n.name]
	}
	if n.inKnown = n.up.inKnown || isField; n.inKnown {
		return true
	}
	if own := n.up.kind == rootNode && (n.name == "spec" || n.name == "status"); !own {
		n.known = wellKnown(n.s)
	}
	return false
}
