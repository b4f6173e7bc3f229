package input

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"

	"espalier.dev/internal/jsonptr"
	"espalier.dev/internal/jsonx"
)

// variable matches a variable of Flux's substitutions, also with a default, as in ${name:=value}.
// $${name} stands for ${name} itself.
var variable = regexp.MustCompile(`\$?\$\{ *([A-Za-z_][A-Za-z0-9_]*) *([-:=+?/#%,^][^}]*)?\}`)

// hasVariable reports whether a text has a variable.
func hasVariable(text string) bool { return substitute(text) != text }

// substitute replaces the variables of a text by their defaults or their names, so that equal texts
// stay equal and most are valid where a name is.
func substitute(text string) string {
	if !strings.Contains(text, "${") {
		return text
	}
	return variable.ReplaceAllStringFunc(text, func(v string) string {
		if strings.HasPrefix(v, "$$") {
			return v
		}
		parts := variable.FindStringSubmatch(v)
		for _, operator := range []string{":=", ":-", "=", "-"} {
			if value, ok := strings.CutPrefix(parts[2], operator); ok {
				return value
			}
		}
		return strings.ToLower(strings.ReplaceAll(parts[1], "_", "-"))
	})
}

// substituteDisabled is the label or annotation with which Flux substitutes nothing in an object.
var substituteDisabled = regexp.MustCompile(`"kustomize\.toolkit\.fluxcd\.io/substitute":\s*"disabled"`)

// Variables tells which values of an object have variables: Flux, clusterctl and others substitute
// them before the object is sent to an API server.
type Variables struct{ object any }

// Variables returns the variables of the object, or nil if it has none.
func (it *Item) Variables() *Variables {
	if !bytes.Contains(it.JSON, []byte("${")) || substituteDisabled.Match(it.JSON) {
		return nil
	}
	object, err := jsonx.Parse(it.JSON)
	if err != nil || !containsVariable(object) {
		return nil
	}
	return &Variables{object}
}

// At reports whether the value that a pointer names is a string with a variable, and whether it
// is an object or a list that contains one.
func (v *Variables) At(pointer string) (is, contains bool) {
	value := v.object
	for _, step := range jsonptr.Split(pointer) {
		switch container := value.(type) {
		case map[string]any:
			value = container[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(container) {
				return false, false
			}
			value = container[i]
		default:
			// The pointer is longer than the object: the value that ends it decides.
			s, ok := value.(string)
			return ok && hasVariable(s), false
		}
	}
	s, ok := value.(string)
	return ok && hasVariable(s), !ok && containsVariable(value)
}

// Substituted returns the object with other values in place of the variables, and without the
// members that pointers name. Items of lists stay, because the others would have other positions.
func (v *Variables) Substituted(without []string) ([]byte, error) {
	object := substituteAll(v.object)
	for _, pointer := range without {
		value := object
		for all := jsonptr.Split(pointer); len(all) > 0; all = all[1:] {
			switch container := value.(type) {
			case map[string]any:
				if value = container[all[0]]; len(all) == 1 {
					delete(container, all[0])
				}
			case []any:
				if i, err := strconv.Atoi(all[0]); err == nil && i >= 0 && i < len(container) {
					value = container[i]
				}
			}
		}
	}
	return jsonx.Append(nil, object)
}

// substituteAll returns a copy of a value without variables. Keys stay, because findings name them.
func substituteAll(value any) any {
	switch value := value.(type) {
	case string:
		return substitute(value)
	case map[string]any:
		all := make(map[string]any, len(value))
		for key, member := range value {
			all[key] = substituteAll(member)
		}
		return all
	case []any:
		all := make([]any, len(value))
		for i, item := range value {
			all[i] = substituteAll(item)
		}
		return all
	}
	return value
}

// containsVariable reports whether a string in a value, or a key, has a variable.
func containsVariable(value any) bool {
	switch value := value.(type) {
	case string:
		return hasVariable(value)
	case map[string]any:
		for key, member := range value {
			if hasVariable(key) || containsVariable(member) {
				return true
			}
		}
	case []any:
		for _, item := range value {
			if containsVariable(item) {
				return true
			}
		}
	}
	return false
}
