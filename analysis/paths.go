package analysis

import (
	"fmt"
	"strings"
)

// V1Paths rewrites a path of an error about a definition to paths in a v1 document with
// so many versions. Definitions are validated in a form that has places for what
// all versions have in common; in v1 each version has its own, so there may be
// several.
func V1Paths(path string, versions int) []string {
	if rest, ok := cutPath(path, "spec.version"); ok {
		return []string{"spec.versions[0].name" + rest}
	}
	for _, r := range [...]struct{ from, to string }{
		{"spec.conversion.webhookClientConfig", "spec.conversion.webhook.clientConfig"},
		{"spec.conversion.conversionReviewVersions", "spec.conversion.webhook.conversionReviewVersions"},
	} {
		if rest, ok := cutPath(path, r.from); ok {
			return []string{r.to + rest}
		}
	}
	for _, top := range [...]string{"validation", "subresources", "additionalPrinterColumns", "selectableFields"} {
		rest, ok := cutPath(path, "spec."+top)
		if !ok {
			continue
		}
		if top == "validation" {
			top = "schema"
		}
		var all []string
		for i := range versions {
			all = append(all, fmt.Sprintf("spec.versions[%d].%s%s", i, top, rest))
		}
		return all
	}
	return []string{path}
}

// V1Words rewrites the paths in the text of an error as V1Paths does; which says which of
// the versions it is about.
func V1Words(text string, which int) string {
	return strings.ReplaceAll(text, "spec.validation.openAPIV3Schema", fmt.Sprintf("spec.versions[%d].schema.openAPIV3Schema", which))
}

// cutPath cuts whole steps off the front of a path.
func cutPath(path, prefix string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, prefix)
	return rest, ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
