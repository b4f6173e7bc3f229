package schema

import (
	"reflect"
	"testing"
)

func TestDeepCopy(t *testing.T) {
	if (*Structural)(nil).DeepCopy() != nil {
		t.Error("nil has a copy")
	}
	s, same := &Structural{}, &Structural{}
	fillAll(reflect.ValueOf(s).Elem(), 3)
	fillAll(reflect.ValueOf(same).Elem(), 3)
	c := s.DeepCopy()
	if !reflect.DeepEqual(c, s) {
		t.Fatal("the copy differs")
	}
	scribble(reflect.ValueOf(c))
	if reflect.DeepEqual(c, s) {
		t.Fatal("the scribbling changed nothing")
	}
	if !reflect.DeepEqual(s, same) {
		t.Error("a change of the copy reaches the original")
	}
	empty := &Structural{Properties: map[string]*Structural{}, ValueValidation: &ValueValidation{Required: []string{}}}
	if c := empty.DeepCopy(); !reflect.DeepEqual(c, empty) {
		t.Errorf("%#v became %#v", empty, c)
	}
}

// fillAll sets everything that v holds, schemas within schemas to the depth.
func fillAll(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.Type().Elem() == reflect.TypeFor[Structural]() || v.Type().Elem() == reflect.TypeFor[NestedValueValidation]() {
			if depth == 0 {
				return
			}
			depth--
		}
		v.Set(reflect.New(v.Type().Elem()))
		fillAll(v.Elem(), depth)
	case reflect.Struct:
		for i := range v.NumField() {
			fillAll(v.Field(i), depth)
		}
	case reflect.Slice:
		if v.Type().Elem() == reflect.TypeFor[NestedValueValidation]() {
			if depth == 0 {
				return
			}
			depth--
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fillAll(v.Index(i), depth)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		e := reflect.New(v.Type().Elem()).Elem()
		fillAll(e, depth)
		v.SetMapIndex(reflect.ValueOf("key"), e)
	case reflect.Interface:
		v.Set(reflect.ValueOf(map[string]any{"list": []any{map[string]any{"a": int64(1)}, "b"}}))
	case reflect.String:
		v.SetString("filled")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(7.5)
	default:
		panic("nothing to fill a " + v.Kind().String() + " with")
	}
}

// scribble changes everything that can be reached from v.
func scribble(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			scribble(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			scribble(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			scribble(v.Index(i))
			if e := v.Index(i); e.Kind() == reflect.Interface {
				e.SetZero()
			}
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			scribble(v.MapIndex(k))
			v.SetMapIndex(k, reflect.Value{})
		}
	case reflect.String:
		if v.CanSet() {
			v.SetString("scribbled")
		}
	case reflect.Bool:
		if v.CanSet() {
			v.SetBool(!v.Bool())
		}
	case reflect.Int64:
		if v.CanSet() {
			v.SetInt(v.Int() + 1)
		}
	case reflect.Float64:
		if v.CanSet() {
			v.SetFloat(v.Float() + 1)
		}
	case reflect.Uint8:
		if v.CanSet() {
			v.SetUint(v.Uint() + 1)
		}
	}
}
