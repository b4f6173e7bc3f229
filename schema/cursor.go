package schema

// Pruning is what happens to the fields of a value that its schema does not specify.
type Pruning uint8

const (
	// PruningOn removes them.
	PruningOn Pruning = iota
	// PruningPaused keeps them, as x-kubernetes-preserve-unknown-fields demands. Pruning
	// may start again at a value below.
	PruningPaused
	// PruningOff keeps them, here and below. The root is entered with it if the CRD has
	// preserveUnknownFields: true, and a value that is kept although no schema
	// specifies it has nothing below at which pruning could start again.
	PruningOff
	// PruningMetadata is for apiVersion, kind and metadata of a resource and everything
	// below them. The schema can validate them, but it has no say in their fields:
	// those are the fields of [ObjectMeta].
	PruningMetadata
)

// inside returns the pruning of the fields in a value that is entered with p.
// preserves is x-kubernetes-preserve-unknown-fields of its schema.
func (p Pruning) inside(preserves bool) Pruning {
	if p == PruningOn && preserves {
		return PruningPaused
	}
	return p
}

// into returns the pruning that a part of a value is entered with, if the schema
// names the part. p is the pruning in the value.
func (p Pruning) into(part *Structural, viaItems bool, sem Semantics) Pruning {
	if p == PruningPaused && sem.restartsAt(viaItems, part.specifiesFields()) {
		return PruningOn
	}
	return p
}

// specifiesFields reports whether s states which fields a value has. A nil s does not.
func (s *Structural) specifiesFields() bool {
	return s != nil && (len(s.Properties) > 0 || s.AdditionalProperties != nil)
}

// Cursor is a position in the schema of a resource. It knows the schema of one value
// in the resource, and what only the way to the value can tell: whether fields that
// the schema does not specify are pruned there, and whether the value belongs to
// metadata. Compile uses it to build a Program, so that a Cursor never disagrees
// with what Decode and Normalize do.
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

// Schema returns the schema of the value. It is nil if no schema specifies the value.
func (c Cursor) Schema() *Structural { return c.schema }

// WithSchema returns the cursor at the same value, with another schema for it.
func (c Cursor) WithSchema(s *Structural) Cursor {
	c.schema = s
	return c
}

// Entered returns the pruning that the value is entered with: what its own
// x-kubernetes-preserve-unknown-fields changes is not part of it.
func (c Cursor) Entered() Pruning { return c.entered }

// Pruning returns what happens to the fields of the value that are not specified.
func (c Cursor) Pruning() Pruning {
	return c.entered.inside(c.schema != nil && c.schema.XPreserveUnknownFields)
}

// Prunes reports whether fields of the value that are not specified are pruned.
func (c Cursor) Prunes() bool { return c.Pruning() == PruningOn }

// IsResource reports whether the value is a resource, the root or an embedded one. Its
// apiVersion, kind and metadata are specified even if its schema does not mention them.
func (c Cursor) IsResource() bool {
	return c.isRoot || c.schema != nil && c.schema.XEmbeddedResource
}

// InMetadata reports whether the value is apiVersion, kind or metadata of a resource,
// or below one of them.
func (c Cursor) InMetadata() bool { return c.entered == PruningMetadata }

// Field enters the field of that name. It reports false if the field is pruned.
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

// property enters a field that is specified. prop is its schema, which is nil only for
// the fields that every resource has.
func (c Cursor) property(name string, prop *Structural) Cursor {
	if c.IsResource() && IsMetaField(name) {
		return Cursor{schema: prop, semantics: c.semantics, entered: PruningMetadata}
	}
	return c.enter(prop, false)
}

// MapValue enters a field that properties does not name. It reports false if such
// fields are pruned. Where additionalProperties is false they are not: they stay, so
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

// Items enters an item of an array.
func (c Cursor) Items() Cursor {
	switch {
	case c.schema != nil && c.schema.Items != nil:
		return c.enter(c.schema.Items, true)
	case c.Prunes():
		return c.enter(nil, true)
	}
	return c.unspecified()
}

// enter returns the cursor at a part of the value that the schema names. The part's
// own schema is nil if the schema says no more than that it may be there.
func (c Cursor) enter(part *Structural, viaItems bool) Cursor {
	return Cursor{schema: part, semantics: c.semantics, entered: c.Pruning().into(part, viaItems, c.semantics)}
}

// unspecified returns the cursor at a part of the value that is kept as it is.
func (c Cursor) unspecified() Cursor {
	if !c.InMetadata() {
		c.entered = PruningOff
	}
	c.schema, c.isRoot = nil, false
	return c
}
