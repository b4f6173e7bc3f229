package proto

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"espalier.dev/analysis/generate"
)

// Text returns the .proto file.
func (f *File) Text() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "// %s\n\n", generate.Marker)
	fmt.Fprintf(&b, "// Version %s of the API group %s. The lock file beside this file keeps field numbers stable.\n", f.version, f.group)
	fmt.Fprintf(&b, "syntax = \"proto3\";\n\npackage %s;\n", f.pkg)
	if f.goPackage != "" {
		fmt.Fprintf(&b, "\noption go_package = %s;\n", quote(f.goPackage))
	}
	for _, m := range f.messages {
		b.WriteByte('\n')
		m.write(&b)
	}
	return b.Bytes()
}

func (m *message) write(b *bytes.Buffer) {
	writeComment(b, "", m.comment)
	fmt.Fprintf(b, "message %s {", m.name)
	if len(m.fields)+len(m.reservedNumbers) == 0 {
		b.WriteString("}\n")
		return
	}
	b.WriteByte('\n')
	indent := "  "
	if len(m.reservedNumbers) > 0 {
		numbers := make([]string, len(m.reservedNumbers))
		for i, n := range m.reservedNumbers {
			numbers[i] = strconv.Itoa(int(n))
		}
		fmt.Fprintf(b, "  reserved %s;\n", strings.Join(numbers, ", "))
	}
	if len(m.reservedNames) > 0 {
		fmt.Fprintf(b, "  reserved \"%s\";\n", strings.Join(m.reservedNames, `", "`))
	}
	isChoice := m.kind == nullableMessage || m.kind == intOrStringMessage
	if isChoice {
		fmt.Fprintf(b, "  oneof %s {\n", choiceName)
		indent = "    "
	}
	for _, f := range m.fields {
		writeComment(b, indent, f.comment)
		fmt.Fprintf(b, "%s%s %s = %d [json_name = %s];\n", indent, f.typeText(), f.name, f.number, quote(f.json))
	}
	if isChoice {
		b.WriteString("  }\n")
	}
	b.WriteString("}\n")
}

// writeComment writes a text as a comment.
func writeComment(b *bytes.Buffer, indent, text string) {
	for _, line := range generate.CommentLines(text) {
		b.WriteString(strings.TrimRight(indent+"// "+line, " ") + "\n")
	}
}

// quote returns a string literal. Bytes other than printable ASCII are escaped.
func quote(s string) string {
	b := []byte{'"'}
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c > '~':
			b = fmt.Appendf(b, "\\%03o", c)
		default:
			b = append(b, c)
		}
	}
	return string(append(b, '"'))
}
