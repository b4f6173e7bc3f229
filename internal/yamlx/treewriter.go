package yamlx

import "espalier.dev/internal/jsonx"

// treeWriter writes the value of a tree as JSON text, with aliases and merge keys
// resolved.
type treeWriter struct {
	out          []byte
	limit, depth int
}

// value returns false when a limit is reached: an anchor may hold itself.
func (w *treeWriter) value(n *node) bool {
	if len(w.out) > w.limit || w.depth > maxDepth {
		return false
	}
	w.depth++
	defer func() { w.depth-- }()
	n = n.deref()
	switch n.kind {
	case mapping:
		merges := maxMerges
		entries, ok := n.entries(&merges)
		if !ok {
			return false
		}
		w.out = append(w.out, '{')
		for i, e := range entries {
			if i > 0 {
				w.out = append(w.out, ',')
			}
			w.out = append(jsonx.AppendString(w.out, e.key), ':')
			if !w.value(e) {
				return false
			}
		}
		w.out = append(w.out, '}')
	case sequence:
		w.out = append(w.out, '[')
		for i, c := range n.children {
			if i > 0 {
				w.out = append(w.out, ',')
			}
			if !w.value(c) {
				return false
			}
		}
		w.out = append(w.out, ']')
	case scalar:
		w.out = append(w.out, n.json...)
	default:
		return false
	}
	return true
}
