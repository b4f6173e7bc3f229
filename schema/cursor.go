package schema

// Pruning describes what happens to the unspecified fields of a value.
type Pruning uint8

const (
	// PruningOn removes unspecified fields.
	PruningOn Pruning = iota
	// PruningPaused keeps unspecified fields because of
	// x-kubernetes-preserve-unknown-fields. Pruning may resume further down.
	PruningPaused
	// PruningOff keeps unspecified fields, here and below. It applies to the root if
	// the CRD has preserveUnknownFields: true, and to values that are kept although no
	// schema specifies them: below those, no schema could resume pruning.
	PruningOff
	// PruningMetadata applies to apiVersion, kind and metadata of a resource and to
	// everything below them. The schema can validate them, but their fields are always
	// those of [ObjectMeta].
	PruningMetadata
)

// inside returns the pruning of the fields of a value that is entered with p. preserves
// is x-kubernetes-preserve-unknown-fields of its schema.
func (p Pruning) inside(preserves bool) Pruning {
	if p == PruningOn && preserves {
		return PruningPaused
	}
	return p
}

// into returns the pruning with which a specified field or item of a value is entered.
// p is the pruning inside the value.
func (p Pruning) into(part *Structural, viaItems bool, sem Semantics) Pruning {
	if p == PruningPaused && sem.restartsAt(viaItems, part.specifiesFields()) {
		return PruningOn
	}
	return p
}

// specifiesFields reports whether s specifies the fields of a value. It returns false
// for nil.
func (s *Structural) specifiesFields() bool {
	return s != nil && (len(s.Properties) > 0 || s.AdditionalProperties != nil)
}

// Cursor is a position in the schema of a resource. It has the schema of one value in
// the resource, and what depends on the path to that value: whether unspecified fields
// are pruned there, and whether the value belongs to metadata. Compile builds a Program
// with it, so that a Cursor always agrees with Decode and Normalize.
//
// A Cursor is a small value without references to other positions. Cursors can be
// compared with ==.
type Cursor struct {
	schema    *Structural
	semantics Semantics
	entered   Pruning
	isRoot    bool
}

// NewCursor returns a cursor at the root of a resource with the schema s. p is
// PruningOn, or PruningOff if the CRD has preserveUnknownFields: true.
func NewCursor(s *Structural, sem Semantics, p Pruning) Cursor {
	return Cursor{schema: s, semantics: sem, entered: p, isRoot: true}
}

// Schema returns the schema of the value, or nil if no schema specifies the value.
func (c Cursor) Schema() *Structural { return c.schema }

// WithSchema returns a cursor at the same value with a different schema.
func (c Cursor) WithSchema(s *Structural) Cursor {
	c.schema = s
	return c
}

// Entered returns the pruning with which the value is entered, before its own
// x-kubernetes-preserve-unknown-fields is applied.
func (c Cursor) Entered() Pruning { return c.entered }

// Pruning returns what happens to the unspecified fields of the value.
func (c Cursor) Pruning() Pruning {
	return c.entered.inside(c.schema != nil && c.schema.XPreserveUnknownFields)
}

// Prunes reports whether unspecified fields of the value are pruned.
func (c Cursor) Prunes() bool { return c.Pruning() == PruningOn }

// IsResource reports whether the value is a resource: the root or an embedded resource.
// Its apiVersion, kind and metadata are specified even if its schema does not mention
// them.
func (c Cursor) IsResource() bool {
	return c.isRoot || c.schema != nil && c.schema.XEmbeddedResource
}

// InMetadata reports whether the value is apiVersion, kind or metadata of a resource,
// or below one of them.
func (c Cursor) InMetadata() bool { return c.entered == PruningMetadata }

// Field returns the cursor at a field. It returns false if the field is pruned.
func (c Cursor) Field(name string) (Cursor, bool) {
	var prop *Structural
	if c.schema != nil {
		prop = c.schema.Properties[name]
	}
	if prop == nil && !(c.IsResource() && IsMetaField(name)) {
		return c.MapValue()
	}
	return c.property(name, prop), true
}

// property returns the cursor at a specified field. prop is its schema; it is nil only
// for the fields that every resource has.
func (c Cursor) property(name string, prop *Structural) Cursor {
	if c.IsResource() && IsMetaField(name) {
		return Cursor{schema: prop, semantics: c.semantics, entered: PruningMetadata}
	}
	return c.enter(prop, false)
}

// MapValue returns the cursor at a field that is not listed in properties. It returns
// false if such fields are pruned. With additionalProperties: false they are kept, so
// that validation can reject them.
func (c Cursor) MapValue() (Cursor, bool) {
	switch {
	case c.schema != nil && c.schema.AdditionalProperties != nil:
		return c.enter(c.schema.AdditionalProperties.Structural, false), true
	case c.Prunes():
		return Cursor{}, false
	}
	return c.unspecified(), true
}

// Items returns the cursor at the items of an array.
func (c Cursor) Items() Cursor {
	switch {
	case c.schema != nil && c.schema.Items != nil:
		return c.enter(c.schema.Items, true)
	case c.Prunes():
		return c.enter(nil, true)
	}
	return c.unspecified()
}

// enter returns the cursor at a specified field or item. part is nil if the schema
// allows the value without specifying it further.
func (c Cursor) enter(part *Structural, viaItems bool) Cursor {
	return Cursor{schema: part, semantics: c.semantics, entered: c.Pruning().into(part, viaItems, c.semantics)}
}

// unspecified returns the cursor at a field or item that is kept unchanged.
func (c Cursor) unspecified() Cursor {
	if !c.InMetadata() {
		c.entered = PruningOff
	}
	c.schema, c.isRoot = nil, false
	return c
}
