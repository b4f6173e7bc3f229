package analysis

import (
	"espalier.dev/internal/yamledit"
)

// Fix is an automatic fix for a finding. Its edits apply together or not at all.
type Fix struct {
	// Message describes the edits, in the imperative.
	Message string
	Edits   []Edit
}

// Edit is one change to a document.
type Edit = yamledit.Edit
