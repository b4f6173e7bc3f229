package yamlx

import "espalier.dev/internal/jsonx"

// Value returns the value of a node as JSON text, with aliases and merge keys resolved. It
// returns false if the text is longer than limit or a node contains itself.
func (n *Node) Value(limit int) ([]byte, bool) {
	w := treeWriter{limit: limit}
	ok := w.value(n)
	return w.out, ok
}

// treeWriter writes the value of a tree as JSON text, with aliases and merge keys
// resolved.
type treeWriter struct {
	out          []byte
	limit, depth int
}

// value returns false when the limit is reached, because an anchor may contain itself.
func (w *treeWriter) value(n *Node) bool {
	if len(w.out) > w.limit || w.depth > maxDepth {
		return false
	}
	w.depth++
	defer func() { w.depth-- }()
	n = n.deref()
	switch n.Kind {
	case Mapping:
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
			w.out = append(jsonx.AppendString(w.out, e.Key), ':')
			if !w.value(e) {
				return false
			}
		}
		w.out = append(w.out, '}')
	case Sequence:
		w.out = append(w.out, '[')
		for i, c := range n.Children {
			if i > 0 {
				w.out = append(w.out, ',')
			}
			if !w.value(c) {
				return false
			}
		}
		w.out = append(w.out, ']')
	case Scalar:
		w.out = append(w.out, n.JSON...)
	default:
		return false
	}
	return true
}
