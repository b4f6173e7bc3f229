package timeline

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"espalier.dev/internal/textdiff"
	"espalier.dev/internal/yamlx"
)

// DiffOptions configures [Diff]. The zero value is for reading.
type DiffOptions struct {
	// ManagedFields also compares metadata.managedFields and metadata.resourceVersion, which every
	// change changes.
	ManagedFields bool
	// Secrets shows the data of Secrets instead of masking it.
	Secrets bool
}

// Diff compares two versions of an object field by field. The result is YAML: lines that begin with
// "-" and "+" are removed and added, and others are the fields and list elements around them. It has
// no fields that are equal. Elements of lists are compared with those of the same name, type or
// key, or else with those at the same place. Either object may be nil, and all of the other is
// then added or removed. It is empty if nothing has changed.
func Diff(before, after *unstructured.Unstructured, o DiffOptions) string {
	if !o.Secrets {
		m := NewMasker()
		before, after = m.Object(before), m.Object(after)
	}
	d := differ{}
	d.fields(0, o.fields(before), o.fields(after))
	return d.out.String()
}

// fields returns the fields of an object to compare.
func (o DiffOptions) fields(obj *unstructured.Unstructured) map[string]any {
	if obj == nil {
		return nil
	}
	metadata, ok := obj.Object["metadata"].(map[string]any)
	if o.ManagedFields || !ok {
		return obj.Object
	}
	out, shown := maps.Clone(obj.Object), maps.Clone(metadata)
	delete(shown, "managedFields")
	delete(shown, "resourceVersion")
	out["metadata"] = shown
	return out
}

// differ writes a diff.
type differ struct{ out strings.Builder }

// The beginnings of lines.
const (
	around  = ' '
	removed = '-'
	added   = '+'
)

// line writes a line. If it has no text, it has no spaces at the end.
func (d *differ) line(mark byte, indent int, text string) {
	line := string(mark) + " " + strings.Repeat(" ", indent) + text
	if text == "" {
		line = strings.TrimRight(line, " ")
	}
	d.out.WriteString(line + "\n")
}

// yaml writes a value as YAML.
func (d *differ) yaml(mark byte, indent int, v any) {
	text, err := yamlx.Marshal(v)
	if err != nil {
		text = []byte(fmt.Sprint(v)) // a value that is no JSON
	}
	for line := range strings.Lines(string(text)) {
		d.line(mark, indent, strings.TrimSuffix(line, "\n"))
	}
}

// below writes a header, and what f writes, unless that is nothing.
func (d *differ) below(indent int, header string, f func(inner *differ)) {
	var inner differ
	if f(&inner); inner.out.Len() > 0 {
		d.line(around, indent, header)
		d.out.WriteString(inner.out.String())
	}
}

