package sample

import (
	"context"
	"fmt"

	"espalier.dev/analysis/explain"
	"espalier.dev/crd"
	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

// Size says how much is in a sample.
type Size int

const (
	// Minimal has what must be there, and what a server would not fill in.
	Minimal Size = iota
	// Full has every field that can be there together with the others.
	Full
)

// String names the size.
func (s Size) String() string {
	if s == Full {
		return "full"
	}
	return "minimal"
}

// Sample is an object.
type Sample struct {
	// Object is what a user would write.
	Object schema.Object
	// Violations are what stands in the way: none if the object is valid.
	Violations schema.Violations
	// Problem says why the object could not even be judged, or is nil.
	Problem error
}

// Valid reports whether a server would accept the object.
func (s *Sample) Valid() bool { return len(s.Violations) == 0 && s.Problem == nil }

// New makes a sample of a version. A sample that is not valid is no error: it is the
// best attempt. There is an error if the version's schema does not compile.
func New(ctx context.Context, v *crd.Version, size Size) (*Sample, error) {
	s, err := explain.SchemaOf(v)
	if err != nil {
		return nil, err
	}
	if _, err := v.Program(); err != nil {
		return nil, fmt.Errorf("version %s of %s: %w", v.Name(), v.Definition().Name(), err)
	}
	g := &generator{full: size == Full, kep: v.Definition().Semantics().KnowsUnions()}
	return newMender(ctx, v, s, g).mend(g.resource(v, s)), nil
}

// resource makes a first version of an object.
func (g *generator) resource(v *crd.Version, s *schema.Structural) schema.Object {
	obj := schema.Object{}
	if s != nil {
		obj = g.object(s, nil, 0)
	}
	if v.HasStatus() {
		// It is not for those who write objects to write.
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

// admit does to an object what a server does that is asked to create it, and returns
// what it has against it.
func admit(ctx context.Context, v *crd.Version, obj schema.Object) (schema.Violations, error) {
	p, err := v.Program()
	if err != nil {
		return nil, err
	}
	obj = jsonx.CopyObject(obj)
	if _, err := p.Normalize(obj, schema.DecodeOptions{}); err != nil {
		return nil, err
	}
	v.PrepareCreate(obj)
	return v.Validate(ctx, obj, nil)
}
