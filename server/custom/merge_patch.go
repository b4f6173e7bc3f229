package custom

import (
	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"espalier.dev/internal/jsonx"
)

// mergePatch applies a JSON merge patch (RFC 7386) with the result of the library of
// kube-apiserver. The library reads the rest of a text again for each level, which takes
// minutes for large values that are nested deeply.
func mergePatch(current, patch []byte) ([]byte, error) {
	doc, err := jsonx.Parse(current)
	if err != nil {
		return nil, err
	}
	p, err := jsonx.Parse(patch)
	if err != nil {
		return nil, jsonpatch.ErrBadJSONPatch
	}
	switch p := p.(type) {
	case map[string]any:
		if doc, ok := doc.(map[string]any); ok {
			mergeMaps(doc, p)
			return jsonx.Append(nil, doc)
		}
		return jsonx.Append(nil, withoutNulls(p))
	case []any:
		return jsonx.Append(nil, withoutNulls(p))
	}
	return nil, jsonpatch.ErrBadJSONPatch
}

// mergeMaps merges a patch into an object, which it changes.
func mergeMaps(doc, patch map[string]any) {
	for name, value := range patch {
		was := doc[name]
		object, isObject := was.(map[string]any)
		change, isChange := value.(map[string]any)
		switch {
		case value == nil:
			delete(doc, name)
		case isObject && isChange:
			mergeMaps(object, change)
		case isObject:
			doc[name] = value // with its nulls, as the library does it
		default:
			doc[name] = withoutNulls(value)
		}
	}
}

// withoutNulls removes the members that are null from all objects in a value, which it changes.
func withoutNulls(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, child := range v {
			if child == nil {
				delete(v, name)
			} else {
				withoutNulls(child)
			}
		}
	case []any:
		for _, item := range v {
			withoutNulls(item)
		}
	}
	return v
}
