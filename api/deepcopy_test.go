package api_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
)

// Every field is filled, so a field that a copy forgets or shares shows up.
func TestDeepCopy(t *testing.T) {
	for _, obj := range []runtime.Object{
		&api.CustomResourceDefinition{}, &api.CustomResourceDefinitionList{}, &api.ConversionReview{},
		&v1beta1.CustomResourceDefinition{}, &v1beta1.CustomResourceDefinitionList{},
	} {
		name := strings.TrimPrefix(fmt.Sprintf("%T", obj), "*")
		t.Run(name, func(t *testing.T) {
			fill(reflect.ValueOf(obj).Elem(), 0)
			c := obj.DeepCopyObject()
			if !reflect.DeepEqual(obj, c) {
				t.Error("the copy is not equal")
			}
			unshared(t, reflect.ValueOf(obj), reflect.ValueOf(c), "")
			none := reflect.Zero(reflect.TypeOf(obj)).Interface().(runtime.Object)
			if got := none.DeepCopyObject(); got != nil {
				t.Errorf("the copy of nothing is %v", got)
			}
		})
	}
	t.Run("metav1.Object", func(t *testing.T) {
		var o metav1.Object = &api.CustomResourceDefinition{}
		o.SetName("a")
		if o.GetName() != "a" {
			t.Error("no name")
		}
	})
}

// fill sets every field, with one item in each list and map.
func fill(v reflect.Value, depth int) {
	switch v.Interface().(type) {
	case metav1.Time:
		v.Set(reflect.ValueOf(metav1.NewTime(time.Unix(1, 0))))
		return
	case runtime.RawExtension:
		v.Set(reflect.ValueOf(runtime.RawExtension{Raw: []byte("1")}))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if depth < 12 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), depth+1)
		}
	case reflect.Slice:
		if depth < 12 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0), depth+1)
		}
	case reflect.Map:
		if depth < 12 {
			e := reflect.New(v.Type().Elem()).Elem()
			fill(e, depth+1)
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(reflect.ValueOf("k").Convert(v.Type().Key()), e)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			// Each level of a schema has all the others below it, so descend once.
			if isSchema := v.Type() == reflect.TypeFor[api.JSONSchemaProps](); isSchema && depth > 9 && v.Field(i).Kind() != reflect.String {
				continue
			}
			fill(v.Field(i), depth+1)
		}
	case reflect.String:
		v.SetString("s")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1)
	}
}

// unshared fails if a and b share anything that one could change through both.
func unshared(t *testing.T, a, b reflect.Value, path string) {
	switch a.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		// Values of no size all have one address.
		empty := a.Kind() == reflect.Pointer && a.Type().Elem().Size() == 0
		if !a.IsNil() && a.Pointer() == b.Pointer() && !empty && a.Type() != reflect.TypeFor[*time.Location]() {
			t.Errorf("%s is shared", path)
		}
	}
	switch a.Kind() {
	case reflect.Pointer:
		if !a.IsNil() && a.Type() != reflect.TypeFor[*time.Location]() {
			unshared(t, a.Elem(), b.Elem(), path)
		}
	case reflect.Slice:
		for i := range a.Len() {
			unshared(t, a.Index(i), b.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
	case reflect.Map:
		for _, k := range a.MapKeys() {
			unshared(t, a.MapIndex(k), b.MapIndex(k), path+"["+k.String()+"]")
		}
	case reflect.Struct:
		for i := range a.NumField() {
			unshared(t, a.Field(i), b.Field(i), path+"."+a.Type().Field(i).Name)
		}
	}
}
