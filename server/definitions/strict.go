package definitions

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/api"
)

// unknownFields returns the paths of the fields in a tree that a type does not have. deep
// also checks schemas under items, additionalProperties and dependencies, which
// kube-apiserver does not. Without it, fields that kube-apiserver does not have are unknown.
func unknownFields(tree any, as reflect.Type, deep bool) []string {
	return walkUnknown(tree, as, strictWalk{deep: deep, withoutForeign: !deep})
}

// undeclaredFields returns the paths of the fields in a tree that a type of kube-apiserver does not have, at
// any depth.
func undeclaredFields(tree any, as reflect.Type) []string {
	return walkUnknown(tree, as, strictWalk{deep: true, withoutForeign: true})
}

// dropUnknown drops the fields in a tree that a type does not have, as decoding does, and
// reports whether there were any.
func dropUnknown(tree any, as reflect.Type) bool {
	return len(walkUnknown(tree, as, strictWalk{deep: true, drop: true})) > 0
}

func walkUnknown(tree any, as reflect.Type, w strictWalk) []string {
	w.fields = map[reflect.Type]map[string]reflect.Type{}
	w.value("", tree, as)
	slices.Sort(w.unknown)
	return w.unknown
}

type strictWalk struct {
	// deep is set if schemas below items, additionalProperties and dependencies are walked, and
	// withoutForeign if fields that kube-apiserver does not have are unknown.
	deep, withoutForeign, drop bool
	unknown                    []string
	// fields has the fields of the structs that were visited, by name: a CRD has many values
	// of few types.
	fields map[reflect.Type]map[string]reflect.Type
}

// fieldsOf returns the fields of a struct by their names in JSON.
func (w *strictWalk) fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields, ok := w.fields[t]
	if !ok {
		fields = map[string]reflect.Type{}
		fieldTypes(t, fields)
		if w.withoutForeign {
			maps.DeleteFunc(fields, func(name string, _ reflect.Type) bool {
				return name == "readOnly" || name == "x-kubernetes-unions" || name == "jsonSchema"
			})
		}
		w.fields[t] = fields
	}
	return fields
}

func (w *strictWalk) value(path string, v any, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.FieldsV1](),
		reflect.TypeFor[api.JSON](), reflect.TypeFor[api.StringOrArray]():
		return
	case reflect.TypeFor[api.JSONSchemaPropsOrArray](), reflect.TypeFor[api.JSONSchemaPropsOrBool](),
		reflect.TypeFor[api.JSONSchemaPropsOrStringArray]():
		if w.deep {
			w.either(path, v)
		}
		return
	}
	switch v := v.(type) {
	case map[string]any:
		switch t.Kind() {
		case reflect.Struct:
			fields := w.fieldsOf(t)
			for name, x := range v {
				if ft, ok := fields[name]; ok {
					w.value(join(path, name), x, ft)
				} else {
					w.unknown = append(w.unknown, join(path, name))
					if w.drop {
						delete(v, name)
					}
				}
			}
		case reflect.Map:
			for name, x := range v {
				w.value(join(path, name), x, t.Elem())
			}
		}
	case []any:
		if t.Kind() == reflect.Slice {
			for i, x := range v {
				w.value(path+"["+strconv.Itoa(i)+"]", x, t.Elem())
			}
		}
	}
}

// either walks a value that is a schema or a list of schemas.
func (w *strictWalk) either(path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		w.value(path, v, reflect.TypeFor[api.JSONSchemaProps]())
	case []any:
		w.value(path, v, reflect.TypeFor[[]api.JSONSchemaProps]())
	}
}

// fieldTypes collects the fields of a struct by their names in JSON.
func fieldTypes(t reflect.Type, into map[string]reflect.Type) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case f.Anonymous && name == "":
			fieldTypes(f.Type, into)
		default:
			into[name] = f.Type
		}
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
