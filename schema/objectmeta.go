package schema

import (
	"reflect"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IsMetaField reports whether name is apiVersion, kind or metadata: the fields that
// every resource has, whatever its schema contains.
func IsMetaField(name string) bool {
	return name == "metadata" || name == "kind" || name == "apiVersion"
}

// ObjectMeta returns the schema of the metadata of a resource: the fields of
// [metav1.ObjectMeta] with their types, formats and descriptions. The caller may
// change it.
func ObjectMeta() *Structural { return objectMetaType().schema() }

// MetaFields returns the schemas of apiVersion, kind and metadata of a resource by
// name, with their descriptions in Kubernetes. The caller may change them.
func MetaFields() map[string]*Structural {
	fields := newMetaType(reflect.TypeFor[metav1.TypeMeta]()).schema().Properties
	fields["metadata"] = ObjectMeta()
	fields["metadata"].Description = "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
	return fields
}

// metaKind is a kind of value in metadata.
type metaKind uint8

const (
	metaString metaKind = iota
	metaInteger
	metaBoolean
	metaTime
	metaFields // a set of fields, in the format of FieldsV1
	metaList
	metaMap
	metaStruct
)

// metaType describes the JSON encoding of a Go type in metadata. It is derived from the
// Go type, so that it never differs from ObjectMeta.
type metaType struct {
	kind        metaKind
	description string
	// omitsZero is true for a field that is omitted if it has its zero value. A pointer
	// is omitted if it is nil, not if it points to a zero value.
	omitsZero bool
	// elem is the type of the items of a list and of the values of a map.
	elem *metaType
	// fields are the fields of a struct; required lists those that are never omitted.
	fields   map[string]*metaType
	required []string
}

// objectMetaType returns the description of ObjectMeta. It must not be changed.
var objectMetaType = sync.OnceValue(func() *metaType { return newMetaType(reflect.TypeFor[metav1.ObjectMeta]()) })

// newMetaType returns the description of a Go type. It supports the types in
// ObjectMeta.
func newMetaType(t reflect.Type) *metaType {
	switch t {
	case reflect.TypeFor[metav1.Time]():
		return &metaType{kind: metaTime}
	case reflect.TypeFor[metav1.FieldsV1]():
		return &metaType{kind: metaFields}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return newMetaType(t.Elem())
	case reflect.Slice:
		return &metaType{kind: metaList, elem: newMetaType(t.Elem())}
	case reflect.Map:
		return &metaType{kind: metaMap, elem: newMetaType(t.Elem())}
	case reflect.Int64:
		return &metaType{kind: metaInteger}
	case reflect.Bool:
		return &metaType{kind: metaBoolean}
	case reflect.Struct:
		return newMetaStruct(t)
	}
	return &metaType{kind: metaString}
}

func newMetaStruct(t reflect.Type) *metaType {
	var docs map[string]string
	if d, ok := reflect.Zero(t).Interface().(interface{ SwaggerDoc() map[string]string }); ok {
		docs = d.SwaggerDoc()
	}
	out := &metaType{kind: metaStruct, description: docs[""], fields: make(map[string]*metaType, t.NumField())}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",") // all fields of the types in ObjectMeta have one
		sub := newMetaType(f.Type)
		sub.description = docs[name]
		if strings.Contains(f.Tag.Get("json"), ",omitempty") {
			sub.omitsZero = f.Type.Kind() != reflect.Pointer
		} else {
			out.required = append(out.required, name)
		}
		out.fields[name] = sub
	}
	return out
}

// schema returns the schema of the type.
func (t *metaType) schema() *Structural {
	s := &Structural{Generic: Generic{Description: t.description}}
	switch t.kind {
	case metaString:
		s.Type = "string"
	case metaInteger:
		s.Type, s.ValueValidation = "integer", &ValueValidation{Format: "int64"}
	case metaBoolean:
		s.Type = "boolean"
	case metaTime:
		s.Type, s.ValueValidation = "string", &ValueValidation{Format: "date-time"}
	case metaFields:
		s.Type, s.XPreserveUnknownFields = "object", true
	case metaList:
		s.Type, s.Items = "array", t.elem.schema()
	case metaMap:
		s.Type, s.AdditionalProperties = "object", &StructuralOrBool{Structural: t.elem.schema(), Bool: true}
	case metaStruct:
		s.Type, s.Properties = "object", make(map[string]*Structural, len(t.fields))
		for name, f := range t.fields {
			s.Properties[name] = f.schema()
		}
		if len(t.required) > 0 {
			s.ValueValidation = &ValueValidation{Required: append([]string(nil), t.required...)}
		}
	}
	return s
}

// isNormal reports whether v is what the Go type encodes to. A true result is always
// right, a false result may be wrong. A nil t describes no field.
func (t *metaType) isNormal(v any) bool {
	if t == nil {
		return false
	}
	switch t.kind {
	case metaString:
		s, ok := v.(string)
		return ok && (s != "" || !t.omitsZero)
	case metaInteger:
		n, ok := v.(int64)
		return ok && (n != 0 || !t.omitsZero)
	case metaBoolean:
		b, ok := v.(bool)
		return ok && (b || !t.omitsZero)
	case metaTime:
		s, _ := v.(string)
		return isCanonicalTime(s)
	case metaFields:
		_, ok := v.(map[string]any)
		return ok
	case metaList:
		list, _ := v.([]any)
		for _, item := range list {
			if !t.elem.isNormal(item) {
				return false
			}
		}
		return len(list) > 0
	case metaMap:
		m, _ := v.(map[string]any)
		for _, value := range m {
			if !t.elem.isNormal(value) {
				return false
			}
		}
		return len(m) > 0
	}
	obj, ok := v.(map[string]any)
	return ok && t.isNormalStruct(obj)
}

func (t *metaType) isNormalStruct(obj map[string]any) bool {
	for name, v := range obj {
		if !t.fields[name].isNormal(v) {
			return false
		}
	}
	for _, name := range t.required {
		if _, ok := obj[name]; !ok {
			return false
		}
	}
	return true
}

// apiVersionPattern matches what kube-apiserver accepts as the apiVersion of an
// embedded resource: a non-empty string with at most one slash.
const apiVersionPattern = `^([^/]+/?|/)[^/]*$`

// embeddedResourceFields returns the published schemas of the fields that every
// resource has. Timestamps are nullable because clients write creationTimestamp: null
// for objects that have not been created. The caller may change the schemas.
func embeddedResourceFields() map[string]*Structural {
	fields := MetaFields()
	for _, field := range fields {
		for _, s := range field.All() {
			s.Description = ""
			s.Nullable = s.ValueValidation != nil && s.ValueValidation.Format == "date-time"
		}
	}
	fields["apiVersion"].ValueValidation = &ValueValidation{Pattern: apiVersionPattern}
	return fields
}
