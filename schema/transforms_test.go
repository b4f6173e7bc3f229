package schema

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"espalier.dev/api"
)

// readSchema reads a schema from JSON.
func readSchema(t testing.TB, src string) *api.JSONSchemaProps {
	t.Helper()
	s := &api.JSONSchemaProps{}
	if err := json.Unmarshal([]byte(src), s); err != nil {
		t.Fatal(err)
	}
	return s
}

func writeSchema(t testing.TB, s *api.JSONSchemaProps) string {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func mustStructural(t testing.TB, src string) *Structural {
	t.Helper()
	s, err := NewStructural(readSchema(t, src))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustCompile(t testing.TB, s *Structural, opts ...Option) *Program {
	t.Helper()
	p, err := Compile(s, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestTransforms checks on generated schemas and objects what each form promises.
func TestTransforms(t *testing.T) {
	schemas := 1200
	if testing.Short() {
		schemas = 300
	}
	weaker := func(derive func(*Structural, Semantics) *Structural) func(*testing.T) {
		return func(t *testing.T) {
			checkForm(t, schemas, func(before, after bool) bool { return !before || after }, derive)
		}
	}
	t.Run("S-08", func(t *testing.T) {
		weaker(func(s *Structural, _ Semantics) *Structural { return s.WithoutValueValidations() })(t)
		r := rand.New(rand.NewPCG(8, 8))
		for range schemas / 2 {
			in := genStructural(r, 3)
			out := in.WithoutValueValidations()
			checkStructure(t, in, out)
			for path, s := range out.All() {
				if s.ValueValidation != nil || len(s.XValidations) > 0 {
					t.Fatalf("%s has value validations left:\n%s", path, show(out))
				}
			}
		}
	})
	t.Run("S-09", func(t *testing.T) {
		t.Run("means the same", func(t *testing.T) {
			checkForm(t, schemas, func(before, after bool) bool { return before == after }, (*Structural).Unfold)
		})
		t.Run("keeps the markers", func(t *testing.T) {
			r := rand.New(rand.NewPCG(11, 11))
			for range schemas / 2 {
				s := genStructural(r, 3)
				for _, sem := range []Semantics{KEP, Kubernetes} {
					checkStructure(t, s, s.Unfold(sem))
				}
			}
		})
		t.Run("once is enough", func(t *testing.T) {
			r := rand.New(rand.NewPCG(12, 12))
			for range schemas / 2 {
				s := genStructural(r, 3)
				for _, sem := range []Semantics{KEP, Kubernetes} {
					once := s.Unfold(sem)
					if twice := once.Unfold(sem); !reflect.DeepEqual(once, twice) {
						t.Fatalf("%s\nbecame\n%s", show(once), show(twice))
					}
				}
			}
		})
	})
	t.Run("OpenAPI v2 is weaker", weaker(func(s *Structural, sem Semantics) *Structural {
		v2 := s.Unfold(sem).WeakenForOpenAPIV2(sem)
		// Its readers do not know the extensions.
		for _, s := range v2.All() {
			s.Extensions = Extensions{}
		}
		return v2
	}))
	t.Run("S-14", func(t *testing.T) {
		publishedUnion(t)
		publishedUnions(t)
	})
	t.Run("leave the schema alone", func(t *testing.T) {
		r := rand.New(rand.NewPCG(13, 13))
		for range schemas / 4 {
			s := genStructural(r, 3)
			before := s.DeepCopy()
			for _, sem := range []Semantics{KEP, Kubernetes} {
				scribble(reflect.ValueOf(s.Unfold(sem)))
				scribble(reflect.ValueOf(s.WeakenForOpenAPIV2(sem)))
			}
			scribble(reflect.ValueOf(s.WithoutValueValidations()))
			if !reflect.DeepEqual(before, s) {
				t.Fatalf("%s\nbecame\n%s", show(before), show(s))
			}
		}
	})
	t.Run("nil", func(t *testing.T) {
		var s *Structural
		if s.Unfold(KEP) != nil || s.WeakenForOpenAPIV2(KEP) != nil || s.WithoutValueValidations() != nil {
			t.Error("something came of nothing")
		}
	})
}

// checkForm derives a form of generated schemas, and compares the verdicts of
// both on objects that were decoded by the schema.
func checkForm(t *testing.T, schemas int, holds func(before, after bool) bool, derive func(*Structural, Semantics) *Structural) {
	r := rand.New(rand.NewPCG(14, 14))
	accepted, refused := 0, 0
	for i := range schemas {
		sem := Semantics(i % 2)
		s := objectSchema(map[string]*Structural{"a": genStructural(r, 3), "b": genStructural(r, 2)})
		form := derive(s, sem)
		p, q := mustCompile(t, s, WithSemantics(sem)), mustCompile(t, form, WithSemantics(sem))
		for range 6 {
			raw, err := json.Marshal(Object{"a": genValue(r, s.Properties["a"]), "b": genValue(r, s.Properties["b"])})
			if err != nil {
				t.Fatal(err)
			}
			obj, _, err := p.Decode(raw, DecodeOptions{FromStorage: true})
			if err != nil {
				t.Fatal(err)
			}
			before := p.Validate(context.Background(), obj, nil)
			after := q.Validate(context.Background(), obj, nil)
			if len(before) == 0 {
				accepted++
			} else {
				refused++
			}
			if !holds(len(before) == 0, len(after) == 0) {
				t.Fatalf("%s, %v\nby %s: %q\nby %s: %q", sem, obj, show(s), before.Messages(), show(form), after.Messages())
			}
		}
	}
	if least := schemas * 5 / 6; accepted < least || refused < least {
		t.Errorf("%d objects accepted, %d rejected: the generator has lost its aim", accepted, refused)
	}
}

// checkStructure checks that the types, fields, items and extensions of s are still in a form
// of it.
func checkStructure(t *testing.T, s, form *Structural) {
	t.Helper()
	if form == nil || !reflect.DeepEqual(s.Extensions, form.Extensions) || s.Nullable != form.Nullable || s.Type != "" && s.Type != form.Type {
		t.Fatalf("%s\nbecame\n%s", show(s), show(form))
	}
	for name, f := range s.Properties {
		checkStructure(t, f, form.Properties[name])
	}
	if s.Items != nil {
		checkStructure(t, s.Items, form.Items)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		checkStructure(t, s.AdditionalProperties.Structural, form.AdditionalProperties.Structural)
	}
}

// publishedUnion checks that a union's published form alone, without the marker,
// accepts what the server accepts.
func publishedUnion(t *testing.T) {
	for _, further := range []string{``, `"oneOf": [{"required": ["x"]}, {"required": ["y"]}],`, `"anyOf": [{"required": ["x"]}, {"required": ["y"]}],`} {
		s := mustStructural(t, `{"type": "object", `+further+`
			"properties": {"u": {"type": "string"}, "a": {"type": "object"}, "b": {"type": "object"}, "c": {"type": "object"}, "x": {"type": "string"}, "y": {"type": "string"}},
			"x-kubernetes-unions": [{"discriminator": "u", "fields": {"a": "A", "b": "B", "c": "C"}}]}`)
		published := s.Unfold(KEP)
		published.XUnions = nil
		p, q := mustCompile(t, s), mustCompile(t, published)
		for members := range 8 {
			for _, discriminator := range []string{"absent", "A", "B", "C", "D", ""} {
				obj := Object{"x": "is set"}
				set, agrees := 0, discriminator == "absent"
				for i, name := range []string{"a", "b", "c"} {
					if members&(1<<i) != 0 {
						obj[name] = Object{}
						set++
						agrees = agrees || discriminator == string("ABC"[i])
					}
				}
				if discriminator != "absent" {
					obj["u"] = discriminator
				}
				want := set == 1 && agrees
				server := len(p.Validate(context.Background(), obj, nil)) == 0
				client := len(q.Validate(context.Background(), obj, nil)) == 0
				if server != want || client != want {
					t.Errorf("%v: the server says %v, the published form %v, want %v", obj, server, client, want)
				}
			}
		}
	}
}

// publishedUnions checks the same for two unions of an object.
func publishedUnions(t *testing.T) {
	s := mustStructural(t, `{"type": "object",
		"properties": {"t": {"type": "string"}, "u": {"type": "string"}, "a": {"type": "object"}, "b": {"type": "object"}, "c": {"type": "object"}, "d": {"type": "object"}},
		"x-kubernetes-unions": [{"discriminator": "t", "fields": {"a": "A", "b": "B"}}, {"discriminator": "u", "fields": {"c": "C", "d": "D"}}]}`)
	published := s.Unfold(KEP)
	published.XUnions = nil
	p, q := mustCompile(t, s), mustCompile(t, published)
	for members := range 16 {
		for _, first := range []string{"absent", "A", "B", "C"} {
			for _, second := range []string{"absent", "A", "C", "D"} {
				obj := Object{}
				var set [2]string // the values for the members of each union that are set
				for i, name := range []string{"a", "b", "c", "d"} {
					if members&(1<<i) != 0 {
						obj[name] = Object{}
						set[i/2] += strings.ToUpper(name)
					}
				}
				want := true
				for i, value := range []string{first, second} {
					if value != "absent" {
						obj[[]string{"t", "u"}[i]] = value
					}
					want = want && len(set[i]) == 1 && (value == "absent" || value == set[i])
				}
				server := len(p.Validate(context.Background(), obj, nil)) == 0
				client := len(q.Validate(context.Background(), obj, nil)) == 0
				if server != want || client != want {
					t.Errorf("%v: the server says %v, the published form %v, want %v", obj, server, client, want)
				}
			}
		}
	}
}

func show(s *Structural) string {
	raw, err := json.Marshal(s.ToJSONSchemaProps())
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// genStructural makes a structural schema with every extension and the keywords
// that a form touches.
func genStructural(r *rand.Rand, depth int) *Structural {
	s := &Structural{}
	s.Nullable = r.IntN(8) == 0
	kinds := 11
	if depth == 0 {
		kinds = 4
	}
	switch r.IntN(kinds) {
	case 0:
		s.Type = "string"
	case 1:
		s.Type = "integer"
	case 2:
		s.XPreserveUnknownFields = true
	case 3:
		s.XIntOrString = true
		switch r.IntN(4) {
		case 0:
			s.ValueValidation = &ValueValidation{AnyOf: intOrStringBranches()}
		case 1:
			s.ValueValidation = &ValueValidation{AllOf: []NestedValueValidation{{ValueValidation: ValueValidation{AnyOf: intOrStringBranches()}}}}
		}
	case 4, 5:
		s.Type, s.Items = "array", genStructural(r, depth-1)
	case 6:
		s.Type = "object"
		s.AdditionalProperties = &StructuralOrBool{Bool: true, Structural: genStructural(r, depth-1)}
	case 7:
		s.Type, s.XEmbeddedResource, s.XPreserveUnknownFields = "object", true, r.IntN(2) == 0
		s.Properties = map[string]*Structural{"spec": genStructural(r, depth-1)}
		typeMeta := func() *Structural {
			f := &Structural{Generic: Generic{Type: pick(r, []string{"", "string"})}}
			if r.IntN(2) == 0 {
				f.ValueValidation = &ValueValidation{Pattern: "^[a-zA-Z]"}
			}
			return f
		}
		if r.IntN(2) == 0 {
			s.Properties["apiVersion"] = typeMeta()
		}
		if r.IntN(2) == 0 {
			s.Properties["kind"] = typeMeta()
		}
		if r.IntN(2) == 0 {
			s.Properties["metadata"] = mustMetadata(r)
		}
	case 8:
		s.Type = "object"
		s.Properties = map[string]*Structural{"kind": typedSchema("string"), "x": genStructural(r, depth-1), "y": genStructural(r, depth-1)}
		s.XUnions = append(s.XUnions, unionOf("kind", "x", "y"))
		if r.IntN(2) == 0 {
			s.Properties["kind"].ValueValidation = &ValueValidation{Enum: []JSON{{"Y"}, {"Z"}, {"X"}}}
		}
	default:
		s.Type = "object"
		s.Properties = map[string]*Structural{"x": genStructural(r, depth-1), "y": genStructural(r, depth-1)}
		s.XPreserveUnknownFields = r.IntN(4) == 0
	}
	if r.IntN(3) == 0 {
		addConditions(r, s.valueValidation(), s)
	}
	return s
}

// addConditions adds a condition that may hold or not.
func addConditions(r *rand.Rand, v *ValueValidation, s *Structural) {
	one := func() ValueValidation {
		five, two := 5.0, int64(2)
		switch r.IntN(6) {
		case 0:
			return ValueValidation{Maximum: &five}
		case 1:
			return ValueValidation{MaxLength: &two}
		case 2:
			return ValueValidation{Pattern: "^[a-m]"}
		case 3:
			return ValueValidation{Required: []string{"x"}}
		case 4:
			return ValueValidation{MaxItems: &two}
		}
		return ValueValidation{Enum: []JSON{{"a"}, {"b"}, {int64(1)}}}
	}
	several := func() []NestedValueValidation {
		out := make([]NestedValueValidation, 1+r.IntN(2))
		for i := range out {
			out[i].ValueValidation = one()
			if s.Properties["x"] != nil && r.IntN(3) == 0 {
				out[i].Properties = map[string]*NestedValueValidation{"x": {ValueValidation: one()}}
			}
		}
		return out
	}
	switch r.IntN(6) {
	case 0:
		if v.AnyOf == nil {
			v.AnyOf = several()
		}
	case 1:
		v.OneOf = several()
	case 2:
		v.AllOf = append(v.AllOf, several()...)
	case 3:
		v.Not = &NestedValueValidation{ValueValidation: one()}
	default:
		c := one()
		v.Maximum, v.MaxLength, v.Pattern, v.Required, v.MaxItems, v.Enum = c.Maximum, c.MaxLength, c.Pattern, c.Required, c.MaxItems, c.Enum
	}
}

func mustMetadata(r *rand.Rand) *Structural {
	m := typedSchema(pick(r, []string{"", "object"}))
	ten := int64(10)
	switch r.IntN(3) {
	case 0:
		m.Properties = map[string]*Structural{"name": {Generic: Generic{Type: "string"}, ValueValidation: &ValueValidation{MaxLength: &ten}}}
	case 1:
		m.Properties = map[string]*Structural{"labels": {
			Generic:              Generic{Type: "object"},
			AdditionalProperties: &StructuralOrBool{Bool: true, Structural: &Structural{Generic: Generic{Type: "string"}, ValueValidation: &ValueValidation{Pattern: "^[a-z]*$"}}},
		}}
	}
	return m
}

// genValue makes a value that more or less satisfies s.
func genValue(r *rand.Rand, s *Structural) any {
	if s == nil || r.IntN(16) == 0 {
		return pick(r, []any{nil, "a", "xyz", int64(1), int64(9), 2.5, []any{}, Object{}, Object{"x": "a"}})
	}
	switch {
	case s.XEmbeddedResource:
		obj := Object{
			"apiVersion": pick(r, []any{"v1", "apps/v1", "apps/v1", "a/b/c", "", int64(1)}),
			"kind":       pick(r, []any{"Pod", "Pod", "not-", "", nil}),
			"metadata": pick(r, []any{
				Object{"name": "a"}, Object{"name": "a-much-longer-name"}, Object{"labels": Object{"a": "b"}},
				Object{"creationTimestamp": nil, "labels": Object{"a": "B"}}, Object{"garbage": int64(1)}, Object{"labels": int64(1)}, nil,
			}),
			"spec": genValue(r, s.Properties["spec"]),
		}
		for _, k := range []string{"apiVersion", "kind", "metadata", "spec"} {
			if r.IntN(10) == 0 {
				delete(obj, k)
			}
		}
		return obj
	case len(s.XUnions) > 0:
		obj := Object{}
		m := pick(r, []string{"x", "y"})
		obj[m] = genValue(r, s.Properties[m])
		if r.IntN(6) == 0 {
			obj["x"] = genValue(r, s.Properties["x"])
		}
		if r.IntN(2) == 0 {
			obj["kind"] = pick(r, []string{"X", "Y", "Z"})
		}
		return obj
	case s.XIntOrString:
		return pick(r, []any{int64(1), int64(9), "a", "xyz"})
	case s.Type == "string":
		return pick(r, []string{"a", "b", "xyz"})
	case s.Type == "integer":
		return pick(r, []int64{1, 2, 9})
	case s.Type == "array":
		list := []any{}
		for range r.IntN(4) {
			list = append(list, genValue(r, s.Items))
		}
		return list
	case s.AdditionalProperties != nil:
		obj := Object{}
		for i := range r.IntN(3) {
			obj[fmt.Sprint("k", i)] = genValue(r, s.AdditionalProperties.Structural)
		}
		return obj
	}
	obj := Object{}
	for _, k := range []string{"x", "y", "z"} {
		if r.IntN(4) > 0 {
			obj[k] = genValue(r, s.Properties[k])
		}
	}
	return obj
}

// unionOf is a union whose members have their names in capitals as values.
func unionOf(discriminator string, members ...string) api.Union {
	u := api.Union{Discriminator: discriminator, Fields: map[string]string{}}
	for _, m := range members {
		u.Fields[m] = strings.ToUpper(m)
	}
	return u
}

func typedSchema(t string) *Structural { return &Structural{Generic: Generic{Type: t}} }

func objectSchema(fields map[string]*Structural) *Structural {
	return &Structural{Generic: Generic{Type: "object"}, Properties: fields}
}
