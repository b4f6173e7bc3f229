package yamlx

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	yamlv2 "go.yaml.in/yaml/v2"
	yamlv3 "go.yaml.in/yaml/v3"
)

// unmarshal reads src with the library that sigs.k8s.io/yaml uses, and turns what
// it panics with into an error.
func unmarshal(src []byte) (v any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: %v", p)
		}
	}()
	err = yamlv2.Unmarshal(src, &v)
	return v, err
}

// slowJSON returns the document's value as the library reads it.
func (d *Document) slowJSON() ([]byte, error) {
	v, err := unmarshal(d.src)
	if err != nil {
		return nil, d.libraryError(err)
	}
	w := valueWriter{limit: d.o.MaxExpanded}
	if err := w.value(v); err != nil {
		return nil, d.errorAt(d.start(), "%v", err)
	}
	return w.out, nil
}

var lineOfError = regexp.MustCompile(`^(?:yaml: )?(?:unmarshal errors:\n  )?(?:line (\d+): )?`)

// libraryError says in our form what the library says in its own.
func (d *Document) libraryError(err error) *Error {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	var te *yamlv2.TypeError
	if errors.As(err, &te) && len(te.Errors) > 0 {
		msg = te.Errors[0]
	}
	e := d.errorAt(d.start(), "")
	if m := lineOfError.FindStringSubmatch(msg); m != nil {
		msg = msg[len(m[0]):]
		if n, err := strconv.Atoi(m[1]); err == nil {
			e.Line, e.Column = d.line+n-1, 1
		}
	}
	e.Message = msg
	return e
}

// errExpanded is what an alias bomb is answered with.
func errExpanded(limit int) error {
	return fmt.Errorf("aliases expand the document to more than %d bytes, the limit", limit)
}

// valueWriter writes what the library made of a document as JSON text.
type valueWriter struct {
	out   []byte
	limit int
}

func (w *valueWriter) value(v any) error {
	if len(w.out) > w.limit {
		return errExpanded(w.limit)
	}
	switch v := v.(type) {
	case map[any]any:
		w.out = append(w.out, '{')
		sep := false
		for k, v := range v {
			key, err := keyString(k)
			if err != nil {
				return err
			}
			if sep {
				w.out = append(w.out, ',')
			}
			sep = true
			w.out = append(appendString(w.out, key), ':')
			if err := w.value(v); err != nil {
				return err
			}
		}
		w.out = append(w.out, '}')
	case []any:
		w.out = append(w.out, '[')
		for i, v := range v {
			if i > 0 {
				w.out = append(w.out, ',')
			}
			if err := w.value(v); err != nil {
				return err
			}
		}
		w.out = append(w.out, ']')
	case string:
		w.out = appendString(w.out, v)
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return fmt.Errorf("JSON has no number %v", v)
		}
		w.out = appendFloat(w.out, v)
	default:
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		w.out = append(w.out, text...)
	}
	return nil
}

// keyString returns the name that sigs.k8s.io/yaml gives an entry with key k.
func keyString(k any) (string, error) {
	switch k := k.(type) {
	case string:
		return k, nil
	case int:
		return strconv.Itoa(k), nil
	case int64:
		return strconv.FormatInt(k, 10), nil
	case bool:
		return strconv.FormatBool(k), nil
	case float64:
		switch {
		case math.IsInf(k, 1):
			return ".inf", nil
		case math.IsInf(k, -1):
			return "-.inf", nil
		case math.IsNaN(k):
			return ".nan", nil
		}
		return strconv.FormatFloat(k, 'g', -1, 32), nil
	case nil:
		return "", errors.New("null cannot be a key")
	}
	return "", fmt.Errorf("%v cannot be a key", k)
}

// appendFloat writes a number as encoding/json does.
func appendFloat(out []byte, f float64) []byte {
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

// nodesOfV3 builds the nodes of a document with the library's parser, which knows
// where nodes start but not where they end. It returns nil if it cannot read src.
func nodesOfV3(src []byte, ls lines) *node {
	doc, err := parseV3(src)
	if err != nil || doc.Kind != yamlv3.DocumentNode || len(doc.Content) == 0 {
		return nil
	}
	c := v3Converter{src: src, lines: ls, done: map[*yamlv3.Node]*node{}}
	return c.node(doc.Content[0])
}

func parseV3(src []byte) (doc *yamlv3.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: %v", p)
		}
	}()
	doc = &yamlv3.Node{}
	return doc, yamlv3.Unmarshal(src, doc)
}

type v3Converter struct {
	src   []byte
	lines lines
	done  map[*yamlv3.Node]*node
}

func (c *v3Converter) node(y *yamlv3.Node) *node {
	start := c.offset(y.Line, y.Column)
	n := &node{start: start, first: start, flow: y.Style&yamlv3.FlowStyle != 0}
	c.done[y] = n
	switch y.Kind {
	case yamlv3.MappingNode:
		n.kind = mapping
		for i := 0; i+1 < len(y.Content); i += 2 {
			k := y.Content[i]
			v := c.node(y.Content[i+1])
			v.keyed, v.keyStart = true, c.offset(k.Line, k.Column)
			if k.Kind == yamlv3.AliasNode && k.Alias != nil {
				k = k.Alias
			}
			v.key = k.Value
			v.keyEnd = c.lineEnd(v.keyStart, len(k.Value))
			if k.Kind == yamlv3.ScalarNode && k.Style == 0 {
				v.key = plainKey(k.Value)
				v.merge = k.Value == "<<"
			}
			n.children = append(n.children, v)
		}
	case yamlv3.SequenceNode:
		n.kind = sequence
		for _, item := range y.Content {
			n.children = append(n.children, c.node(item))
		}
	case yamlv3.AliasNode:
		n.kind = alias
		n.target = c.done[y.Alias]
	}
	n.end = c.lineEnd(start, len(y.Value))
	if k := len(n.children); k > 0 {
		n.end = max(n.children[k-1].end, start)
	}
	return n
}

// offset returns the offset of a place that the library names by line and column.
func (c *v3Converter) offset(line, column int) int {
	if line < 1 || line > len(c.lines) {
		return len(c.src)
	}
	i := c.lines[line-1]
	for ; column > 1 && i < len(c.src); column-- {
		_, n := utf8.DecodeRune(c.src[i:])
		i += n
	}
	return i
}

// lineEnd is the end of a text of n bytes that starts at i, if it ends on that line.
func (c *v3Converter) lineEnd(i, n int) int {
	return min(i+n, lineEnd(c.src, i))
}
