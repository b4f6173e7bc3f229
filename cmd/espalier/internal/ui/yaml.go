package ui

import (
	"fmt"
	"strconv"
	"strings"

	"espalier.dev/internal/jsonptr"
	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/yamlx"
	"espalier.dev/web/protocol"
)

// The limits of a text: its bytes, its lines, the bytes of a line, and those of a pointer. An object is smaller
// than its text: indentation makes a deep one a thousand times as large.
const (
	maxObject  = protocol.MaxText
	maxYAML    = 2 * maxObject
	maxLines   = 3000
	maxLine    = 500
	maxPointer = 2000
)

// yamlLine is a line of YAML with the pointer of the field on it.
type yamlLine struct {
	Text    string `json:"text"`
	Pointer string `json:"pointer,omitempty"`
}

// checkSize returns an error for an object that is too large to be read.
func checkSize(object []byte) error {
	if len(object) > maxObject {
		return fmt.Errorf("the object is larger than %d MiB", maxObject>>20)
	}
	return nil
}

// readableYAML returns an object as YAML. It leaves out the managed fields, which are long and of no use to users of the page.
func readableYAML(object []byte) (string, error) {
	if err := checkSize(object); err != nil {
		return "", err
	}
	value, err := jsonx.Parse(object)
	if err != nil {
		return "", err
	}
	if o, ok := value.(map[string]any); ok {
		if meta, ok := o["metadata"].(map[string]any); ok {
			delete(meta, "managedFields")
		}
	}
	if yamlx.Size(value, maxYAML) > maxYAML {
		return "", fmt.Errorf("the object is larger than %d MiB as YAML", maxYAML>>20)
	}
	text, err := yamlx.Marshal(value)
	return string(text), err
}

// yamlLines returns the lines of a text, and whether there are more.
func yamlLines(text string) (lines []yamlLine, more bool) {
	end := 0
	for line := range strings.Lines(text) {
		if len(lines) == maxLines {
			more = true
			break
		}
		end += len(line)
		lines = append(lines, yamlLine{Text: cut(strings.TrimSuffix(line, "\n"), maxLine)})
	}
	// What was written ends between two fields, so the start of it is YAML, too.
	if doc, err := yamlx.Parse([]byte(text[:end])); err == nil {
		point(doc, doc.Nodes(), "", lines)
	}
	return lines, more
}

// point adds the pointers of the fields in a node, except long ones: each line repeats the keys above it. The last
// field on a line counts: it is the innermost.
func point(doc *yamlx.Document, n *yamlx.Node, pointer string, lines []yamlLine) {
	if n == nil {
		return
	}
	for i, child := range n.Children {
		token := strconv.Itoa(i)
		if n.Kind == yamlx.Mapping {
			token = child.Key
		}
		if len(pointer)+len(token) > maxPointer {
			continue
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
