package schema

// draft4Checks are the keywords that only the draft-4 dialect of 2017 has.
type draft4Checks struct {
	// patterns is patternProperties.
	patterns []patternProperty
	// dependencies are the requirements that the presence of a field implies.
	dependencies []dependency
	// tuple is items as a list: the schemas of the items by position.
	tuple []int32
	// more is additionalItems: the schema of the items after the tuple, or none.
	more int32
	// closed is additionalItems: false.
	closed bool
}

type patternProperty struct {
	pattern *pattern
	node    int32
}

type dependency struct {
	field string
	// required lists the other fields that must be present.
	required []string
	// node is the schema that the whole object must satisfy, or none.
	node int32
}

// item returns the schema of the item at position i in the tuple, or none.
func (d *draft4Checks) item(i int) int32 {
	switch {
	case d == nil || len(d.tuple) == 0:
		return none
	case i < len(d.tuple):
		return d.tuple[i]
	}
	return d.more
}
