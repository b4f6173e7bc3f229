package lint

import (
	"context"
	"fmt"

	"espalier.dev/api"
)

// maxWarnings is the number of differences that the writer of a CRD is told of: headers
// have little room.
const maxWarnings = 5

// Warnings returns what an API server should tell the writer of a CRD: what it means
// differently in the two semantics.
func Warnings(ctx context.Context, c *api.CustomResourceDefinition) (warnings []string) {
	found, err := Differences(ctx, c)
	if err != nil {
		return nil // the server rejects a CRD that cannot be read
	}
	for i, f := range found {
		if i == maxWarnings {
			return append(warnings, fmt.Sprintf("%d more differences between kep and kubernetes semantics: run `espalier lint` to list them", len(found)-i))
		}
		warnings = append(warnings, f.Path+": "+f.Message)
	}
	return warnings
}
