package schema

import (
	"reflect"
	"testing"

	"sigs.k8s.io/randfill"
)

func TestDeepCopy(t *testing.T) {
	if (*Structural)(nil).DeepCopy() != nil {
		t.Error("nil has a copy")
	}
	fill := func() *Structural {
		s := &Structural{}
		randfill.NewWithSeed(1).NilChance(0).NumElements(2, 2).MaxDepth(11).Funcs(func(v *any, _ randfill.Continue) {
			*v = map[string]any{"list": []any{map[string]any{"a": int64(1)}, "b"}}
		}).Fill(s)
		return s
	}
	s, same := fill(), fill()
	if v := s.ValueValidation; v == nil || v.Not == nil || len(v.AllOf) == 0 || v.AllOf[0].Not == nil || len(s.XUnions) == 0 {
		t.Fatalf("the schema lacks fields: %+v", s)
	}
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
