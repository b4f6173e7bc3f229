package api_test

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
)

// The files list the fields that Kubernetes has on the wire, with ? after those
// that are left out when empty, and below a line of dashes the fields that are ours.
func TestWireFields(t *testing.T) {
	for file, typ := range map[string]reflect.Type{
		"testdata/v1.fields":      reflect.TypeFor[api.CustomResourceDefinition](),
		"testdata/v1beta1.fields": reflect.TypeFor[v1beta1.CustomResourceDefinition](),
	} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for line := range strings.Lines(string(data)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--") {
				want = append(want, line)
			}
		}
		got := map[string]bool{}
		wireFields(typ, "", got, map[reflect.Type]bool{})
		for _, w := range want {
			if !got[w] {
				t.Errorf("%s: missing: %s", file, w)
			}
		}
		for g := range got {
			if !slices.Contains(want, g) {
				t.Errorf("%s: not in the list: %s", file, g)
			}
		}
	}
}

func wireFields(t reflect.Type, path string, out map[string]bool, seen map[reflect.Type]bool) {
	switch t.Kind() {
	case reflect.Pointer:
		wireFields(t.Elem(), path+"*", out, seen)
	case reflect.Map:
		wireFields(t.Elem(), path+"{}", out, seen)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			out[path+" bytes"] = true
			return
		}
		wireFields(t.Elem(), path+"[]", out, seen)
	case reflect.Struct:
		foreign := !strings.HasPrefix(t.PkgPath(), "espalier.dev/")
		if foreign || t == reflect.TypeFor[api.JSON]() || strings.HasPrefix(t.Name(), "JSONSchemaProps") && seen[t] {
			out[path+" "+t.Name()] = true
			return
		}
		seen[t] = true
		if t.NumField() == 0 {
			out[path+" {}"] = true
		}
		for i := range t.NumField() {
			f := t.Field(i)
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				name = "<" + f.Name + ">"
			}
			if strings.Contains(options, "omitempty") {
				name += "?"
			}
			wireFields(f.Type, path+"."+name, out, seen)
		}
	default:
		out[fmt.Sprintf("%s %s", path, t.Kind())] = true
	}
}
