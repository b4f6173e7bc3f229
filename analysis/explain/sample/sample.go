package sample

import (
	"context"
	"fmt"

	"espalier.dev/analysis/explain"
	"espalier.dev/crd"
	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

// Size selects the fields of a sample.
type Size int

const (
	// Minimal includes the required fields that the API server does not default, and the spec
	// even if it is optional. A spec without required fields gets a few others, so that there
	// is something to start from.
	Minimal Size = iota
	// Full includes all fields that can be present together.
	Full
)

// String returns the name of the size.
func (s Size) String() string {
	if s == Full {
		return "full"
	}
	return "minimal"
}

// Sample is a generated object.
type Sample struct {
	// Object is the object as a user would write it.
	Object schema.Object
	// Violations are the remaining violations. A valid object has none.
	Violations schema.Violations
	// Problem is the error that prevented validation, or nil.
	Problem error
}

// Valid reports whether the API server would accept the object.
func (s *Sample) Valid() bool { return len(s.Violations) == 0 && s.Problem == nil }

// New generates a sample of a version. If it finds no valid object, it returns the best
// attempt without an error. It returns an error if the schema of the version does not compile.
func New(ctx context.Context, v *crd.Version, size Size) (*Sample, error) {
	s, err := explain.SchemaOf(v)
	if err != nil {
		return nil, err
	}
	if _, err := v.Program(); err != nil {
		return nil, fmt.Errorf("version %s of %s: %w", v.Name(), v.Definition().Name(), err)
	}
	g := &generator{full: size == Full, kep: v.Definition().Semantics().KnowsUnions()}
	if size == Minimal && s != nil {
		if obj := g.resource(v, s); g.begin(s, obj) {
			if begun := newRepairer(ctx, v, s, g).repair(obj); begun.Valid() {
				return begun, nil
			}
		}
	}
	return newRepairer(ctx, v, s, g).repair(g.resource(v, s)), nil
}

// Value generates a value of a schema: its required fields and those in them. Nothing validates it,
// so rules and schemas around it can reject it.
func Value(s *schema.Structural) any { return generator{}.make(s, 0) }

// resource generates the first attempt.
func (g *generator) resource(v *crd.Version, s *schema.Structural) schema.Object {
	obj := schema.Object{}
	if s != nil {
		obj = g.object(s, nil, 0)
	}
	if v.HasStatus() {
		// Users do not write status.
		delete(obj, "status")
	}
	gvk := v.GroupVersionKind()
	obj["apiVersion"], obj["kind"] = gvk.GroupVersion().String(), gvk.Kind
	meta := map[string]any{"name": "example"}
	if v.Definition().Namespaced() {
		meta["namespace"] = "default"
	}
	obj["metadata"] = meta
	if s != nil && s.Properties["metadata"] != nil {
		if name := s.Properties["metadata"].Properties["name"]; name != nil {
			if text, ok := g.value(name, nil, 0).(string); ok {
				meta["name"] = text
			}
		}
	}
	return obj
}

// admit processes an object like the API server does on creation, and returns the
// violations.
func admit(ctx context.Context, v *crd.Version, obj schema.Object) (schema.Violations, error) {
	p, _ := v.Program() // New has compiled it
	obj = jsonx.CopyObject(obj)
	if _, err := p.Normalize(obj, schema.DecodeOptions{}); err != nil {
		return nil, err
	}
	v.PrepareCreate(obj)
	return v.Validate(ctx, obj, nil)
}
