package kustomize

import (
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"espalier.dev/api"
)

// WebhookPatch is a patch that makes webhooks convert the objects of CRDs.
type WebhookPatch struct {
	// pattern selects the names of CRDs, unless it is empty, and expression is the same, anchored.
	pattern    string
	expression *regexp.Regexp
	// names are the CRDs that the patch names. It applies to all that the pattern selects if there
	// are none.
	names []string
}

// Webhook returns what a patch with the given text does to the conversion of CRDs, or nil if it
// does not make a webhook convert their objects.
func (p PatchSource) Webhook(text string) *WebhookPatch {
	if !strings.Contains(text, "Webhook") || !selects(p.Target["kind"], api.Kind) || !selects(p.Target["group"], api.GroupName) ||
		p.Target["labelSelector"] != "" || p.Target["annotationSelector"] != "" {
		return nil
	}
	w := &WebhookPatch{pattern: p.Target["name"]}
	var err error
	if w.expression, err = anchored(w.pattern); err != nil {
		return nil
	}
	for document := range strings.SplitSeq(text, "\n---") {
		var value any
		if yaml.Unmarshal([]byte(document), &value) != nil {
			continue
		}
		fields, _ := value.(map[string]any)
		merges := textOf(fields, "spec", "conversion", "strategy") == "Webhook"
		switch {
		case p.Target != nil && (merges || slices.ContainsFunc(list(value), func(operation any) bool { return operates(object(operation)) })):
			return w
		case p.Target == nil && merges && textOf(fields, "kind") == api.Kind:
			w.names = append(w.names, textOf(fields, "metadata", "name"))
		}
	}
	if len(w.names) == 0 {
		return nil
	}
	return w
}

// Converts reports whether the patch applies to the CRD with this name.
func (w *WebhookPatch) Converts(name string) bool {
	if w.names != nil {
		return slices.Contains(w.names, name)
	}
	return w.pattern == "" || w.expression.MatchString(name)
}

// anchored compiles a field of a target, which kustomize reads as a regular expression.
func anchored(pattern string) (*regexp.Regexp, error) { return regexp.Compile("^(?:" + pattern + ")$") }

// selects reports whether a field of a target, if it is set, matches a value.
func selects(pattern, value string) bool {
	if pattern == "" {
		return true
	}
	expression, err := anchored(pattern)
	return err == nil && expression.MatchString(value)
}

// textOf returns the text at a path, or "".
func textOf(fields map[string]any, path ...string) string {
	for _, name := range path[:len(path)-1] {
		fields = object(fields[name])
	}
	return text(fields[path[len(path)-1]])
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
