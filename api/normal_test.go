package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"espalier.dev/api"
)

// normalizer brings generic JSON into the form in which two documents of one type
// are equal if they mean the same: without fields that the type does not have, and
// without values that say nothing.
type normalizer struct {
	// unknown are the paths of the fields that the type does not have.
	unknown []string
}

// normalize returns the JSON that stands for the value of type t, or nil if it says
// nothing.
func (n *normalizer) normalize(t reflect.Type, v any, path string) any {
	if v == nil {
		return nil
	}
	if t.Kind() == reflect.Pointer {
		// A pointer to nothing says something, unless it is an either-or that is neither.
		if t.Elem() == reflect.TypeFor[api.JSONSchemaPropsOrArray]() {
			return n.normalize(t.Elem(), v, path)
		}
		return n.item(t.Elem(), v, path)
	}
	switch reflect.Zero(t).Interface().(type) {
	case api.JSON:
		return v
	case api.StringOrArray:
		if list, ok := v.([]any); ok && len(list) == 1 && list[0] != "" {
			return list[0]
		}
		return unlessEmpty(v)
	case api.JSONSchemaPropsOrBool, api.JSONSchemaPropsOrArray, api.JSONSchemaPropsOrStringArray:
		switch v := v.(type) {
		case map[string]any:
			out := n.normalize(reflect.TypeFor[api.JSONSchemaProps](), v, path)
			if out == nil {
				return map[string]any{}
			}
			return out
		case []any:
			out := make([]any, len(v))
			for i := range v {
				out[i] = v[i]
				if m, ok := v[i].(map[string]any); ok {
					out[i] = n.item(reflect.TypeFor[api.JSONSchemaProps](), m, fmt.Sprintf("%s[%d]", path, i))
				}
			}
			return out
		case bool:
			return v
		}
		return nil
	}
	if t != reflect.TypeFor[api.JSONSchemaProps]() && reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return v
	}
	switch t.Kind() {
	case reflect.Struct:
		return n.object(t, v.(map[string]any), path)
	case reflect.Map:
		out := map[string]any{}
		for k, e := range v.(map[string]any) {
			out[k] = n.item(t.Elem(), e, path+"["+k+"]")
		}
		return unlessEmpty(out)
	case reflect.Slice:
		list, ok := v.([]any)
		if !ok {
			return unlessEmpty(v)
		}
		out := make([]any, len(list))
		for i := range list {
			out[i] = n.item(t.Elem(), list[i], fmt.Sprintf("%s[%d]", path, i))
		}
		return unlessEmpty(out)
	case reflect.Float64:
		return toFloat(v)
	}
	return unlessEmpty(v)
}

// item normalizes an item of a list or a value of a map, which are kept even if empty.
func (n *normalizer) item(t reflect.Type, v any, path string) any {
	if out := n.normalize(t, v, path); out != nil {
		return out
	}
	return zeroJSON(t, v)
}

func (n *normalizer) object(t reflect.Type, in map[string]any, path string) any {
	out := map[string]any{}
	known := map[string]bool{}
	n.fields(t, in, out, known, path)
	for k := range in {
		if !known[k] {
			n.unknown = append(n.unknown, strings.TrimPrefix(path+"."+k, "."))
		}
	}
	return unlessEmpty(out)
}

func (n *normalizer) fields(t reflect.Type, in, out map[string]any, known map[string]bool, path string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			n.fields(f.Type, in, out, known, path)
			continue
		}
		known[name] = true
		if in[name] == nil {
			continue
		}
		if v := n.normalize(f.Type, in[name], strings.TrimPrefix(path+"."+name, ".")); v != nil {
			out[name] = v
		}
	}
}

func zeroJSON(t reflect.Type, v any) any {
	switch t.Kind() {
	case reflect.Struct:
		return map[string]any{}
	case reflect.Float64:
		return toFloat(v)
	}
	return v
}

func toFloat(v any) any {
	if i, ok := v.(int64); ok {
		return float64(i)
	}
	return v
}

func unlessEmpty(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			return nil
		}
	case []any:
		if len(v) == 0 {
			return nil
		}
	case string, bool, int64, float64:
		if reflect.ValueOf(v).IsZero() {
			return nil
		}
	}
	return v
}

// generic decodes JSON to maps, lists, int64, float64 and so on. Numbers that are
// neither stay as they are written.
func generic(t testing.TB, data []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return numbers(v)
}

func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	}
	return v
}

// meaning returns the normalized JSON of a document of type T, and the paths of
// fields that T does not have.
func meaning[T any](t testing.TB, data []byte) (any, []string) {
	t.Helper()
	var n normalizer
	out := n.normalize(reflect.TypeFor[T](), generic(t, data), "")
	return out, n.unknown
}

// differences lists the paths at which two generic values differ.
func differences(a, b any, path string) []string {
	if reflect.DeepEqual(a, b) {
		return nil
	}
	ma, okA := a.(map[string]any)
	mb, okB := b.(map[string]any)
	if okA && okB {
		var out []string
		for k := range ma {
			out = append(out, differences(ma[k], mb[k], path+"."+k)...)
		}
		for k := range mb {
			if _, ok := ma[k]; !ok {
				out = append(out, differences(nil, mb[k], path+"."+k)...)
			}
		}
		return out
	}
	la, okA := a.([]any)
	lb, okB := b.([]any)
	if okA && okB && len(la) == len(lb) {
		var out []string
		for i := range la {
			out = append(out, differences(la[i], lb[i], fmt.Sprintf("%s[%d]", path, i))...)
		}
		return out
	}
	return []string{fmt.Sprintf("%s: %v is not %v", path, a, b)}
}
