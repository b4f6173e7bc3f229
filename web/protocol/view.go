package protocol

import (
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/analysis/object"
	"espalier.dev/internal/jsonptr"
	"espalier.dev/internal/yamledit"
	"espalier.dev/internal/yamlx"
)

// maxLines is the maximum number of lines of a view, maxView that of its bytes, and maxIndent that of the
// blanks before a line.
const (
	maxLines  = 20000
	maxView   = 8 << 20
	maxIndent = 400
)

// maxScalar is the maximum length of a scalar in a view.
const maxScalar = 2000

// Mark says how a line differs between the object that was sent and the stored one.
type Mark string

// The marks of lines. A line without one is in both.
const (
	// Pruned is a line that is not stored.
	Pruned Mark = "pruned"
	// Defaulted is a line that a default of the schema adds.
	Defaulted Mark = "defaulted"
	// Added is a line that the API server adds for another reason.
	Added Mark = "added"
)

// Line is a line of the stored object in YAML, or of what was removed from it.
type Line struct {
	Text string `json:"text"`
	Mark Mark   `json:"mark,omitempty"`
	// Reason says why a part was removed or added. It is on its first line.
	Reason string `json:"reason,omitempty"`
	// Range is the position in the text of the objects, for lines that come from there.
	Range *Range `json:"range,omitempty"`
	// Schema is the schema that decides about it.
	Schema *Place `json:"schema,omitempty"`
}

// view writes the sent and the stored object as one text.
type view struct {
	ctx     context.Context
	item    *item
	reasons map[string]*analysis.Finding
	lines   []Line
	// size is that of the lines in JSON, approximately.
	size int
}

// full reports whether nothing more is shown.
func (v *view) full() bool {
	return len(v.lines) >= maxLines || v.size >= maxView || v.ctx.Err() != nil
}

// frame is what precedes a value on its line.
type frame struct {
	indent int
	// prefix is the key with its colon, or dashes.
	prefix string
	mark   Mark
}

// nodeOf returns the node of an object, or nil.
func nodeOf(it *item) *yamlx.Node { return it.node() }

// value writes a value that was given, is stored, or both.
func (v *view) value(pointer string, given any, isGiven bool, stored any, isStored bool, node *yamlx.Node, f frame) {
	if v.full() {
		return
	}
	switch {
	case isGiven && isStored:
		if v.both(pointer, given, stored, node, f) {
			return
		}
		if !reflect.DeepEqual(given, stored) {
			v.one(pointer, given, node, f.with(Pruned))
			v.one(pointer, stored, nil, f.afterDashes().with(v.addition(pointer)))
			return
		}
		v.one(pointer, stored, node, f)
	case isGiven:
		v.one(pointer, given, node, f.with(Pruned))
	case isStored:
		v.one(pointer, stored, nil, f.with(v.addition(pointer)))
	}
}

func (f frame) with(m Mark) frame {
	if f.mark == "" {
		f.mark = m
	}
	return f
}

// addition returns the mark of something that the API server adds.
func (v *view) addition(pointer string) Mark {
	for p := pointer; ; p = jsonptr.Parent(p) {
		if r := v.reasons[p]; r != nil {
			if r.Rule == object.RuleDefaulted {
				return Defaulted
			}
			return Added
		}
		if p == "" {
			return Added
		}
	}
}

// both writes two mappings or two lists of the same length. It reports false for other values.
func (v *view) both(pointer string, given, stored any, node *yamlx.Node, f frame) bool {
	switch given := given.(type) {
	case map[string]any:
		stored, ok := stored.(map[string]any)
		if !ok || len(given) == 0 && len(stored) == 0 {
			return false
		}
		inner := v.open(pointer, node, f)
		for i, key := range v.order(node, given, stored) {
			g, inGiven := given[key]
			s, inStored := stored[key]
			v.value(jsonptr.Child(pointer, key), g, inGiven, s, inStored, entry(node, key), inner.entry(i, key))
		}
		return true
	case []any:
		stored, ok := stored.([]any)
		if !ok || len(given) != len(stored) || len(given) == 0 {
			return false
		}
		inner := v.open(pointer, node, f)
		for i := range given {
			v.value(jsonptr.Child(pointer, strconv.Itoa(i)), given[i], true, stored[i], true, child(node, i), inner.item(i))
		}
		return true
	}
	return false
}

