package schema

// draft4Checks are the keywords that only the draft-4 dialect of 2017 has.
type draft4Checks struct {
	// patterns is patternProperties.
	patterns []patternProperty
	// dependencies is what the presence of a field asks for.
	dependencies []dependency
	// tuple is items as a list: the schema of each item by its position.
	tuple []int32
	// more is additionalItems: the schema of the items after the tuple, or none.
	more int32
	// refusesMore is additionalItems: false.
	refusesMore bool
}

type patternProperty struct {
	pattern *pattern
	node    int32
}

type dependency struct {
	field string
	// required are the fields that must be there too.
	required []string
	// node is the schema that the whole object must satisfy, or none.
	node int32
}

// item returns the schema that the item at index i has by its position, or none.
func (d *draft4Checks) item(i int) int32 {
	switch {
	case d == nil || len(d.tuple) == 0:
		return none
	case i < len(d.tuple):
		return d.tuple[i]
	}
	return d.more
}
