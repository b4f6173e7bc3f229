package jsonx

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Append writes a tree of maps, slices and scalars as JSON. The text is the one of
// encoding/json, which Kubernetes writes: sorted keys, no white space, and escapes for HTML.
// Values of other types are left to encoding/json.
func Append(out []byte, v any) ([]byte, error) {
	var keys [64]string // on the stack
	w := writer{out: out, keys: keys[:0]}
	err := w.value(v)
	return w.out, err
}

// AppendCanonical is like Append. It also reports whether [IsCanonical] would report that for what it
// appends. It may report false for values that Parse never returns.
func AppendCanonical(out []byte, v any) (text []byte, canonical bool, err error) {
	var keys [64]string // on the stack
	w := writer{out: out, keys: keys[:0]}
	err = w.value(v)
	return w.out, err == nil && !w.odd, err
}

type writer struct {
	out []byte
	// keys holds the keys of the objects that are being written, the innermost last.
	keys []string
	// depth is the number of objects and arrays that are being written.
	depth int
	// odd is set if the text may not be what is written of the value that it is parsed to.
	odd bool
}

func (w *writer) value(v any) error {
	switch v := v.(type) {
	case nil:
		w.out = append(w.out, "null"...)
	case string:
		w.string(v)
	case bool:
		w.out = strconv.AppendBool(w.out, v)
	case int64:
		w.out = strconv.AppendInt(w.out, v, 10)
	case float64:
		return w.float(v)
	case map[string]any:
		return w.object(v)
	case []any:
		return w.array(v)
	default:
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		w.odd = true
		w.out = append(w.out, text...)
	}
	return nil
}

func (w *writer) object(m map[string]any) error {
	if m == nil {
		w.out = append(w.out, "null"...)
		return nil
	}
	mark := len(w.keys)
	for k := range m {
		w.keys = append(w.keys, k)
	}
	slices.Sort(w.keys[mark:])
	w.enter('{')
	for i := mark; i < mark+len(m); i++ { // deeper objects use the end of w.keys
		if i > mark {
			w.out = append(w.out, ',')
		}
		w.string(w.keys[i])
		w.out = append(w.out, ':')
		if err := w.value(m[w.keys[i]]); err != nil {
			return err
		}
	}
	w.keys = w.keys[:mark]
	w.leave('}')
	return nil
}

// enter begins an object or array.
func (w *writer) enter(bracket byte) {
	w.out = append(w.out, bracket)
	if w.depth++; w.depth > MaxDepth {
		w.odd = true // it cannot be parsed
	}
}

// leave ends an object or array.
func (w *writer) leave(bracket byte) {
	w.out = append(w.out, bracket)
	w.depth--
}

func (w *writer) array(a []any) error {
	if a == nil {
		w.out = append(w.out, "null"...)
		return nil
	}
	w.enter('[')
	for i, v := range a {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		if err := w.value(v); err != nil {
			return err
		}
	}
	w.leave(']')
	return nil
}

// float writes a number as encoding/json does, which follows ECMAScript.
func (w *writer) float(f float64) error {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return &json.UnsupportedValueError{Value: reflect.ValueOf(f), Str: strconv.FormatFloat(f, 'g', -1, 64)}
	}
	w.out = AppendFloat(w.out, f)
	w.odd = w.odd || f == 0 // zero may be negative
	return nil
}

// AppendFloat appends a finite number as encoding/json does.
func AppendFloat(out []byte, f float64) []byte {
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	out = strconv.AppendFloat(out, f, format, -1, 64)
	if n := len(out); format == 'e' && n >= 4 && out[n-4] == 'e' && (out[n-3] == '-' || out[n-3] == '+') && out[n-2] == '0' {
		out[n-2] = out[n-1]
		out = out[:n-1]
	}
	return out
}

func (w *writer) string(s string) {
	w.out = append(w.out, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if verbatim[c] {
				i++
				continue
			}
			w.out = append(w.out, s[from:i]...)
			w.out = appendEscape(w.out, c)
			i++
			from = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			w.out = append(w.out, s[from:i]...)
			w.out = append(w.out, `\ufffd`...)
			w.odd = true
			from = i + size
		case r == '\u2028' || r == '\u2029':
			w.out = append(w.out, s[from:i]...)
			w.out = append(w.out, `\u202`...)
			w.out = append(w.out, "0123456789abcdef"[r&15])
			from = i + size
		}
		i += size
	}
	w.out = append(w.out, s[from:]...)
	w.out = append(w.out, '"')
}

func appendEscape(out []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(out, '\\', c)
	case '\b':
		return append(out, '\\', 'b')
	case '\f':
		return append(out, '\\', 'f')
	case '\n':
		return append(out, '\\', 'n')
	case '\r':
		return append(out, '\\', 'r')
	case '\t':
		return append(out, '\\', 't')
	}
	return append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

// verbatim tells which ASCII characters need no escape.
var verbatim = func() (p [utf8.RuneSelf]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		p[c] = true
	}
	for _, c := range `"\<>&` {
		p[c] = false
	}
	return p
}()
