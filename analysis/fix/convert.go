package fix

import (
	"fmt"
	"strconv"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
)

// conflict is a setting that v1beta1 states in two places. Only the author knows which one
// is intended.
type conflict struct {
	at      []string
	message string
}

// toV1 converts a v1beta1 CRD to v1, except for its schemas. It leaves a CRD with conflicts
// unchanged.
func (e *editor) toV1() []conflict {
	if found := e.conflicts(); len(found) > 0 {
		return found
	}
	e.versions()
	e.commonParts()
	e.columns()
	e.conversion()
	if e.object("spec") != nil {
		if scope, _ := e.at("spec", "scope"); scope == nil || scope == "" {
			e.set(string(api.NamespaceScoped), "spec", "scope")
		}
	}
	e.set(api.APIVersion, "apiVersion")
	return nil
}

// parts lists the fields that v1beta1 allows at the top level for all versions or in each
// version, as pairs of their names in the two places.
func parts() [][2]string {
	return [][2]string{
		{"validation", "schema"},
		{"subresources", "subresources"},
		{"additionalPrinterColumns", "additionalPrinterColumns"},
		{"selectableFields", "selectableFields"},
	}
}

func (e *editor) conflicts() (found []conflict) {
	versions := e.list("spec", "versions")
	for _, part := range parts() {
		if v, _ := e.at("spec", part[0]); v == nil {
			continue
		}
		for i := range versions {
			if v, _ := e.at("spec", "versions", strconv.Itoa(i), part[1]); v != nil {
				found = append(found, conflict{[]string{"spec", part[0]}, fmt.Sprintf(
					"is set here for all versions and as %s for version %v: keep only one of them", part[1], e.versionName(i))})
				break
			}
		}
	}
	if v, _ := e.at("spec", "version"); v != "" && v != nil && len(versions) > 0 && e.versionName(0) != v {
		found = append(found, conflict{[]string{"spec", "version"}, fmt.Sprintf(
			"differs from the first version in versions, %v: keep only one of them", e.versionName(0))})
	}
	return found
}

func (e *editor) versionName(i int) any {
	name, _ := e.at("spec", "versions", strconv.Itoa(i), "name")
	return name
}

// versions moves spec.version to an entry of spec.versions.
func (e *editor) versions() {
	version, ok := e.at("spec", "version")
	if !ok {
		return
	}
	if len(e.list("spec", "versions")) == 0 && version != "" && version != nil {
		entry := map[string]any{"name": version, "served": true, "storage": true}
		e.set([]any{entry}, "spec", "versions")
	}
	e.remove("spec", "version")
}

// commonParts moves the top-level fields that all versions share into the versions.
func (e *editor) commonParts() {
	e.draft4()
	versions := e.list("spec", "versions")
	if len(versions) == 0 {
		return
	}
	for _, part := range parts() {
		from := []string{"spec", part[0]}
		v, ok := e.at(from...)
		if !ok {
			continue
		}
		if v == nil {
			e.remove(from...)
			continue
		}
		for i := range versions {
			to := []string{"spec", "versions", strconv.Itoa(i), part[1]}
			if _, ok := e.at(to...); ok { // null, as conflicts ensures
				e.remove(to...)
			}
			if i == 0 {
				e.move(from, to)
			} else {
				e.copy(from, to)
			}
			from = to
		}
	}
}

// draft4 converts the draft-4 schema of 2017 to an OpenAPI schema. Keywords that v1 does
// not allow are removed later, with the other non-structural parts.
func (e *editor) draft4() {
	schema := e.object("spec", "validation", "jsonSchema")
	if schema == nil {
		return
	}
	at := []string{"spec", "validation", "jsonSchema"}
	e.become(inlined(schema), at...)
	if v, ok := e.at("spec", "validation", "openAPIV3Schema"); v == nil {
		if ok {
			e.remove("spec", "validation", "openAPIV3Schema")
		}
		e.rename("openAPIV3Schema", at...)
		return
	}
	// Both schemas apply, so combine them with allOf. Append to the list, so that the
	// existing pointers stay valid.
	to := []string{"spec", "validation", "openAPIV3Schema", "allOf"}
	if len(e.list(to...)) == 0 {
		e.set([]any{e.object(at...)}, to...)
	} else {
		e.set(e.object(at...), below(to, "-")...)
	}
	e.remove(at...)
}

// columns renames the path field of printer columns to its v1 name.
func (e *editor) columns() {
	for i := range e.list("spec", "versions") {
		at := []string{"spec", "versions", strconv.Itoa(i), "additionalPrinterColumns"}
		for j := range e.list(at...) {
			column := below(at, strconv.Itoa(j))
			_, old := e.at(below(column, "JSONPath")...)
			_, new := e.at(below(column, "jsonPath")...)
			if old && !new {
				e.rename("jsonPath", below(column, "JSONPath")...)
			}
		}
	}
}

// conversion moves the webhook fields into webhook.
func (e *editor) conversion() {
	conversion := []string{"spec", "conversion"}
	webhook := below(conversion, "webhook")
	for _, part := range [][2]string{{"webhookClientConfig", "clientConfig"}, {"conversionReviewVersions", "conversionReviewVersions"}} {
		from := below(conversion, part[0])
		v, ok := e.at(from...)
		switch {
		case !ok:
		case v == nil:
			e.remove(from...)
		default:
			e.move(from, below(webhook, part[1]))
		}
	}
	strategy, _ := e.at("spec", "conversion", "strategy")
	if strategy == string(api.WebhookConverter) && len(e.list("spec", "conversion", "webhook", "conversionReviewVersions")) == 0 {
		// v1beta1 defaults to this value. v1 requires the field.
		e.set([]any{v1beta1.Version}, "spec", "conversion", "webhook", "conversionReviewVersions")
	}
}
