package generate

import (
	"go/token"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// CamelCase returns a name in upper camel case: characters other than letters and digits
// separate words. Initialisms such as URL are in capitals, as Go style requires. The result
// starts with an uppercase letter.
func CamelCase(name string) string {
	var b strings.Builder
	for _, word := range words(name) {
		if upper := strings.ToUpper(word); initialisms[upper] {
			b.WriteString(upper)
			continue
		}
		r, n := utf8.DecodeRuneInString(word)
		b.WriteRune(unicode.ToUpper(r))
		b.WriteString(word[n:])
	}
	out := b.String()
	if r, _ := utf8.DecodeRuneInString(out); !unicode.IsUpper(r) {
		return "X" + out
	}
	return out
}

// isTypeName reports whether a kind is the name of its type: tools derive the kind from the name
// of a type, so it must not change.
func isTypeName(kind string) bool {
	r, _ := utf8.DecodeRuneInString(kind)
	return unicode.IsUpper(r) && token.IsIdentifier(kind)
}

// words splits a name at characters other than letters and digits, and before each uppercase
// letter that follows a lowercase letter or a digit.
func words(name string) (all []string) {
	start, last := -1, rune(0)
	for i, r := range name {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			if start >= 0 {
				all = append(all, name[start:i])
			}
			start = -1
		case start < 0:
			start = i
		case unicode.IsUpper(r) && !unicode.IsUpper(last):
			all = append(all, name[start:i])
			start = i
		}
		last = r
	}
	if start >= 0 {
		all = append(all, name[start:])
	}
	return all
}

// initialisms are the words that Go names spell in capitals.
var initialisms = map[string]bool{
	"ACL": true, "API": true, "CA": true, "CIDR": true, "CPU": true, "DNS": true, "FQDN": true, "GID": true, "GPU": true, "HTTP": true,
	"HTTPS": true, "ID": true, "IP": true, "JSON": true, "RPC": true, "SSH": true, "TCP": true, "TLS": true, "TTL": true, "UDP": true,
	"UI": true, "UID": true, "URI": true, "URL": true, "UUID": true, "VM": true, "XML": true, "YAML": true,
}

// Names hands out names that are unique within a scope.
type Names map[string]bool

// Unique returns name, or if it is taken, name with the smallest number from 2 that makes it
// unique.
func (n Names) Unique(name string) string {
	unique := name
	for i := 2; n[unique]; i++ {
		unique = name + strconv.Itoa(i)
	}
	n[unique] = true
	return unique
}
