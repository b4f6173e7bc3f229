package main

import (
	"reflect"
	"strings"

	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// listFields returns the names of the fields of all Go types that objects consist of, so that
// cases can leave out those of a later version.
func listFields() (answer, error) {
	fields := map[string][]string{}
	for gr, r := range resources {
		obj, err := legacyscheme.Scheme.New(storageVersion(gr.Group).WithKind(r.kind))
		if err != nil {
			return answer{}, err
		}
		addFields(fields, reflect.TypeOf(obj))
	}
	return answer{Fields: fields}, nil
}

func addFields(fields map[string][]string, t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		addFields(fields, t.Elem())
	case reflect.Struct:
		name := t.PkgPath() + "." + t.Name()
		if _, ok := fields[name]; ok {
			return
		}
		fields[name] = []string{}
		for i := range t.NumField() {
			f := t.Field(i)
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if tag != "" && tag != "-" {
				fields[name] = append(fields[name], tag)
			}
			addFields(fields, f.Type)
		}
	}
}
