package compare

import (
	"math/rand/v2"
)

// changed returns an object, and copies of it with a few changes: some as requests, some as
// updates of the previous one, some as read from storage.
func changed(data []byte, seed, number uint64, copies int) []ObjectRequest {
	r := rand.New(rand.NewPCG(seed, number))
	out := []ObjectRequest{{Object: data}}
	previous := data
	for range copies {
		obj := object(previous)
		for range 1 + r.IntN(3) {
			changeBelow(r, obj, "")
		}
		req := ObjectRequest{Object: encode(obj)}
		switch r.IntN(6) {
		case 0, 1:
			req.Old = previous
		case 2:
			req.FromStorage = true
		}
		out = append(out, req)
		previous = req.Object
	}
	return out
}

// changeBelow applies a random change in a container.
func changeBelow(r *rand.Rand, v any, at string) {
	switch v := v.(type) {
	case map[string]any:
		key := anyKey(r, v)
		if key == "" || at == "" && (key == "apiVersion" || key == "kind") {
			return
		}
		if isContainer(v[key]) && r.IntN(4) > 0 {
			changeBelow(r, v[key], at+"."+key)
			return
		}
		switch r.IntN(4) {
		case 0:
			delete(v, key)
		case 1:
			v["unknown"] = otherValue(r)
		default:
			v[key] = otherValue(r)
		}
	case []any:
		if len(v) == 0 {
			return
		}
		i := r.IntN(len(v))
		if isContainer(v[i]) && r.IntN(4) > 0 {
			changeBelow(r, v[i], at+"[]")
			return
		}
		v[i] = otherValue(r)
	}
}

func isContainer(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) > 0
	case []any:
		return len(v) > 0
	}
	return false
}

// otherValue returns a value that may or may not be valid.
func otherValue(r *rand.Rand) any {
	values := []any{nil, true, int64(0), int64(-7), 1.5, int64(1) << 40, "", "a", "1h", "x y", "10.0.0.1", []any{}, []any{"a", "a"},
		map[string]any{}, map[string]any{"a": "b"}, "2006-01-02T15:04:05Z"}
	return clone(values[r.IntN(len(values))])
}
