package kustomize

import (
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"espalier.dev/api"
)

// SetsWebhook reports whether a patch with the given text makes a webhook convert the objects of
// the CRD with this name.
func (p PatchSource) SetsWebhook(text, name string) bool {
	if !strings.Contains(text, "Webhook") || !p.selects(name) {
		return false
	}
	for document := range strings.SplitSeq(text, "\n---") {
		var value any
		if yaml.Unmarshal([]byte(document), &value) != nil {
			continue
		}
		if fields, ok := value.(map[string]any); ok && p.merges(fields, name) {
			return true
		}
		for _, operation := range list(value) {
			if p.Target != nil && operates(object(operation)) {
				return true
			}
		}
	}
	return false
}

// selects reports whether the target of the patch, if it has one, includes a CRD.
func (p PatchSource) selects(name string) bool {
	for field, want := range map[string]string{"kind": api.Kind, "group": api.GroupName, "name": name} {
		pattern := p.Target[field]
		if pattern == "" || pattern == want {
			continue
		}
		// Kustomize reads the fields of a target as regular expressions.
		if expression, err := regexp.Compile("^(?:" + pattern + ")$"); err != nil || !expression.MatchString(want) {
			return false
		}
	}
	return p.Target["labelSelector"] == "" && p.Target["annotationSelector"] == ""
}

// merges reports whether a strategic merge patch sets the strategy of the CRD.
func (p PatchSource) merges(fields map[string]any, name string) bool {
	if p.Target == nil && (text(fields["kind"]) != api.Kind || text(object(fields["metadata"])["name"]) != name) {
		return false
	}
	return text(object(object(fields["spec"])["conversion"])["strategy"]) == "Webhook"
}

// operates reports whether an operation of a JSON patch sets the strategy of a CRD.
func operates(fields map[string]any) bool {
	if op := text(fields["op"]); op != "add" && op != "replace" {
		return false
	}
	switch text(fields["path"]) {
	case "/spec/conversion":
		return text(object(fields["value"])["strategy"]) == "Webhook"
	case "/spec/conversion/strategy":
		return text(fields["value"]) == "Webhook"
	}
	return false
}
