package oracle

import (
	"regexp"
	"slices"
	"strings"
)

// KnownDifference is a difference in which the engine is right. At most five are allowed.
type KnownDifference struct {
	ID string
	// Cites names the reference's code that causes the difference: file and function.
	Cites string
	// Why explains why the engine is right.
	Why string
	// Matches reports whether a difference is this one. It is as narrow as possible.
	Matches func(d *Difference) bool
}

// KnownDifferences returns all known differences.
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

// explain returns the ID of the known difference that matches d, or "".
func explain(d *Difference) string {
	for _, k := range KnownDifferences() {
		if k.Matches(d) {
			return k.ID
		}
	}
	return ""
}

// onceEach removes duplicates from a list of root metadata fields.
func onceEach(list string) string {
	// The list is written with %q, so it may contain spaces and quotes.
	paths := regexp.MustCompile(`"(?:[^"\\]|\\.)*"`).FindAllString(list, -1)
	paths = slices.CompactFunc(paths, func(a, b string) bool {
		return a == b && strings.HasPrefix(a, `"metadata.`)
	})
	return "[" + strings.Join(paths, " ") + "]"
}
