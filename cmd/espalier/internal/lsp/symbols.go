package lsp

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"espalier.dev/internal/yamlx"
)

// The limits of symbols: clients show them in a list, and some are slow with many.
const (
	maxSymbols     = 10_000
	maxSymbolDepth = 64
	maxSymbolText  = 80
	// maxParsed is the size of a text that is parsed for symbols and folding.
	maxParsed = 8 << 20
)

// part is a YAML document of a text. Its root is nil if it does not parse.
type part struct {
	start, end int
	source     []byte
	root       *yamlx.Node
}

// parts calls f with each YAML document of a text, including empty ones, until it returns false. A
// large text is one document that is not parsed.
func parts(ctx context.Context, text *Text, f func(part) bool) {
	data := text.Bytes()
	if len(data) > maxParsed {
		f(part{end: len(data), source: data})
		return
	}
	r := yamlx.NewBytesReader(data, yamlx.Options{MaxDocument: len(data) + 1})
	for at := 0; at < len(data) && ctx.Err() == nil; {
		doc, err := r.Next()
		var unreadable *yamlx.Error
		switch {
		case errors.As(err, &unreadable):
			// The reader does not tell where the document ends.
			f(part{start: at, end: len(data), source: data[at:]})
			return
		case err != nil:
			return
		}
		p := part{start: int(doc.Offset()), source: doc.Source()}
		p.end = p.start + len(p.source)
		at = p.end
		if !doc.Empty() {
			if _, err := doc.JSON(); err == nil {
				p.root = doc.Nodes()
			}
		}
		if !f(p) {
			return
		}
	}
}

// Symbols returns the symbols of a text: one for each document, named by its kind and name, with its
// fields. Documents that do not parse have none.
func Symbols(ctx context.Context, text *Text) []DocumentSymbol {
	symbols := []DocumentSymbol{}
	left := maxSymbols
	parts(ctx, text, func(p part) bool {
		if p.root != nil {
			o := outline{text: text, part: p, left: &left}
			symbols = append(symbols, o.document())
		}
		return left > 0
	})
	return symbols
}

// outline makes the symbols of one document.
type outline struct {
	text *Text
	part part
	left *int
}

// document returns the symbol of the whole document.
func (o *outline) document() DocumentSymbol {
	*o.left--
	root := o.part.root
	name, detail := o.title()
	start, end := root.Start, o.end(root)
	s := DocumentSymbol{Name: name, Detail: detail, Kind: SymbolObject}
	selected := root
	if kind := root.Entry("kind"); root.Kind == yamlx.Mapping && kind != nil && kind.Start >= start && kind.End <= end {
		selected = kind
	}
	s.Range = o.textRange(start, end)
	s.SelectionRange = o.textRange(selected.Start, max(selected.Start, o.lineEnd(selected.Start, selected.End)))
	s.Children = o.children(root, 1)
	return s
}

// title returns the kind and name of a document, and its namespace and apiVersion.
func (o *outline) title() (name, detail string) {
	root := o.part.root
	field := func(n *yamlx.Node, key string) string {
		if n == nil || n.Kind != yamlx.Mapping {
			return ""
		}
		v := n.Entry(key)
		if v == nil {
			return ""
		}
		s, _ := v.Text()
		return s
	}
	var metadata *yamlx.Node
	if root.Kind == yamlx.Mapping {
		metadata = root.Entry("metadata")
	}
	own := field(metadata, "name")
	if own == "" {
		own = field(metadata, "generateName")
	}
	name = strings.TrimSpace(field(root, "kind") + " " + own)
	if name == "" {
		name = "document"
	}
	detail = field(root, "apiVersion")
	if ns := field(metadata, "namespace"); ns != "" {
		detail = strings.TrimPrefix(detail+" in "+ns, " ")
	}
	return shorten(name), shorten(detail)
}

