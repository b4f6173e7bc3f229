package schema

import (
	"slices"
	"testing"
)

// TestImpliedShape checks what the fields of an embedded resource get from metav1.ObjectMeta: fields,
// items and values where they have none, and nothing where they contradict it.
func TestImpliedShape(t *testing.T) {
	for metadata, want := range map[string]struct {
		finalizers, labels string // the types of the items and values
		typ                string
	}{
		`{}`:                 {"string", "string", "object"},
		`{"type": "object"}`: {"string", "string", "object"},
		`{"type": "object", "properties": {"finalizers": {"type": "array"}, "labels": {"type": "object"}}}`:                                                          {"string", "string", "object"},
		`{"type": "object", "properties": {"finalizers": {"type": "array", "items": {"type": "integer"}}, "labels": {"additionalProperties": {"type": "integer"}}}}`: {"integer", "integer", "object"},
		`{"type": "object", "properties": {"finalizers": {"type": "object"}, "labels": {"type": "object", "properties": {"a": {"type": "string"}}}}}`:                {"", "", "object"},
		`{"type": "object", "properties": {"finalizers": {"x-kubernetes-int-or-string": true}, "labels": {"type": "array"}}}`:                                        {"", "", "object"},
		`{"type": "string"}`:                                             {"", "", "string"},
		`{"x-kubernetes-int-or-string": true}`:                           {"", "", ""},
		`{"type": "object", "additionalProperties": {"type": "string"}}`: {"", "", "object"},
	} {
		s := mustStructural(t, `{"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"metadata": `+metadata+`}}`)
		for name, got := range map[string]*Structural{"published": s.Unfold(KEP), "without value validations": s.WithoutValueValidations()} {
			m := got.Properties["metadata"]
			var finalizers, labels string
			if f := m.Properties["finalizers"]; f != nil && f.Items != nil {
				finalizers = f.Items.Type
			}
			if l := m.Properties["labels"]; l != nil && l.AdditionalProperties != nil {
				labels = l.AdditionalProperties.Structural.Type
			}
			if m.Type != want.typ || finalizers != want.finalizers || labels != want.labels {
				t.Errorf("%s: %s: got type %q, finalizers of %q and labels of %q, want %+v", name, metadata, m.Type, finalizers, labels, want)
			}
		}
		if !slices.Equal(s.Unfold(KEP).ValueValidation.Required, []string{"kind", "apiVersion"}) {
			t.Errorf("%s: apiVersion and kind are not required", metadata)
		}
	}
	// What is published about items and values without a type says which type they have.
	open := mustStructural(t, `{"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"metadata": {"properties": {
		"finalizers": {"items": {}}, "labels": {"additionalProperties": {}}}}}}`).Unfold(KEP).Properties["metadata"].Properties
	if f, l := open["finalizers"].Items.Type, open["labels"].AdditionalProperties.Structural.Type; f != "string" || l != "string" {
		t.Errorf("got finalizers of %q and labels of %q", f, l)
	}
	// A resource without fields gets all of them.
	bare := mustStructural(t, `{"type": "object", "x-kubernetes-embedded-resource": true, "required": ["kind"]}`)
	for _, got := range []*Structural{bare.Unfold(KEP), bare.WithoutValueValidations()} {
		if len(got.Properties) != 3 || got.Properties["kind"].Type != "string" || got.Properties["metadata"].Properties["labels"] == nil {
			t.Errorf("got %s", show(got))
		}
	}
	if got := bare.Unfold(KEP).ValueValidation.Required; !slices.Equal(got, []string{"kind", "apiVersion"}) {
		t.Errorf("got %q as required", got)
	}
	if got := bare.Unfold(Kubernetes); len(got.Properties) > 0 {
		t.Errorf("kube-apiserver publishes the fields: %s", show(got))
	}
}

// TestUnionParts checks unions without a discriminator, whose discriminator has no schema, and
// without members.
func TestUnionParts(t *testing.T) {
	for unions, tt := range map[string]struct{ valid, invalid []string }{
		`[{"fields": {"a": "A", "b": "B"}}]`:                       {[]string{`{"a":{}}`, `{"b":{},"u":"A"}`, `{"b":{},"":"A"}`}, []string{`{}`, `{"a":{},"b":{}}`}},
		`[{"discriminator": "u", "fields": {"a": "A", "b": "B"}}]`: {[]string{`{"a":{}}`, `{"a":{},"u":"A"}`}, []string{`{}`, `{"a":{},"u":"B"}`, `{"a":{},"u":"C"}`}},
		`[{"discriminator": "u", "fields": {}}]`:                   {[]string{`{}`, `{"a":{},"b":{}}`}, nil},
		`[{"discriminator": "u"}, {"fields": {"a": "A"}}]`:         {[]string{`{"a":{}}`}, []string{`{}`}},
	} {
		s := mustStructural(t, `{"type": "object", "properties": {"a": {"type": "object"}, "b": {"type": "object"}}, "x-kubernetes-unions": `+unions+`}`)
		published := s.Unfold(KEP)
		published.XUnions = nil
		for name, p := range map[string]*Program{"server": mustCompile(t, s), "published": mustCompile(t, published)} {
			for _, text := range tt.valid {
				if vs := p.Validate(t.Context(), parsed(t, text).(map[string]any), nil); len(vs) > 0 {
					t.Errorf("%s: %s: %s: got %q", name, unions, text, vs.Messages())
				}
			}
			for _, text := range tt.invalid {
				if vs := p.Validate(t.Context(), parsed(t, text).(map[string]any), nil); len(vs) != 1 && name == "server" || len(vs) == 0 {
					t.Errorf("%s: %s: %s: got %q", name, unions, text, vs.Messages())
				}
			}
		}
	}
}

// TestExtensionPaths checks the paths of violations of list types and unions, and that their number
// is bounded.
func TestExtensionPaths(t *testing.T) {
	p := compiled(t, `{"type": "object", "properties": {
		"m": {"type": "object", "additionalProperties": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}}},
		"l": {"type": "array", "items": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}}},
		"u": {"type": "object", "x-kubernetes-unions": [{"discriminator": "t", "fields": {"a": "A"}}, {"discriminator": "v", "fields": {"b": "B"}}],
			"properties": {"t": {"type": "string"}, "v": {"type": "string"}, "a": {"type": "object"}, "b": {"type": "object"}}}}}`)
	var got []string
	for _, err := range p.Validate(t.Context(), parsed(t, `{"m":{"k":[1,1]},"u":{"a":{},"t":"X","b":{},"v":"Y"}}`).(map[string]any), nil).FieldErrors() {
		got = append(got, err.Field)
	}
	if want := []string{"m[k][1]", "u.t", "u.v"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	list := make([]any, MaxViolations+10)
	for i := range list {
		list[i] = []any{int64(1), int64(1)}
	}
	if got := len(p.Validate(t.Context(), Object{"l": list}, nil)); got != MaxViolations {
		t.Errorf("got %d violations, want %d", got, MaxViolations)
	}
}
