package rules

import (
	"reflect"
	"slices"
	"testing"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// TestView checks that Kubernetes' CEL packages see the keywords of a schema.
func TestView(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	n := func(v int64) *int64 { return &v }
	text := func(v string) *string { return &v }
	s := &schema.Structural{
		Generic: schema.Generic{Type: "object", Nullable: true, Default: &schema.JSON{Value: "d"}},
		Extensions: schema.Extensions{XPreserveUnknownFields: true, XEmbeddedResource: true, XIntOrString: true, XListMapKeys: []string{"k"},
			XListType: text("map"), XMapType: text("atomic")},
		ValidationExtensions: schema.ValidationExtensions{XValidations: []api.ValidationRule{{Rule: "r", Message: "m", MessageExpression: "e", FieldPath: "p"}}},
		Items:                &schema.Structural{Generic: schema.Generic{Type: "string"}},
		Properties:           map[string]*schema.Structural{"a": {Generic: schema.Generic{Type: "integer"}}},
		AdditionalProperties: &schema.StructuralOrBool{Bool: true, Structural: &schema.Structural{Generic: schema.Generic{Type: "number"}}},
		ValueValidation: &schema.ValueValidation{Format: "f", Pattern: "p", Minimum: f(1), ExclusiveMinimum: true, Maximum: f(2), ExclusiveMaximum: true, MultipleOf: f(3),
			MinItems: n(4), MaxItems: n(5), MinLength: n(6), MaxLength: n(7), MinProperties: n(8), MaxProperties: n(9), Required: []string{"a"}, UniqueItems: true,
			Enum: []schema.JSON{{Value: "x"}, {Value: int64(1)}}},
	}
	v, none := newView(s, false), newView(&schema.Structural{}, false)
	if got := []any{v.Type(), v.Format(), v.Pattern(), v.XListType(), v.XMapType(), v.Default()}; !slices.Equal(got, []any{"object", "f", "p", "map", "atomic", "d"}) {
		t.Errorf("got %v", got)
	}
	if got := []any{none.Type(), none.Format(), none.Pattern(), none.XListType(), none.XMapType(), none.Default()}; !slices.Equal(got, []any{"", "", "", "", "", nil}) {
		t.Errorf("of nothing: got %v", got)
	}
	bools := func(v *view) []bool {
		return []bool{v.Nullable(), v.IsExclusiveMinimum(), v.IsExclusiveMaximum(), v.UniqueItems(), v.IsXIntOrString(), v.IsXEmbeddedResource(), v.IsXPreserveUnknownFields()}
	}
	if slices.Contains(bools(v), false) || slices.Contains(bools(none), true) {
		t.Errorf("got %v, and %v of nothing", bools(v), bools(none))
	}
	if got := []float64{*v.Minimum(), *v.Maximum(), *v.MultipleOf()}; !slices.Equal(got, []float64{1, 2, 3}) {
		t.Errorf("got %v", got)
	}
	if got := []int64{*v.MinItems(), *v.MaxItems(), *v.MinLength(), *v.MaxLength(), *v.MinProperties(), *v.MaxProperties()}; !slices.Equal(got, []int64{4, 5, 6, 7, 8, 9}) {
		t.Errorf("got %v", got)
	}
	if none.Minimum() != nil || none.MaxItems() != nil || none.Items() != nil || none.AdditionalProperties() != nil || none.Enum() != nil {
		t.Error("nothing has keywords")
	}
	if !slices.Equal(v.Enum(), []any{"x", int64(1)}) || !slices.Equal(v.Required(), []string{"a"}) || !slices.Equal(v.XListMapKeys(), []string{"k"}) {
		t.Errorf("got %v, %v, %v", v.Enum(), v.Required(), v.XListMapKeys())
	}
	if v.Items().Type() != "string" || v.Properties()["a"].Type() != "integer" || v.AdditionalProperties().Schema().Type() != "number" || !v.AdditionalProperties().Allows() {
		t.Error("other schemas below")
	}
	closed := newView(&schema.Structural{AdditionalProperties: &schema.StructuralOrBool{}}, false).AdditionalProperties()
	if closed.Schema() != nil || closed.Allows() {
		t.Error("additionalProperties: false allows something")
	}
	// Logical operators do not affect types.
	if v.AllOf() != nil || v.AnyOf() != nil || v.OneOf() != nil || v.Not() != nil {
		t.Error("logical operators are seen")
	}
	r := v.XValidations()
	if len(r) != 1 || len(none.XValidations()) != 0 || !reflect.DeepEqual([]string{r[0].Rule(), r[0].Message(), r[0].MessageExpression(), r[0].FieldPath()}, []string{"r", "m", "e", "p"}) {
		t.Errorf("got %v", r)
	}
}

// TestResourceView checks the fields that rules see in each resource, and the lengths of its names.
func TestResourceView(t *testing.T) {
	str := func(max int64) *schema.Structural {
		return &schema.Structural{Generic: schema.Generic{Type: "string"}, ValueValidation: &schema.ValueValidation{MaxLength: &max}}
	}
	object := func(props map[string]*schema.Structural) *schema.Structural {
		return &schema.Structural{Generic: schema.Generic{Type: "object"}, Properties: props}
	}
	for name, tt := range map[string]struct {
		meta               *schema.Structural
		name, generateName int64
		kept               bool
	}{
		"no metadata": {nil, 253, 252, false},
		"no names":    {object(nil), 253, 252, false},
		"shorter":     {object(map[string]*schema.Structural{"name": str(5), "generateName": str(4)}), 5, 4, true},
		"longer":      {object(map[string]*schema.Structural{"name": str(300)}), 253, 252, false},
		"one":         {object(map[string]*schema.Structural{"generateName": str(7)}), 253, 7, false},
		"the limits":  {object(map[string]*schema.Structural{"name": str(253), "generateName": str(253)}), 253, 253, true},
	} {
		s := object(map[string]*schema.Structural{"kind": str(9), "apiVersion": str(9), "a": str(1)})
		if tt.meta != nil {
			s.Properties["metadata"] = tt.meta
		}
		v := newView(s, true)
		r, _ := v.WithTypeAndObjectMeta().(*view)
		if (r == v) != tt.kept {
			t.Errorf("%s: the schema of the author is used: %t", name, r == v)
		}
		meta := r.prop("metadata")
		if got, generate := *meta.prop("name").MaxLength(), *meta.prop("generateName").MaxLength(); got != tt.name || generate != tt.generateName {
			t.Errorf("%s: got %d and %d", name, got, generate)
		}
		if r.prop("kind").Type() != "string" || r.prop("apiVersion").Type() != "string" || r.prop("a") != v.prop("a") {
			t.Errorf("%s: got other fields", name)
		}
		// A schema that is no resource has them if it is asked for.
		if again, _ := newView(s, false).WithTypeAndObjectMeta().(*view); again.prop("metadata").prop("name") == nil {
			t.Errorf("%s: no name", name)
		}
	}
	for _, wrong := range []string{"kind", "apiVersion"} {
		s := object(map[string]*schema.Structural{"kind": str(9), "apiVersion": str(9), "metadata": object(map[string]*schema.Structural{"name": str(5), "generateName": str(4)})})
		s.Properties[wrong] = &schema.Structural{Generic: schema.Generic{Type: "integer"}}
		if r := newView(s, true).resource; r.prop(wrong).Type() != "string" {
			t.Errorf("%s is of type %s", wrong, r.prop(wrong).Type())
		}
	}
}
