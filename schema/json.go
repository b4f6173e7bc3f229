package schema

// isContainer reports whether v is an object or an array.
func isContainer(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

// isScalar reports whether v is a value without parts, and not null.
func isScalar(v any) bool {
	switch v.(type) {
	case string, int64, bool, float64:
		return true
	}
	return false
}

// equalJSON reports whether two JSON values are the same, numbers of different Go
// types being different.
func equalJSON(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) || (a == nil) != (b == nil) {
			return false
		}
		for k, v := range a {
			w, ok := b[k]
			if !ok || !equalJSON(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) || (a == nil) != (b == nil) {
			return false
		}
		for i := range a {
			if !equalJSON(a[i], b[i]) {
				return false
			}
		}
		return true
	}
	// What JSON does not have, Go may be unable to compare.
	return a == nil && b == nil || isScalar(b) && a == b
}
