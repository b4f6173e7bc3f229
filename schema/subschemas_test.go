package schema

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"espalier.dev/api"
)

// everyKeyword has a schema, called by its path, in every keyword that holds schemas.
const everyKeyword = `{
	"items": {"title": ".items", "items": [{"title": ".items.items[0]"}, {"title": ".items.items[1]"}]},
	"allOf": [{"title": ".allOf[0]"}], "anyOf": [{"title": ".anyOf[0]"}, {"title": ".anyOf[1]"}], "oneOf": [{"title": ".oneOf[0]"}],
	"not": {"title": ".not", "properties": {"x": {"title": ".not.properties[x]"}}},
	"properties": {"b": {"title": ".properties[b]"}, "a": {"title": ".properties[a]"}},
	"patternProperties": {"^a": {"title": ".patternProperties[^a]"}},
	"definitions": {"d": {"title": ".definitions[d]"}},
	"additionalProperties": {"title": ".additionalProperties"},
	"additionalItems": {"title": ".additionalItems"},
	"dependencies": {"names": ["a"], "schema": {"title": ".dependencies[schema]"}}
}`

func TestWalkSubschemas(t *testing.T) {
	s := readSchema(t, everyKeyword)
	var titles, paths []string
	WalkSubschemas(s, func(path SchemaPath, s *api.JSONSchemaProps) bool {
		paths = append(paths, path.String())
		titles = append(titles, s.Title)
		return path.String() != ".not"
	})
	if !slices.Equal(paths, titles) {
		t.Errorf("the paths\n%q\nlead to\n%q", paths, titles)
	}
	want := strings.Fields(` .items .items.items[0] .items.items[1] .allOf[0] .anyOf[0] .anyOf[1] .oneOf[0] .not .properties[a] .properties[b]
		.patternProperties[^a] .definitions[d] .additionalProperties .additionalItems .dependencies[schema]`)
	if got := titles[1:]; titles[0] != "" || !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	WalkSubschemas(nil, func(SchemaPath, *api.JSONSchemaProps) bool { t.Error("there is no schema to visit"); return true })
}

// TestSubschemasComplete shows that no keyword that holds schemas is left out.
func TestSubschemasComplete(t *testing.T) {
	visited := map[string]bool{}
	for step := range Subschemas(readSchema(t, everyKeyword)) {
		visited[step.Keyword] = true
	}
	fields := reflect.TypeFor[api.JSONSchemaProps]()
	for i := range fields.NumField() {
		f := fields.Field(i)
		keyword, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if holdsSchemas(f.Type) != visited[keyword] {
			t.Errorf("%s: visited is %v", keyword, visited[keyword])
		}
	}
}

func holdsSchemas(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return holdsSchemas(t.Elem())
	case reflect.Struct:
		if t == reflect.TypeFor[api.JSONSchemaProps]() {
			return true
		}
		for i := range t.NumField() {
			if holdsSchemas(t.Field(i).Type) {
				return true
			}
		}
	}
	return false
}

func TestAnySubschema(t *testing.T) {
	s := readSchema(t, everyKeyword)
	for _, title := range []string{"", ".items.items[1]", ".not.properties[x]", ".dependencies[schema]"} {
		seen := 0
		if !AnySubschema(s, func(s *api.JSONSchemaProps) bool { seen++; return s.Title == title }) {
			t.Errorf("%q was not found", title)
		}
		if title == "" && seen != 1 {
			t.Errorf("the search went on for %d schemas", seen)
		}
	}
	if AnySubschema(s, func(s *api.JSONSchemaProps) bool { return s.Title == "none" }) || AnySubschema(nil, func(*api.JSONSchemaProps) bool { return true }) {
		t.Error("found something that is not there")
	}
	// A loop over the subschemas can end anywhere.
	total := 0
	for range Subschemas(s) {
		total++
	}
	for n := 1; n <= total; n++ {
		seen := 0
		for range Subschemas(s) {
			if seen++; seen == n {
				break
			}
		}
		if seen != n {
			t.Errorf("a loop saw %d schemas, want %d", seen, n)
		}
	}
	deep := &api.JSONSchemaProps{Title: "deepest"}
	for range 10_000 {
		deep = &api.JSONSchemaProps{Not: deep}
	}
	if !AnySubschema(deep, func(s *api.JSONSchemaProps) bool { return s.Title != "" }) {
		t.Error("a deep schema was not found")
	}
}

func ExampleSubschemas() {
	s := &api.JSONSchemaProps{
		Items: &api.JSONSchemaPropsOrArray{Schema: &api.JSONSchemaProps{Title: "an item"}},
		AnyOf: []api.JSONSchemaProps{{Title: "one way"}, {Title: "another way"}},
	}
	for step, sub := range Subschemas(s) {
		fmt.Println(SchemaPath{step}, sub.Title)
	}
	// Output:
	// .items an item
	// .anyOf[0] one way
	// .anyOf[1] another way
}
