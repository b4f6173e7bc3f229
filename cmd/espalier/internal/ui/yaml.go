package ui

import (
	"strconv"
	"strings"

	"espalier.dev/internal/jsonptr"
	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/yamlx"
)

// The limits of a text: its lines, and the bytes of a line.
const (
	maxLines = 3000
	maxLine  = 500
)

// yamlLine is a line of YAML with the pointer of the field on it.
type yamlLine struct {
	Text    string `json:"text"`
	Pointer string `json:"pointer,omitempty"`
}

// readableYAML returns an object as YAML. It leaves out the managed fields, which are long and of no use to users of the page.
func readableYAML(object []byte) (string, error) {
	value, err := jsonx.Parse(object)
	if err != nil {
		return "", err
	}
	if o, ok := value.(map[string]any); ok {
		if meta, ok := o["metadata"].(map[string]any); ok {
			delete(meta, "managedFields")
		}
	}
	text, err := yamlx.Marshal(value)
	return string(text), err
}

// yamlLines returns the lines of a text, and whether there are more.
func yamlLines(text string) (lines []yamlLine, more bool) {
	all := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for _, line := range all[:min(len(all), maxLines)] {
		lines = append(lines, yamlLine{Text: cut(line, maxLine)})
	}
	if doc, err := yamlx.Parse([]byte(text)); err == nil {
		point(doc, doc.Nodes(), "", lines)
	}
	return lines, len(all) > maxLines
}

// point adds the pointers of the fields in a node. The last field on a line counts: it is the innermost.
func point(doc *yamlx.Document, n *yamlx.Node, pointer string, lines []yamlLine) {
	if n == nil {
		return
	}
	for i, child := range n.Children {
		token := strconv.Itoa(i)
		if n.Kind == yamlx.Mapping {
			token = child.Key
		}
		at := jsonptr.Child(pointer, token)
		start := child.Start
		if child.Keyed {
			start = child.KeyStart
		}
		line, _ := doc.LineColumn(start)
		if line < 1 || line > len(lines) {
			return
		}
		lines[line-1].Pointer = at
		point(doc, child, at, lines)
	}
}
