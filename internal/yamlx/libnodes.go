package yamlx

import (
	"fmt"
	"unicode/utf8"

	yamlv3 "go.yaml.in/yaml/v3"
)

// nodesOfV3 builds the nodes of a document with the library's parser, which reports where
// nodes start but not where they end. It returns nil if the library cannot read src.
func nodesOfV3(src []byte, ls lines) *Node {
	doc, err := parseV3(src)
	if err != nil || doc.Kind != yamlv3.DocumentNode || len(doc.Content) == 0 {
		return nil
	}
	c := v3Converter{src: src, lines: ls, done: map[*yamlv3.Node]*Node{}}
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
	done  map[*yamlv3.Node]*Node
}

func (c *v3Converter) node(y *yamlv3.Node) *Node {
	start := c.offset(y.Line, y.Column)
	n := &Node{Start: start, First: start, Flow: y.Style&yamlv3.FlowStyle != 0}
	c.done[y] = n
	switch y.Kind {
	case yamlv3.MappingNode:
		n.Kind = Mapping
		for i := 0; i+1 < len(y.Content); i += 2 {
			k := y.Content[i]
			v := c.node(y.Content[i+1])
			v.Keyed, v.KeyStart = true, c.offset(k.Line, k.Column)
			if k.Kind == yamlv3.AliasNode && k.Alias != nil {
				k = k.Alias
			}
			v.Key = k.Value
			v.KeyEnd = c.lineEnd(v.KeyStart, len(k.Value))
			if k.Kind == yamlv3.ScalarNode && k.Style == 0 {
				if name, err := keyString(Resolve(k.Value)); err == nil {
					v.Key = name
				}
				v.Merge = k.Value == "<<"
			}
			n.Children = append(n.Children, v)
		}
	case yamlv3.SequenceNode:
		n.Kind = Sequence
		for _, item := range y.Content {
			n.Children = append(n.Children, c.node(item))
		}
	case yamlv3.AliasNode:
		n.Kind = Alias
		n.target = c.done[y.Alias]
	}
	n.End = c.lineEnd(start, len(y.Value))
	if k := len(n.Children); k > 0 {
		n.End = max(n.Children[k-1].End, start)
	}
	return n
}

// offset converts a line and column of the library to an offset.
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

// lineEnd returns the end of a text of n bytes that starts at i, if it ends on that line.
func (c *v3Converter) lineEnd(i, n int) int {
	return min(i+n, LineEnd(c.src, i))
}
