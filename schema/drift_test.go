package schema_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// engineFields says where the engine keeps each field of api.JSONSchemaProps. Fields
// that stand in both under one name are not spelled out.
var engineFields = map[reflect.Type][]string{
	reflect.TypeFor[schema.Structural](): {"Items", "Properties", "AdditionalProperties"},
	reflect.TypeFor[schema.Generic](): {
		"Description", "Type", "Title", "Default", "Nullable", "ReadOnly", "ExternalDocs", "Example",
	},
	reflect.TypeFor[schema.Extensions](): {
		"XPreserveUnknownFields", "XEmbeddedResource", "XIntOrString", "XListMapKeys", "XListType", "XMapType", "XUnions",
	},
	reflect.TypeFor[schema.ValidationExtensions](): {"XValidations"},
	reflect.TypeFor[schema.ValueValidation](): {
		"Format", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum", "MaxLength", "MinLength", "Pattern",
		"MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Enum", "MaxProperties", "MinProperties", "Required",
		"AllOf", "OneOf", "AnyOf", "Not",
	},
}

// notStructural are the fields that a structural schema cannot have at all.
var notStructural = []string{"ID", "Schema", "Ref", "PatternProperties", "Dependencies", "AdditionalItems", "Definitions"}

// parts are the fields of the engine's types that hold other such types.
var parts = map[reflect.Type][]string{
	reflect.TypeFor[schema.Structural](): {"Generic", "Extensions", "ValidationExtensions", "ValueValidation"},
	reflect.TypeFor[schema.NestedValueValidation](): {
		"ValueValidation", "ValidationExtensions", "Items", "Properties", "AdditionalProperties", "ForbiddenGenerics", "ForbiddenExtensions",
	},
}

func TestDrift(t *testing.T) {
	t.Run("V-03", func(t *testing.T) {
		where := map[string]string{}
		for typ, names := range engineFields {
			for _, name := range names {
				if where[name] != "" {
					t.Errorf("%s has two places: %s and %s", name, where[name], typ.Name())
				}
				where[name] = typ.Name()
			}
			equalFields(t, typ, append(names, parts[typ]...))
		}
		nested := reflect.TypeFor[schema.NestedValueValidation]()
		equalFields(t, nested, parts[nested])
		for _, name := range notStructural {
			where[name] = "nowhere"
		}

		props := reflect.TypeFor[api.JSONSchemaProps]()
		for i := range props.NumField() {
			f := props.Field(i)
			place := where[f.Name]
			if place == "" {
				t.Errorf("JSONSchemaProps.%s has no place in the engine: it is in none of its types, nor in the list of those that are not structural", f.Name)
				continue
			}
			delete(where, f.Name)
			keyword, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			keeps(t, f.Name, place, fmt.Sprintf(`{%q:%s}`, keyword, keywords[keyword]))
		}
		for name, place := range where {
			t.Errorf("%s, in %s, is no field of JSONSchemaProps", name, place)
		}
	})
}

// equalFields fails if a type has other fields than those named.
func equalFields(t *testing.T, typ reflect.Type, names []string) {
	t.Helper()
	want := map[string]bool{}
	for _, name := range names {
		want[name] = true
	}
	for i := range typ.NumField() {
		name := typ.Field(i).Name
		if !want[name] {
			t.Errorf("%s.%s is in no table: which field of JSONSchemaProps is it?", typ.Name(), name)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("%s has no field %s", typ.Name(), name)
	}
}

// keeps checks that the engine puts a schema with one keyword where the tables say,
// at the root and in a logical operator, and gives it back.
func keeps(t *testing.T, name, place, text string) {
	t.Helper()
	for _, text := range []string{text, `{"not":` + text + `}`} {
		s := parseJSONSchema(t, text)
		if place == "nowhere" {
			if _, err := schema.NewStructural(s); err == nil {
				t.Errorf("%s is taken for structural", text)
			}
			continue
		}
		st := roundTrip(t, s)
		if strings.HasPrefix(text, `{"not":`) && name != "Not" {
			continue
		}
		holder := reflect.ValueOf(st).Elem()
		if place != "Structural" {
			holder = reflect.Indirect(holder.FieldByName(place))
		}
		if !holder.IsValid() || holder.FieldByName(name).IsZero() {
			t.Errorf("%s: %s.%s is not set", text, place, name)
		}
	}
}
