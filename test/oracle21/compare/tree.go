package compare

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	kjson "sigs.k8s.io/json"
)

// tree reads JSON; integers stay integers.
func tree(data []byte) (any, error) {
	var v any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &v); err != nil {
		return nil, err
	}
	return v, nil
}

// object is tree for bytes that are known to be an object.
func object(data []byte) map[string]any {
	v, err := tree(data)
	if err != nil {
		panic(err)
	}
	return v.(map[string]any)
}

// encode writes a tree that is known to be JSON.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = clone(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = clone(x)
		}
		return out
	}
	return v
}

// diff lists where two trees differ: the path and both values.
func diff(path string, a, b any, found []string) []string {
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			keys := maps.Clone(x)
			maps.Copy(keys, y)
			for _, k := range slices.Sorted(maps.Keys(keys)) {
				vx, okx := x[k]
				vy, oky := y[k]
				switch at := path + "." + k; {
				case !okx:
					found = append(found, fmt.Sprintf("%s: reference has nothing, ours %s", at, encode(vy)))
				case !oky:
					found = append(found, fmt.Sprintf("%s: reference has %s, ours nothing", at, encode(vx)))
				default:
					found = diff(at, vx, vy, found)
				}
			}
			return found
		}
	case []any:
		if y, ok := b.([]any); ok && len(x) == len(y) {
			for i := range x {
				found = diff(fmt.Sprintf("%s[%d]", path, i), x[i], y[i], found)
			}
			return found
		}
	}
	if ja, jb := string(encode(a)), string(encode(b)); ja != jb {
		found = append(found, fmt.Sprintf("%s: reference has %s, ours %s", path, ja, jb))
	}
	return found
}
