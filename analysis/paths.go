package analysis

import (
	"fmt"
	"strings"
)

// V1Paths translates the path of a validation error about a CRD to paths in a v1 document
// with the given number of versions. Validation uses an internal form with fields that all
// versions share. In v1 each version has its own copy, so one path can become several. The
// JSONPath of a column is jsonPath in v1.
func V1Paths(path string, versions int) []string {
	// A default value can have a field JSONPath as well.
	if column, ok := strings.CutSuffix(path, ".JSONPath"); ok && !strings.Contains(column, ".openAPIV3Schema.") {
		path = column + ".jsonPath"
	}
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

// V1Words translates the paths in an error text as V1Paths does. The index which selects
// the version.
func V1Words(text string, which int) string {
	return strings.ReplaceAll(text, "spec.validation.openAPIV3Schema", fmt.Sprintf("spec.versions[%d].schema.openAPIV3Schema", which))
}

// cutPath removes a prefix of whole steps from a path.
func cutPath(path, prefix string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, prefix)
	return rest, ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