// children returns the symbols of the entries or items of a node.
func (o *outline) children(n *yamlx.Node, depth int) []DocumentSymbol {
	if depth > maxSymbolDepth || n.Kind != yamlx.Mapping && n.Kind != yamlx.Sequence {
		return nil
	}
	var symbols []DocumentSymbol
	for i, c := range n.Children {
		if *o.left <= 0 {
			break
		}
		*o.left--
		start, end := c.EntryStart(), o.end(c)
		s := DocumentSymbol{Range: o.textRange(start, end)}
		if c.Keyed {
			s.Name = shorten(c.Key)
			s.SelectionRange = o.textRange(max(start, c.KeyStart), min(end, c.KeyEnd))
		} else {
			s.Name = itemName(c, i)
			s.SelectionRange = o.textRange(c.Start, o.lineEnd(c.Start, end))
		}
		if s.Name == "" {
			// Clients reject symbols without a name.
			s.Name = `""`
		}
		switch c.Kind {
		case yamlx.Mapping:
			s.Kind = SymbolObject
		case yamlx.Sequence:
			s.Kind = SymbolArray
		case yamlx.Alias:
			s.Kind = SymbolKey
		default:
			s.Kind, s.Detail = scalarSymbol(c)
		}
		s.Children = o.children(c, depth+1)
		symbols = append(symbols, s)
	}
	return symbols
}

// itemName returns the name of an item: that of its field name, or its value, or its index.
func itemName(n *yamlx.Node, index int) string {
	var name string
	switch n.Kind {
	case yamlx.Mapping:
		for _, key := range []string{"name", "key", "kind", "type"} {
			if v := n.Entry(key); v != nil && name == "" {
				name, _ = v.Text()
			}
		}
	case yamlx.Scalar:
		name, _ = n.Text()
	}
	if strings.TrimSpace(name) == "" {
		return strconv.Itoa(index)
	}
	return shorten(name)
}

// scalarSymbol returns the kind and value of a scalar.
func scalarSymbol(n *yamlx.Node) (kind SymbolKind, detail string) {
	if s, ok := n.Text(); ok {
		return SymbolString, shorten(s)
	}
	switch json := string(n.JSON); {
	case json == "true" || json == "false":
		return SymbolBoolean, json
	case json == "null" || json == "":
		return SymbolNull, "null"
	default:
		return SymbolNumber, shorten(json)
	}
}

// shorten returns a text on one line of a bounded length.
func shorten(s string) string {
	if i := strings.IndexAny(s, "\r\n"); i >= 0 {
		s = s[:i] + "…"
	}
	if len(s) <= maxSymbolText {
		return s
	}
	end := maxSymbolText
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

// end returns the end of a node and all nodes in it, without white space at the end. The ends of
// collections are unknown in documents that only the library can read; those of their last scalars
// are known nearly.
func (o *outline) end(n *yamlx.Node) int {
	end := max(n.Start, n.End)
	last := n
	for range maxSymbolDepth {
		if len(last.Children) == 0 {
			break
		}
		last = last.Children[len(last.Children)-1]
		end = max(end, last.Start, last.End, last.KeyEnd)
	}
	if n.Keyed {
		end = max(end, n.KeyEnd)
	}
	end = min(end, len(o.part.source))
	start := min(max(n.EntryStart(), n.KeyEnd, 0), end)
	return start + len(bytes.TrimRight(o.part.source[start:end], " \t\r\n"))
}

// lineEnd returns the end of the line of start, at most end.
func (o *outline) lineEnd(start, end int) int {
	if i := bytes.IndexAny(o.part.source[start:max(start, end)], "\r\n"); i >= 0 {
		return start + i
	}
	return max(start, end)
}

// textRange returns the range of offsets of the document.
func (o *outline) textRange(start, end int) Range {
	return o.text.Range(o.part.start+start, o.part.start+max(start, end))
}

// flat returns symbols without their hierarchy.
func flat(uri URI, symbols []DocumentSymbol) []SymbolInformation {
	list := []SymbolInformation{}
	var add func(container string, symbols []DocumentSymbol)
	add = func(container string, symbols []DocumentSymbol) {
		for _, s := range symbols {
			list = append(list, SymbolInformation{Name: s.Name, Kind: s.Kind, Location: Location{uri, s.Range}, ContainerName: container})
			add(s.Name, s.Children)
		}
	}
	add("", symbols)
	return list
}
