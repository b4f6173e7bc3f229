package lint

import (
	"context"
	"fmt"

	"espalier.dev/api"
)

// maxWarnings limits the number of differences in a response: warnings are headers, whose
// size is limited.
const maxWarnings = 5

// Warnings returns warnings for the author of a CRD: the parts that the two schema
// semantics interpret differently.
func Warnings(ctx context.Context, c *api.CustomResourceDefinition) (warnings []string) {
	found, err := Differences(ctx, c)
	if err != nil {
		return nil // the server rejects a CRD that cannot be read
	}
	for i, f := range found {
		if i == maxWarnings {
			return append(warnings,
				fmt.Sprintf("%d more differences between kep and kubernetes semantics: run `espalier lint` to list them", len(found)-i))
		}
		warnings = append(warnings, f.Path+": "+f.Message)
	}
	return warnings
}
