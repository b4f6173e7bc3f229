//go:build small

package object

import (
	"espalier.dev/analysis"
	"espalier.dev/schema"
)

// prunedKind is what is pruned of an object of Kubernetes' own kinds, which the small engine does not
// know.
type prunedKind struct{ changes []schema.Change }

func (*prunedKind) reasons() []analysis.Finding { return nil }