// one writes a value that is only given or only stored, or the same in both.
func (v *view) one(pointer string, value any, node *yamlx.Node, f frame) {
	if v.full() {
		return
	}
	switch value := value.(type) {
	case map[string]any:
		if len(value) == 0 {
			v.line(pointer, f, "{}", node)
			return
		}
		inner := v.open(pointer, node, f)
		for i, key := range v.order(node, value, nil) {
			v.one(jsonptr.Child(pointer, key), value[key], entry(node, key), inner.entry(i, key))
		}
	case []any:
		if len(value) == 0 {
			v.line(pointer, f, "[]", node)
			return
		}
		inner := v.open(pointer, node, f)
		for i, item := range value {
			v.one(jsonptr.Child(pointer, strconv.Itoa(i)), item, child(node, i), inner.item(i))
		}
	case string:
		if len(value) > maxScalar {
			value = strings.ToValidUTF8(value[:maxScalar], "") + "…"
		}
		v.line(pointer, f, yamledit.ScalarText(value, false), node)
	default:
		text, err := json.Marshal(value)
		if err != nil {
			text = []byte("null")
		}
		v.line(pointer, f, string(text), node)
	}
}

// open writes the line of a collection up to its first entry, and returns the frame of the entries.
func (v *view) open(pointer string, node *yamlx.Node, f frame) frame {
	inner := frame{indent: f.indent, mark: f.mark}
	switch {
	case f.prefix == "":
	case strings.HasSuffix(f.prefix, "- "): // the first entry is on the line of the dash
		inner.prefix = f.prefix
		if r := v.reasons[pointer]; r != nil && f.mark != "" {
			v.line(pointer, frame{f.indent, strings.TrimSuffix(f.prefix, " "), f.mark}, "", node)
			inner.prefix, inner.indent = "", f.indent+2
		}
	default:
		v.line(pointer, frame{f.indent, strings.TrimSuffix(f.prefix, " "), f.mark}, "", node)
		inner.indent = f.afterDashes().indent + 2
	}
	return inner
}

// afterDashes returns the frame of a second line for the same value, which has no dashes.
func (f frame) afterDashes() frame {
	for strings.HasPrefix(f.prefix, "- ") {
		f.prefix, f.indent = f.prefix[2:], f.indent+2
	}
	return f
}

// entry returns the frame of an entry of a mapping. The first entry of an item is on the line of its
// dash.
func (f frame) entry(i int, key string) frame { return f.part(i, yamledit.ScalarText(key, false)+": ") }

// item returns the frame of an item of a list.
func (f frame) item(i int) frame { return f.part(i, "- ") }

func (f frame) part(i int, prefix string) frame {
	if i > 0 {
		return frame{f.indent + len(f.prefix), prefix, f.mark}
	}
	return frame{f.indent, f.prefix + prefix, f.mark}
}

// line writes a line.
func (v *view) line(pointer string, f frame, text string, node *yamlx.Node) {
	if v.full() {
		return
	}
	l := Line{Text: strings.TrimRight(strings.Repeat(" ", min(f.indent, maxIndent))+f.prefix+text, " "), Mark: f.mark}
	if r := v.reasons[pointer]; r != nil && f.mark != "" {
		l.Reason, l.Schema = r.Message, place(r.Schema)
	}
	if node != nil && f.mark != Defaulted && f.mark != Added {
		base := int(v.item.doc.Offset())
		start, end := node.Start, node.Start
		if node.Keyed {
			start, end = node.KeyStart, node.KeyEnd
		}
		l.Range = v.item.text.span(base+start, base+end)
	}
	v.size += len(l.Text) + len(l.Reason) + 100
	v.lines = append(v.lines, l)
}

// order returns the keys of a mapping in the order of the text, followed by those that are only
// stored.
func (v *view) order(node *yamlx.Node, given, stored map[string]any) (keys []string) {
	seen := map[string]bool{}
	if node != nil && node.Kind == yamlx.Mapping {
		for _, c := range node.Children {
			if _, ok := given[c.Key]; ok && !seen[c.Key] && !c.Merge {
				seen[c.Key] = true
				keys = append(keys, c.Key)
			}
		}
	}
	for _, from := range []map[string]any{given, stored} {
		for _, key := range slices.Sorted(maps.Keys(from)) {
			if !seen[key] {
				seen[key] = true
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// entry returns the node of an entry, or nil.
func entry(n *yamlx.Node, key string) *yamlx.Node {
	if n == nil || n.Kind != yamlx.Mapping {
		return nil
	}
	return n.Entry(key)
}

// child returns the node of an item, or nil.
func child(n *yamlx.Node, i int) *yamlx.Node {
	if n == nil || n.Kind != yamlx.Sequence || i >= len(n.Children) {
		return nil
	}
	return n.Children[i]
}
