package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Internal returns a value for an error that is displayed as kube-apiserver does: it validates
// internal types, which have no JSON names, so that errors show the names of their Go fields,
// including empty ones. Values other than structs, slices, maps and pointers are returned as
// they are.
func Internal(value any) any {
	switch reflect.ValueOf(value).Kind() {
	case reflect.Struct, reflect.Slice, reflect.Map, reflect.Pointer:
		return internal{value}
	default:
		return value
	}
}

type internal struct{ value any }

// MarshalJSON implements json.Marshaler.
func (i internal) MarshalJSON() ([]byte, error) {
	var buf bytes.Buffer
	if err := untagged(&buf, reflect.ValueOf(i.value)); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// untagged writes v as JSON. Fields of the structs of k8s.io/api have the names of the Go
// fields; types of other modules are the same in kube-apiserver.
func untagged(buf *bytes.Buffer, v reflect.Value) error {
	if !v.IsValid() {
		buf.WriteString("null")
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return untagged(buf, v.Elem())
	case reflect.Struct:
		if strings.HasPrefix(v.Type().PkgPath(), "k8s.io/api/") || v.Type() == reflect.TypeFor[podSecurity]() {
			buf.WriteByte('{')
			first := true
			err := untaggedFields(buf, v, &first)
			buf.WriteByte('}')
			return err
		}
	case reflect.Slice:
		if !v.IsNil() && v.Type().Elem().Kind() != reflect.Uint8 {
			buf.WriteByte('[')
			for i := range v.Len() {
				if i > 0 {
					buf.WriteByte(',')
				}
				if err := untagged(buf, v.Index(i)); err != nil {
					return err
				}
			}
			buf.WriteByte(']')
			return nil
		}
	case reflect.Map:
		if !v.IsNil() {
			return untaggedMap(buf, v)
		}
	}
	data, err := json.Marshal(v.Interface())
	buf.Write(data)
	return err
}

func untaggedFields(buf *bytes.Buffer, v reflect.Value, first *bool) error {
	for _, f := range internalFields(v) {
		if f.value.Kind() == reflect.Struct && f.embedded {
			if strings.HasPrefix(f.value.Type().PkgPath(), "k8s.io/api/") {
				if err := untaggedFields(buf, f.value, first); err != nil {
					return err
				}
				continue
			}
			// Metadata has the same names in internal types.
			data, err := json.Marshal(f.value.Interface())
			if err != nil {
				return err
			}
			if fields := data[1 : len(data)-1]; len(fields) > 0 {
				separate(buf, first)
				buf.Write(fields)
			}
			continue
		}
		separate(buf, first)
		fmt.Fprintf(buf, "%q:", f.name)
		if err := untagged(buf, f.value); err != nil {
			return err
		}
	}
	return nil
}

func separate(buf *bytes.Buffer, first *bool) {
	if !*first {
		buf.WriteByte(',')
	}
	*first = false
}

func untaggedMap(buf *bytes.Buffer, v reflect.Value) error {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	buf.WriteByte('{')
	for i, key := range keys {
		if i > 0 {
			buf.WriteByte(',')
		}
		name, err := json.Marshal(fmt.Sprint(key))
		if err != nil {
			return err
		}
		buf.Write(name)
		buf.WriteByte(':')
		if err := untagged(buf, v.MapIndex(key)); err != nil {
			return err
		}
	}
	buf.WriteByte('}')
	return nil
}
