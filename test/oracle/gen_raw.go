package oracle

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	kjson "sigs.k8s.io/json"
)

// encode writes a tree as JSON in which floats stay floats. Keys are sorted.
func encode(v any) []byte {
	return (&rawWriter{}).value(nil, v)
}

// encodeNoisily writes a tree as unusual JSON with the same meaning: extra spaces, escapes,
// other spellings of numbers, keys in any order and sometimes duplicated.
func (g *gen) encodeNoisily(v any) []byte {
	return (&rawWriter{g: g}).value(nil, v)
}

// rawWriter writes JSON. With g it writes noisily.
type rawWriter struct {
	g *gen
}

func (w *rawWriter) space(b []byte) []byte {
	if w.g == nil || !w.g.chance(10) {
		return b
	}
	return append(b, pick(w.g, []string{" ", "\n", "\t", "\r\n", "  "})...)
}

func (w *rawWriter) value(b []byte, v any) []byte {
	b = w.space(b)
	switch v := v.(type) {
	case nil:
		b = append(b, "null"...)
	case bool:
		b = strconv.AppendBool(b, v)
	case int64:
		b = strconv.AppendInt(b, v, 10)
	case float64:
		b = w.float(b, v)
	case string:
		b = w.str(b, v)
	case []any:
		b = append(b, '[')
		for i, x := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = w.value(b, x)
		}
		b = append(w.space(b), ']')
	case map[string]any:
		b = w.object(b, v)
	default:
		panic(fmt.Sprintf("%T is not JSON", v))
	}
	return w.space(b)
}

func (w *rawWriter) object(b []byte, v map[string]any) []byte {
	keys := sortedKeys(v)
	if w.g != nil {
		w.g.r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		if len(keys) > 0 && w.g.chance(4) {
			keys = append(keys, pick(w.g, keys))
		}
	}
	b = append(b, '{')
	for i, k := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = w.space(b)
		b = w.str(b, k)
		b = w.space(b)
		b = append(b, ':')
		x := v[k]
		if w.g != nil && w.g.chance(1) {
			x = w.g.anyValue(1)
		}
		b = w.value(b, x)
	}
	b = w.space(b)
	return append(b, '}')
}

func (w *rawWriter) float(b []byte, f float64) []byte {
	start := len(b)
	if w.g != nil && w.g.chance(50) {
		b = strconv.AppendFloat(b, f, pick(w.g, []byte("eE")), -1, 64)
	} else {
		b = strconv.AppendFloat(b, f, 'f', -1, 64)
	}
	if !strings.ContainsAny(string(b[start:]), ".eE") {
		b = append(b, ".0"...)
	}
	return b
}

func (w *rawWriter) str(b []byte, s string) []byte {
	b = append(b, '"')
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case w.g != nil && w.g.chance(4):
			if r > math.MaxUint16 {
				hi, lo := (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00
				b = fmt.Appendf(b, `\u%04x\u%04X`, hi, lo)
			} else {
				b = fmt.Appendf(b, `\u%04x`, r)
			}
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < 0x20:
			b = fmt.Appendf(b, `\u%04x`, r)
		default:
			b = append(b, s[:n]...)
		}
		s = s[n:]
	}
	return append(b, '"')
}

// scraps are pieces of JSON, good and bad, to put into a document.
var scraps = []string{
	`\ud800`, `\udc00\ud800`, `\ud83d\ude00`, `\u0000`, `\x`, `\`, `"`, "\xff", "\xc3\x28", "\xed\xa0\x80", "\xef\xbb\xbf", "\x00", "\x1f", "\x7f",
	`1e400`, `-1e400`, `1e-400`, `-0`, `-0.0`, `0.0`, `01`, `+1`, `1.`, `.5`, `1e`, `1e+`, `0x10`, `NaN`, `Infinity`, `-`, `1E5`, `1e2`, `12e-1`,
	`9223372036854775807`, `9223372036854775808`, `-9223372036854775808`, `-9223372036854775809`, `18446744073709551616`, `1.0`, `100000000000000000000000`, `0.1e1`,
	`{`, `}`, `[`, `]`, `,`, `:`, `{}`, `[]`, `null`, `nul`, `true`, `tru`, `false`, `True`, `""`, `"a"`, `"a":1,`, `,"a":1,"a":2`, `{"a":1,"a":{"a":2,"a":3}}`,
	` `, "\n", "\v", "\u00a0", `//`, `/**/`, `#`, `'a'`, `[1,]`, `{"a":1,}`, `{"a"}`, `[[[[[[[[[[]]]]]]]]]]`, `"\ud800"`, `"\ud800\u0041"`, "\"\xff\"",
}

// damage changes bytes of a document, so that it is probably no longer JSON, or has another
// meaning.
func (g *gen) damage(doc []byte) []byte {
	for range 1 + g.r.IntN(2) {
		i := g.r.IntN(len(doc) + 1)
		switch g.r.IntN(6) {
		case 0: // truncate
			doc = doc[:i]
		case 1: // drop a byte
			if i < len(doc) {
				doc = append(doc[:i:i], doc[i+1:]...)
			}
		case 2: // put something in
			doc = append(doc[:i:i], append([]byte(pick(g, scraps)), doc[i:]...)...)
		case 3: // replace a byte
			if i < len(doc) {
				doc = append(doc[:i:i], append([]byte{byte(g.r.IntN(256))}, doc[i+1:]...)...)
			}
		default: // replace a value with a scrap
			if j := valueStart(doc, i); j > 0 {
				end := j
				for end < len(doc) && doc[end] != ',' && doc[end] != '}' && doc[end] != ']' && doc[end] != '{' && doc[end] != '[' {
					end++
				}
				doc = append(doc[:j:j], append([]byte(pick(g, scraps)), doc[end:]...)...)
			}
		}
	}
	return doc
}

// valueStart returns the start of the first field value after i, or 0.
func valueStart(doc []byte, i int) int {
	for ; i < len(doc); i++ {
		if doc[i] == ':' {
			return i + 1
		}
	}
	return 0
}

// parse reads an object, or returns nil.
func parse(doc []byte) map[string]any {
	var m map[string]any
	if kjson.UnmarshalCaseSensitivePreserveInts(doc, &m) != nil {
		return nil
	}
	return m
}