// fields compares objects.
func (d *differ) fields(indent int, before, after map[string]any) {
	names := slices.Sorted(maps.Keys(before))
	for name := range after {
		if _, ok := before[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		old, had := before[name]
		now, has := after[name]
		switch {
		case !had:
			d.yaml(added, indent, map[string]any{name: now})
		case !has:
			d.yaml(removed, indent, map[string]any{name: old})
		default:
			d.field(indent, name, old, now)
		}
	}
}

// field compares the values of a field.
func (d *differ) field(indent int, name string, old, now any) {
	switch old := old.(type) {
	case map[string]any:
		if now, ok := now.(map[string]any); ok && len(old) > 0 && len(now) > 0 {
			d.below(indent, header(name), func(inner *differ) { inner.fields(indent+2, old, now) })
			return
		}
	case []any:
		if now, ok := now.([]any); ok && len(old) > 0 && len(now) > 0 {
			d.below(indent, header(name), func(inner *differ) { inner.list(indent, old, now) })
			return
		}
	case string:
		if now, ok := now.(string); ok && old != now && strings.Count(old, "\n") > 2 && strings.Count(now, "\n") > 2 {
			d.below(indent, header(name)+" |", func(inner *differ) { inner.text(indent+2, old, now) })
			return
		}
	}
	if !reflect.DeepEqual(old, now) {
		d.yaml(removed, indent, map[string]any{name: old})
		d.yaml(added, indent, map[string]any{name: now})
	}
}

// header returns the line above the value of a field.
func header(name string) string {
	text, err := yamlx.Marshal(map[string]any{name: nil})
	if err != nil {
		return name + ":"
	}
	return strings.TrimSuffix(strings.TrimSpace(string(text)), " null")
}

// entry returns a field and its value, a scalar, on one line.
func entry(name string, value any) string {
	text, err := yamlx.Marshal(map[string]any{name: value})
	if line := strings.TrimSuffix(string(text), "\n"); err == nil && !strings.Contains(line, "\n") {
		return line
	}
	return header(name) + " " + strconv.Quote(fmt.Sprint(value))
}

// text compares texts of several lines.
func (d *differ) text(indent int, old, now string) {
	for i, hunk := range textdiff.Hunks([]byte(old), []byte(now), 2) {
		if i > 0 {
			d.line(around, indent, "…")
		}
		for _, l := range hunk.Lines {
			text, ended := strings.CutSuffix(string(l.Text), "\n")
			d.line(byte(l.Op), indent, text)
			if !ended {
				d.line(around, indent, `\ no line break at the end`)
			}
		}
	}
}

// list compares lists.
func (d *differ) list(indent int, old, now []any) {
	if key := keyOf(old, now); key != "" {
		d.keyed(indent, key, old, now)
		return
	}
	// Elements at the beginning and at the end that are equal are the same.
	start := 0
	for start < min(len(old), len(now)) && reflect.DeepEqual(old[start], now[start]) {
		start++
	}
	end := 0
	for end < min(len(old), len(now))-start && reflect.DeepEqual(old[len(old)-1-end], now[len(now)-1-end]) {
		end++
	}
	for i := start; i < max(len(old), len(now))-end; i++ {
		hasOld, hasNow := i < len(old)-end, i < len(now)-end
		if hasOld && hasNow {
			before, ok := old[i].(map[string]any)
			after, both := now[i].(map[string]any)
			if ok && both {
				d.below(indent, fmt.Sprintf("- # element %d", i), func(inner *differ) { inner.fields(indent+2, before, after) })
				continue
			}
		}
		if hasOld {
			d.yaml(removed, indent, []any{old[i]})
		}
		if hasNow {
			d.yaml(added, indent, []any{now[i]})
		}
	}
}

// keyed compares lists whose elements are identified by a field.
func (d *differ) keyed(indent int, key string, old, now []any) {
	before := map[any]map[string]any{}
	for _, e := range old {
		before[e.(map[string]any)[key]] = e.(map[string]any)
	}
	after := map[any]bool{}
	for _, e := range now {
		after[e.(map[string]any)[key]] = true
	}
	for _, e := range old {
		if !after[e.(map[string]any)[key]] {
			d.yaml(removed, indent, []any{e})
		}
	}
	for _, e := range now {
		e := e.(map[string]any)
		was, ok := before[e[key]]
		if !ok {
			d.yaml(added, indent, []any{e})
			continue
		}
		d.below(indent, "- "+entry(key, e[key]), func(inner *differ) { inner.fields(indent+2, was, e) })
	}
}

// keyOf returns a field that identifies the elements of two lists, or nothing. Elements that are
// in both lists have the same order.
func keyOf(old, now []any) string {
	for _, key := range []string{"name", "type", "key", "uid", "containerPort", "port", "id", "ip"} {
		if a, ok := valuesOf(key, old); ok {
			if b, ok := valuesOf(key, now); ok && sameOrder(a, b) {
				return key
			}
		}
	}
	return ""
}

// valuesOf returns the values of a field of all elements, and reports whether all have it, and
// different ones.
func valuesOf(key string, list []any) (values []any, ok bool) {
	seen := map[any]bool{}
	for _, e := range list {
		m, ok := e.(map[string]any)
		if !ok {
			return nil, false
		}
		switch v := m[key].(type) {
		case string, int64, float64:
			if seen[v] {
				return nil, false
			}
			seen[v] = true
			values = append(values, v)
		default:
			return nil, false
		}
	}
	return values, true
}

// sameOrder reports whether the values that are in both lists have the same order.
func sameOrder(a, b []any) bool {
	place := make(map[any]int, len(a))
	for i, v := range a {
		place[v] = i
	}
	last := -1
	for _, v := range b {
		if i, ok := place[v]; ok {
			if i < last {
				return false
			}
			last = i
		}
	}
	return true
}
