package yamlx

import (
	"bytes"

	"espalier.dev/internal/jsonx"
)

// validJSON says whether src is one JSON value.
func validJSON(src []byte) bool {
	var r jsonx.Reader
	r.Reset(trimJSON(src))
	return r.Skip() == nil && r.End() == nil
}

// trimJSON drops what may stand around a JSON value.
func trimJSON(src []byte) []byte {
	return bytes.TrimSpace(bytes.TrimPrefix(src, bom))
}

const hex = "0123456789abcdef"

// appendString writes s as a JSON string.
func appendString[T string | []byte](out []byte, s T) []byte {
	out = append(out, '"')
	out = appendEscaped(out, s)
	return append(out, '"')
}

// appendEscaped writes what stands between the quotes of a JSON string.
func appendEscaped[T string | []byte](out []byte, s T) []byte {
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		out = append(out, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			out = append(out, '\\', c)
		case '\n':
			out = append(out, '\\', 'n')
		case '\r':
			out = append(out, '\\', 'r')
		case '\t':
			out = append(out, '\\', 't')
		default:
			out = append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(out, s[from:]...)
}
