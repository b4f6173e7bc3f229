package yamlx

// Size returns the approximate size of a value in YAML, and stops soon after the limit. Indentation counts:
// with many levels, it can be much larger than the value.
func Size(value any, limit int) int { return sizeAt(value, 0, limit) }

func sizeAt(value any, depth, limit int) (size int) {
	switch value := value.(type) {
	case map[string]any:
		for key, v := range value {
			if size > limit {
				return size
			}
			size += 2*depth + len(key) + 3 + sizeAt(v, depth+1, limit-size)
		}
	case []any:
		for _, v := range value {
			if size > limit {
				return size
			}
			size += 2*depth + 3 + sizeAt(v, depth+1, limit-size)
		}
	case string:
		return len(value) + 2
	default:
		return 8
	}
	return size
}
