package migrate

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// decodeTree decodes an object. Numbers keep their text.
func decodeTree(text []byte) (tree map[string]any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err = d.Decode(&tree)
	return tree, err
}

// differences appends the paths of the values in want that got does not have. Additional values
// in got, such as defaults, are no differences.
func differences(paths []string, at string, want, got any) []string {
	switch want := want.(type) {
	case map[string]any:
		have, ok := got.(map[string]any)
		if !ok {
			return append(paths, at)
		}
		for _, k := range slices.Sorted(maps.Keys(want)) {
			path := k
			if at != "" {
				path = at + "." + k
			}
			v, ok := have[k]
			if !ok {
				paths = append(paths, path)
				continue
			}
			paths = differences(paths, path, want[k], v)
		}
		return paths
	case []any:
		have, ok := got.([]any)
		if !ok || len(have) != len(want) {
			return append(paths, at)
		}
		for i := range want {
			paths = differences(paths, at+"["+strconv.Itoa(i)+"]", want[i], have[i])
		}
		return paths
	case json.Number:
		if have, ok := got.(json.Number); !ok || !sameNumber(want, have) {
			return append(paths, at)
		}
		return paths
	}
	if want != got {
		return append(paths, at)
	}
	return paths
}

// sameNumber reports whether two numbers are equal. A server may write 1.0 as 1.
func sameNumber(a, b json.Number) bool {
	x, err := a.Float64()
	y, err2 := b.Float64()
	return a == b || err == nil && err2 == nil && x == y && !isInteger(a, b)
}

// isInteger reports whether both numbers are integers, which are compared by their digits.
func isInteger(a, b json.Number) bool {
	_, err := a.Int64()
	_, err2 := b.Int64()
	return err == nil && err2 == nil
}
