package jsonx

import "math/bits"

// Strings are examined in words of eight bytes: most of a CRD is descriptions. In a mask, the highest
// bit of a byte is set if the byte has a property. Bits above the lowest one that is set may be wrong.
const (
	ones = 0x0101010101010101
	tops = 0x8080808080808080
)

// word returns the eight bytes of s at i.
func word[T string | []byte](s T, i int) uint64 {
	s = s[i : i+8]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// escapes returns the mask of the bytes that must be escaped in a string: control characters, the quote and
// the backslash.
func escapes(w uint64) uint64 {
	quote, backslash := w^ones*'"', w^ones*'\\'
	return ((w-ones*0x20)&^w | (quote-ones)&^quote | (backslash-ones)&^backslash) & tops
}

// plainEnd returns the offset of the first byte of s, from i on, that is not plain.
func plainEnd(s string, i int) int {
	for i+8 <= len(s) {
		w := word(s, i)
		if found := escapes(w) | w&tops; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
		i += 8
	}
	for i < len(s) && plain[s[i]] {
		i++
	}
	return i
}

// escapeAt returns the offset of the first byte of s, from i on, that must be escaped.
func escapeAt[T string | []byte](s T, i int) int {
	for i+8 <= len(s) {
		if found := escapes(word(s, i)); found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
		i += 8
	}
	for i < len(s) && s[i] >= 0x20 && s[i] != '"' && s[i] != '\\' {
		i++
	}
	return i
}
