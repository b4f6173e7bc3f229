package oracle

import (
	"regexp"
	"slices"
	"strings"
)

// KnownDifference is a place where the engine is right to differ from the
// reference. There may be five of them, and no more.
type KnownDifference struct {
	ID string
	// Cites is the reference's code that the difference comes from: file and function.
	Cites string
	// Why says why the engine is right.
	Why string
	// Matches reports whether a difference is this one. It is as narrow as it can be.
	Matches func(d *Difference) bool
}

// KnownDifferences are all that there are.
func KnownDifferences() []KnownDifference {
	return []KnownDifference{
		{
			ID: "root-embedded-metadata-twice",
			Cites: "pkg/apiserver/customresource_handler.go, unstructuredSchemaCoercer.apply: it takes the unknown fields of metadata from " +
				"GetObjectMetaWithOptions, and again from CoerceWithOptions if the root of the schema is an embedded resource",
			Why: "a field that is dropped once is reported once; which fields are reported is the same",
			Matches: func(d *Difference) bool {
				return (d.What == "decode unknown fields" || d.What == "normalize unknown fields") &&
					d.Case.Schema["x-kubernetes-embedded-resource"] == true &&
					onceEach(d.Reference) == d.Ours
			},
		},
	}
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

// onceEach drops the paths that stand twice in a list of root metadata fields.
func onceEach(list string) string {
	// The list is written with %q, and so may hold spaces and quotes.
	paths := regexp.MustCompile(`"(?:[^"\\]|\\.)*"`).FindAllString(list, -1)
	paths = slices.CompactFunc(paths, func(a, b string) bool {
		return a == b && strings.HasPrefix(a, `"metadata.`)
	})
	return "[" + strings.Join(paths, " ") + "]"
}
