package jsonx

// Copy returns a deep copy of a JSON value: it is deeply equal to v and shares no maps or
// slices with it. Scalars, and values that are not JSON, are returned unchanged.
func Copy(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return CopyObject(v)
	case []any:
		if v == nil {
			return v
		}
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = Copy(x)
		}
		return out
	}
	return v
}

// CopyObject returns a deep copy of a JSON object. See Copy.
func CopyObject(m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = Copy(v)
	}
	return out
}
