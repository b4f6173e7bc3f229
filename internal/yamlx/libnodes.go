package yamlx

import (
	"fmt"
	"unicode/utf8"

	yamlv3 "go.yaml.in/yaml/v3"
)

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
				if name, err := keyString(resolve(k.Value)); err == nil {
					v.key = name
				}
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
