package schema

// isContainer reports whether v is an object or an array.
func isContainer(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

// isScalar reports whether v is a string, a number or a boolean.
func isScalar(v any) bool {
	switch v.(type) {
	case string, int64, bool, float64:
		return true
	}
	return false
}

// Equal reports whether two JSON values are equal. Numbers of different Go types are not equal.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) || (a == nil) != (b == nil) {
			return false
		}
		for k, v := range a {
			w, ok := b[k]
			if !ok || !Equal(v, w) {
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
			if !Equal(a[i], b[i]) {
				return false
			}
		}
		return true
	}
	// Go may be unable to compare values that JSON does not have.
	return a == nil && b == nil || isScalar(b) && a == b
}
