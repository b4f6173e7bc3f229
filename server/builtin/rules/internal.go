package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
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
		if strings.HasPrefix(v.Type().PkgPath(), "k8s.io/api/") {
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
	for _, f := range internalFields(v.Type()) {
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			if err := untaggedFields(buf, v.FieldByIndex(f.Index), first); err != nil {
				return err
			}
			continue
		}
		if !f.IsExported() {
			continue
		}
		if !*first {
			buf.WriteByte(',')
		}
		*first = false
		fmt.Fprintf(buf, "%q:", f.Name)
		if err := untagged(buf, v.FieldByIndex(f.Index)); err != nil {
			return err
		}
	}
	return nil
}

// internalFields returns the fields of a struct in the order of the internal type.
func internalFields(t reflect.Type) (fields []reflect.StructField) {
	if t == reflect.TypeFor[corev1.PersistentVolumeSource]() {
		for _, name := range []string{
			"GCEPersistentDisk", "AWSElasticBlockStore", "HostPath", "Glusterfs", "NFS", "RBD", "Quobyte", "ISCSI", "FlexVolume", "Cinder", "CephFS", "FC",
			"Flocker", "AzureFile", "VsphereVolume", "AzureDisk", "PhotonPersistentDisk", "PortworxVolume", "ScaleIO", "Local", "StorageOS", "CSI",
		} {
			f, _ := t.FieldByName(name)
			fields = append(fields, f)
		}
		return fields
	}
	for i := range t.NumField() {
		fields = append(fields, t.Field(i))
	}
	return fields
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
