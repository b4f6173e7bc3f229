package jsonx

import (
	"unicode/utf16"
	"unicode/utf8"
)

// plain marks the bytes that need no escape in a string: printable ASCII except the quote and
// the backslash.
var plain = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// String reads the string whose opening quote is next. Invalid UTF-8 and unpaired surrogates
// become U+FFFD.
func (r *Reader) String() (string, error) {
	start := r.pos + 1
	i := plainEnd(r.src, start)
	if i < len(r.src) && r.src[i] == '"' {
		r.pos = i + 1
		return r.src[start:i], nil
	}
	return r.oddString(start, i, true)
}

// skipString is String without its result.
func (r *Reader) skipString() error {
	start := r.pos + 1
	i := plainEnd(r.src, start)
	if i < len(r.src) && r.src[i] == '"' {
		r.pos = i + 1
		return nil
	}
	_, err := r.oddString(start, i, false)
	return err
}

// oddString reads a string that has escapes or bytes beyond ASCII; the bytes from start to i
// are known to be plain. Without build it returns no text.
func (r *Reader) oddString(start, i int, build bool) (string, error) {
	s := r.src
	escaped, ascii := false, true
	for {
		if i >= len(s) {
			r.pos = i
			return "", r.unexpected("in a string")
		}
		c := s[i]
		switch {
		case c == '"':
			r.pos = i + 1
			text := s[start:i]
			switch {
			case !build:
				return "", nil
			case escaped:
				return unescape(text), nil
			case ascii || utf8.ValidString(text):
				return text, nil
			}
			return string([]rune(text)), nil
		case c == '\\':
			escaped = true
			n := escapeLen(s[i:])
			if n == 0 {
				r.pos = i
				return "", r.fail("invalid escape in a string")
			}
			i += n
		case c < 0x20:
			r.pos = i
			return "", r.unexpected("in a string: control characters must be escaped")
		case c >= utf8.RuneSelf:
			ascii = false
			i++
		default:
			i = plainEnd(s, i)
		}
	}
}

// escapeLen returns the length of the escape at the start of s, or 0 if there is none.
func escapeLen(s string) int {
	if len(s) < 2 {
		return 0
	}
	switch s[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := hex4(s); ok {
			return 6
		}
	}
	return 0
}

// hex4 reads the four hexadecimal digits of the \u escape at the start of s.
func hex4(s string) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	var u rune
	for _, c := range []byte(s[2:6]) {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		u = u<<4 | rune(c)
	}
	return u, true
}

// unescape resolves the escapes of a string that is known to be well-formed.
func unescape(s string) string {
	b := make([]byte, 0, len(s)+2*utf8.UTFMax)
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '\\' && s[i+1] == 'u':
			u, _ := hex4(s[i:])
			i += 6
			if utf16.IsSurrogate(u) {
				low, _ := hex4(s[i:])
				if pair := utf16.DecodeRune(u, low); pair != utf8.RuneError {
					i += 6
					b = utf8.AppendRune(b, pair)
					continue
				}
				u = utf8.RuneError
			}
			b = utf8.AppendRune(b, u)
		case c == '\\':
			b = append(b, unescaped(s[i+1]))
			i += 2
		case c < utf8.RuneSelf:
			b = append(b, c)
			i++
		default:
			u, size := utf8.DecodeRuneInString(s[i:])
			b = utf8.AppendRune(b, u)
			i += size
		}
	}
	return string(b)
}

func unescaped(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

// Unquote returns the value of a JSON string, as String does.
func Unquote(text []byte) (string, error) {
	var r Reader
	r.Reset(text)
	if r.Peek() != '"' {
		return "", r.unexpected("where a string is expected")
	}
	s, err := r.String()
	if err != nil {
		return "", err
	}
	return s, r.End()
}

// AppendString writes s as a JSON string.
func AppendString[T string | []byte](out []byte, s T) []byte {
	out = append(out, '"')
	out = AppendEscaped(out, s)
	return append(out, '"')
}

// AppendEscaped writes s as it is written between the quotes of a JSON string.
func AppendEscaped[T string | []byte](out []byte, s T) []byte {
	const hex = "0123456789abcdef"
	from := 0
	for i := escapeAt(s, 0); i < len(s); i = escapeAt(s, i+1) {
		c := s[i]
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

// Excerpt returns a text for a message, which it truncates if it is long.
func Excerpt(text []byte) string {
	const most = 60
	if runes := []rune(string(text)); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return string(text)
}
