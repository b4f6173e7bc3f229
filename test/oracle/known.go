package oracle

// KnownDifference is a place where the engine is right to differ from the
// reference. There may be five of them, and no more.
type KnownDifference struct {
	ID string
	// Cites is the reference's code that the difference comes from: file and function.
	Cites string
	// Why says why the engine is right.
	Why string
	// Matches says whether a difference is this one. It is as narrow as it can be.
	Matches func(d *Difference) bool
}

// KnownDifferences are all that there are.
func KnownDifferences() []KnownDifference {
	return []KnownDifference{}
}

// explain returns the ID of the known difference that d is, or "".
func explain(d *Difference) string {
	for _, k := range KnownDifferences() {
		if k.Matches(d) {
			return k.ID
		}
	}
	return ""
}
