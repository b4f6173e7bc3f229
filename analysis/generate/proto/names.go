package proto

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strconv"
	"strings"
)

// maxName is the length from which names of messages are shortened: a name is the path of its
// schema, and paths can be long.
const maxName = 160

// PackageName returns the Protobuf package of a version of an API group: the labels of the
// group in reverse order, and the version. Example: com.example.stable.v1.
func PackageName(group, version string) string {
	labels := strings.Split(group, ".")
	name := ""
	for i := len(labels) - 1; i >= 0; i-- {
		name += identifier(labels[i]) + "."
	}
	return name + identifier(version)
}

// identifier returns s with everything that identifiers do not allow replaced by underscores.
func identifier(s string) string {
	var b strings.Builder
	for _, r := range s {
		if isLetter(r) || isDigit(r) {
			b.WriteRune(r)
		} else {
			b.WriteByte('_')
		}
	}
	if b.Len() == 0 || isDigit(rune(b.String()[0])) {
		return "_" + b.String()
	}
	return b.String()
}

func isUpper(r rune) bool  { return 'A' <= r && r <= 'Z' }
func isLower(r rune) bool  { return 'a' <= r && r <= 'z' }
func isLetter(r rune) bool { return isUpper(r) || isLower(r) }
func isDigit(r rune) bool  { return '0' <= r && r <= '9' }

// words splits a name of JSON at characters other than ASCII letters and digits, and where an
// uppercase word starts: podCIDRBlock has the words pod, CIDR and Block.
func words(name string) (all []string) {
	runes := []rune(name)
	start := 0
	end := func(i int) {
		if i > start {
			all = append(all, string(runes[start:i]))
		}
	}
	for i, r := range runes {
		switch {
		case !isLetter(r) && !isDigit(r):
			end(i)
			start = i + 1
		case i > start && isUpper(r) && (!isUpper(runes[i-1]) || startsWord(runes[i:])):
			end(i)
			start = i
		}
	}
	end(len(runes))
	return all
}

// startsWord reports whether the first of some uppercase letters starts a word, as B in
// CIDRBlock. That of a plural does not, as R in CIDRs.
func startsWord(runes []rune) bool {
	if len(runes) < 2 || !isLower(runes[1]) {
		return false
	}
	return runes[1] != 's' || len(runes) > 2 && isLower(runes[2])
}

// fieldName returns the name of a field, in lower snake case.
func fieldName(json string) string {
	name := strings.ToLower(strings.Join(words(json), "_"))
	if name == "" || isDigit(rune(name[0])) {
		return strings.TrimSuffix("field_"+name, "_")
	}
	return name
}

// typeName returns the name of a message, or its part that stands for a field, in upper camel
// case.
func typeName(json string) string {
	var b strings.Builder
	for _, w := range words(json) {
		b.WriteString(strings.ToUpper(w[:1]) + w[1:])
	}
	if b.Len() == 0 {
		return "Field"
	}
	return b.String()
}

// joinNames returns the name of the message for a field of a message. A name that would become
// too long is replaced by the name of the kind and a hash.
func joinNames(kind, base, field string) string {
	name := base + typeName(field)
	if len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return kind + "X" + hex.EncodeToString(sum[:8])
}

// jsonName returns the json_name of a field of the schema. It is the name itself, unless it
// starts with @, as those of emptyName and unknownName do, or is not allowed.
func jsonName(name string) string {
	if strings.HasPrefix(name, "@") || strings.HasPrefix(name, "[") || strings.Contains(name, "\x00") {
		return escapedName + url.PathEscape(name)
	}
	return name
}

// propertyName returns the name in JSON of a field with the given json_name.
func propertyName(jsonName string) (string, error) {
	escaped, ok := strings.CutPrefix(jsonName, escapedName)
	if !ok {
		return jsonName, nil
	}
	return url.PathUnescape(escaped)
}

// escapedName is the prefix of json_names that are not the names themselves.
const escapedName = "@="

// collisionKey returns what must be unique among the names of the fields of a message:
// compilers reject fields whose names differ only in case and underscores, because these would
// be the same in JSON by default.
func collisionKey(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

// unique returns name, or name with the smallest number from 2 that is not taken.
func unique(name string, taken func(string) bool) string {
	candidate := name
	for i := 2; taken(candidate); i++ {
		candidate = name + "_" + strconv.Itoa(i)
	}
	return candidate
}
