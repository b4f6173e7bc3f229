package generate

import (
	"encoding/json"
	"testing"

	"espalier.dev/analysis/explain/sample"
	"espalier.dev/schema"
)

// TestUnknownFields adds a field that no schema names to every object in the objects of the corpus
// and in samples of all kinds, and passes what a server keeps of them through the generated Go types,
// as a client does that reads and writes an object: nothing is lost, with both semantics.
func TestUnknownFields(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	all := projects(t)
	var objects []passed
	for _, o := range append(stored(t, all), samples(t, all)...) {
		for _, semantics := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
			program, err := schema.Compile(o.version.Structural(), schema.WithSemantics(semantics), schema.WithoutRules())
			if err != nil {
				t.Fatal(err)
			}
			kept, _, err := program.Decode(withUnknown(t, o), schema.DecodeOptions{})
			if err != nil {
				t.Fatalf("%s %s: %v", o.Project, o.Kind, err)
			}
			if o.Object, err = json.Marshal(kept); err != nil {
				t.Fatal(err)
			}
			objects = append(objects, o)
		}
	}
	pass(t, all, objects)
}

// samples returns an object of each kind and version of projects that has all fields.
func samples(t *testing.T, all []*project) (objects []passed) {
	t.Helper()
	for _, p := range all {
		for _, pkg := range p.packages {
			for _, k := range pkg.Kinds {
				s, err := sample.New(t.Context(), k.Version, sample.Full)
				if err != nil || s.Problem != nil {
					t.Fatal(p.name, k.Name, err, s.Problem)
				}
				if len(s.Violations) > 0 {
					continue
				}
				text, err := json.Marshal(s.Object)
				if err != nil {
					t.Fatal(err)
				}
				objects = append(objects, passed{p.name, pkg.Group + "/" + pkg.Version, k.Name, text, k.Version})
			}
		}
	}
	return objects
}

// withUnknown returns an object with an unknown field in every object that is not a map.
func withUnknown(t *testing.T, o passed) []byte {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal(o.Object, &object); err != nil {
		t.Fatal(err)
	}
	addUnknown(object, o.version.Structural())
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func addUnknown(value any, s *schema.Structural) {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			if s != nil {
				addUnknown(item, s.Items)
			}
		}
	case map[string]any:
		isMap := s != nil && s.AdditionalProperties != nil
		for name, field := range v {
			switch {
			case isMap:
				addUnknown(field, s.AdditionalProperties.Structural)
			case s != nil && s.Properties[name] != nil:
				addUnknown(field, s.Properties[name])
			}
		}
		if !isMap {
			v["no-schema-names-this"] = map[string]any{"deep": []any{true}}
		}
	}
}
