package generate

import "espalier.dev/schema"

// cursors are the position of a value in its schema with both semantics: types do not know
// which server stores their objects, so they keep what one of the semantics keeps.
type cursors [2]schema.Cursor

// rootCursors returns the cursors at the objects of a kind.
func rootCursors(s *schema.Structural) cursors {
	return cursors{schema.NewCursor(s, schema.KEP, schema.PruningOn), schema.NewCursor(s, schema.Kubernetes, schema.PruningOn)}
}

func (c cursors) schema() *schema.Structural { return c[0].Schema() }

// field returns the cursors at a specified field.
func (c cursors) field(name string) cursors {
	for i := range c {
		c[i], _ = c[i].Field(name)
	}
	return c
}

// mapValue returns the cursors at the values of a map.
func (c cursors) mapValue() cursors {
	for i := range c {
		c[i], _ = c[i].MapValue()
	}
	return c
}

func (c cursors) items() cursors { return cursors{c[0].Items(), c[1].Items()} }

// pruning returns what happens to the unspecified fields of the value.
func (c cursors) pruning() [2]schema.Pruning {
	return [2]schema.Pruning{c[0].Pruning(), c[1].Pruning()}
}

// keepUnknown reports whether unspecified fields of the value are kept. In metadata, all fields
// are specified.
func (c cursors) keepUnknown() bool {
	return !c[0].InMetadata() && !(c[0].Prunes() && c[1].Prunes())
}

// kind returns the kind of the value.
func (c cursors) kind() ValueKind {
	if s := c.schema(); s != nil {
		return KindOf(s)
	}
	return JSON
}
