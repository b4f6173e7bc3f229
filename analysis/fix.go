package analysis

import (
	"espalier.dev/internal/yamledit"
)

// Fix is a change that fixes what was found. Either all of its edits are made or
// none.
type Fix struct {
	// Message says what the edits do, in the imperative.
	Message string
	Edits   []Edit
}

// Edit is one change of a document.
type Edit = yamledit.Edit
