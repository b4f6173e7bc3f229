package fields

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
)

// form is the form of a value.
type form int

const (
	null form = iota
	aScalar
	aList
	aMap
)

func formOf(v any) form {
	switch v.(type) {
	case nil:
		return null
	case map[string]any:
		return aMap
	case []any:
		return aList
	}
	return aScalar
}

// valid reports whether a value has a type, and whether it is simple enough to be merged
// here: no duplicate items, and no item whose key is not simple.
func (t *typ) valid(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		if t.fields == nil {
			return false
		}
		for name, child := range v {
			if f := t.fields.field(name); f == nil || !f.valid(child) {
				return false
			}
		}
		return true
	case []any:
		if t.items == nil {
			return false
		}
		if !t.items.atomic {
			if _, ok := t.items.keysOf(v); !ok {
				return false
			}
		}
		for _, item := range v {
			if !t.items.element.valid(item) {
				return false
			}
		}
		return true
	}
	return t.validScalar(v)
}

func (t *typ) validScalar(v any) bool {
	switch v.(type) {
	case string:
		return t.scalar == smd.String || t.scalar == smd.Untyped
	case bool:
		return t.scalar == smd.Boolean || t.scalar == smd.Untyped
	case int64, float64:
		return t.scalar == smd.Numeric || t.scalar == smd.Untyped
	}
	return false
}

// keysOf returns the serialized path elements of the items of a set or a map. It returns false
// if they are not unique, or not simple.
func (l *typList) keysOf(items []any) ([]string, bool) {
	keys := make([]string, len(items))
	for i, item := range items {
		var ok bool
		if keys[i], ok = l.keyOf(item); !ok {
			return nil, false
		}
	}
	const few = 8
	if len(keys) <= few {
		for i := range keys {
			if slices.Contains(keys[:i], keys[i]) {
				return nil, false
			}
		}
		return keys, true
	}
	seen := make(map[string]struct{}, len(keys))
	for _, k := range keys {
		if _, ok := seen[k]; ok {
			return nil, false
		}
		seen[k] = struct{}{}
	}
	return keys, true
}

// keyOf returns the serialized path element of an item, and false if it is not simple.
func (l *typList) keyOf(item any) (string, bool) {
	var text [64]byte
	if len(l.keys) == 0 {
		b, ok := appendSimple(append(text[:0], "v:"...), item)
		return string(b), ok
	}
	m, ok := item.(map[string]any)
	if !ok || l.element.fields == nil {
		return "", false
	}
	b := append(text[:0], "k:{"...)
	start := len(b)
	for i, name := range l.keys {
		v, ok := m[name]
		if !ok {
			if v = l.defaults[i]; v == nil {
				continue // the item is a different one than with the field
			}
		}
		if len(b) > start {
			b = append(b, ',')
		}
		if b, ok = appendSimple(b, name); !ok {
			return "", false
		}
		b = append(b, ':')
		if b, ok = appendSimple(b, v); !ok {
			return "", false
		}
	}
	if len(b) == start {
		return "", false
	}
	return string(append(b, '}')), true
}

// maxSimple bounds the integers that remain the same when they are read as floating-point
// numbers, as those in managedFields are.
const maxSimple = 1e15

// appendSimple appends a scalar as JSON, and returns false if its text is not the only
// possible one.
func appendSimple(b []byte, v any) ([]byte, bool) {
	switch v := v.(type) {
	case string:
		if !simpleText(v) {
			return b, false
		}
		b = append(b, '"')
		b = append(b, v...)
		return append(b, '"'), true
	case bool:
		return strconv.AppendBool(b, v), true
	case int64:
		return strconv.AppendInt(b, v, 10), -maxSimple < v && v < maxSimple
	}
	return b, false
}

// simpleText reports whether a string needs no escapes in JSON.
func simpleText(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ', c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}

// simpleKey reports whether the serialized path element of an item is in its only form, as
// key returns it.
func simpleKey(s string) bool {
	if rest, ok := strings.CutPrefix(s, "v:"); ok {
		rest, ok = cutSimple(rest)
		return ok && rest == ""
	}
	rest, ok := strings.CutPrefix(s, "k:{")
	for last := ""; ok; {
		start := rest
		if rest, ok = cutSimple(rest); !ok || start[0] != '"' {
			return false
		}
		name := start[:len(start)-len(rest)]
		if name <= last {
			return false
		}
		last = name
		if rest, ok = strings.CutPrefix(rest, ":"); !ok {
			return false
		}
		if rest, ok = cutSimple(rest); !ok {
			return false
		}
		if rest == "}" {
			return true
		}
		rest, ok = strings.CutPrefix(rest, ",")
	}
	return false
}

// cutSimple cuts a scalar that appendSimple could have written off the start of s.
func cutSimple(s string) (rest string, ok bool) {
	switch {
	case strings.HasPrefix(s, `"`):
		end := strings.IndexByte(s[1:], '"') + 1
		return s[end+1:], end > 0 && simpleText(s[1:end])
	case strings.HasPrefix(s, "true"):
		return s[len("true"):], true
	case strings.HasPrefix(s, "false"):
		return s[len("false"):], true
	}
	end := 0
	for end < len(s) && (s[end] >= '0' && s[end] <= '9' || end == 0 && s[end] == '-') {
		end++
	}
	n, err := strconv.ParseInt(s[:end], 10, 64)
	return s[end:], err == nil && -maxSimple < n && n < maxSimple && strconv.FormatInt(n, 10) == s[:end]
}

// equal reports whether two values are equal. Numbers are compared by their values.
func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		if sameMemory(a, b) {
			return true
		}
		for name, x := range a {
			if y, ok := b[name]; !ok || !equal(x, y) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	case int64:
		if b, ok := b.(float64); ok {
			return float64(a) == b
		}
	case float64:
		if b, ok := b.(int64); ok {
			return a == float64(b)
		}
	}
	if formOf(b) >= aList {
		return false // not comparable with ==
	}
	return a == b
}

// sameMemory reports whether two maps are the same.
func sameMemory(a, b map[string]any) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer()
}
