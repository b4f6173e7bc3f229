package fields

import (
	"slices"

	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
)

// typ is a type of structured-merge-diff, prepared for the walks of this package. A value has
// one of its forms, or is null.
type typ struct {
	scalar smd.Scalar // or empty
	items  *typList
	fields *typMap
	// several is set if values may be of more than one form.
	several bool
}

// typList is the type of a list.
type typList struct {
	element *typ
	// atomic lists have one owner. The others are sets, or maps if they have keys.
	atomic   bool
	keys     []string // sorted
	defaults []any    // of the keys, or nil
}

// typMap is the type of an object or a map.
type typMap struct {
	declared map[string]typField
	// element is the type of all other fields, or nil.
	element *typ
	atomic  bool
	// deduced is set if there is no schema. What the fields own never becomes atomic.
	deduced bool
}

// typField is the type of a declared field.
type typField struct {
	*typ
	key string // the serialized path element
}

// field returns the type of a field, or nil if there is none.
func (m *typMap) field(name string) *typ {
	if f, ok := m.declared[name]; ok {
		return f.typ
	}
	return m.element
}

// entry returns the type of a field and its serialized path element.
func (m *typMap) entry(name string) (t *typ, key string, declared bool) {
	if f, ok := m.declared[name]; ok {
		return f.typ, f.key, true
	}
	return m.element, "f:" + name, false
}

// compiler prepares types.
type compiler struct {
	schema *smd.Schema
	named  map[string]*typ
	// scalars are the types that have no other form.
	scalars map[smd.Scalar]*typ
}

// compile returns a type, or nil if there is none.
func (c *compiler) compile(ref smd.TypeRef) *typ {
	a, ok := c.schema.Resolve(ref)
	if !ok || a.Map == nil && a.List == nil && a.Scalar == nil {
		return nil
	}
	if a.Map == nil && a.List == nil {
		t := c.scalars[*a.Scalar]
		if t == nil {
			t = &typ{scalar: *a.Scalar}
			c.scalars[*a.Scalar] = t
		}
		return t
	}
	t := &typ{}
	if ref.NamedType != nil {
		if known, ok := c.named[*ref.NamedType]; ok {
			return known
		}
		c.named[*ref.NamedType] = t
	}
	forms := 0
	if a.Scalar != nil {
		t.scalar = *a.Scalar
		forms++
	}
	if l := a.List; l != nil {
		t.items = &typList{element: c.compile(l.ElementType), atomic: l.ElementRelationship != smd.Associative}
		t.items.keys = slices.Sorted(slices.Values(l.Keys))
		t.items.defaults = make([]any, len(l.Keys))
		if element, _ := c.schema.Resolve(l.ElementType); element.Map != nil {
			for i, name := range t.items.keys {
				if f, ok := element.Map.FindField(name); ok {
					t.items.defaults[i] = f.Default
				}
			}
		}
		forms++
	}
	if m := a.Map; m != nil {
		t.fields = &typMap{
			declared: make(map[string]typField, len(m.Fields)),
			element:  c.compile(m.ElementType),
			atomic:   m.ElementRelationship == smd.Atomic,
			deduced:  m.Fields == nil && isDeduced(m.ElementType),
		}
		for _, f := range m.Fields {
			key := "f:" + f.Name
			t.fields.declared[key[2:]] = typField{typ: c.compile(f.Type), key: key}
		}
		forms++
	}
	t.several = forms > 1
	return t
}

// isDeduced reports whether a type is the one of values without a schema.
func isDeduced(ref smd.TypeRef) bool {
	if ref.NamedType != nil {
		return *ref.NamedType == deduced
	}
	return ref.Inlined.Scalar != nil && *ref.Inlined.Scalar == smd.Untyped
}
