package lsp

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"espalier.dev/internal/yamlx"
)

// maxFoldingRanges is the number of folding ranges for clients without a limit of their own.
const maxFoldingRanges = 5000

// FoldingRanges returns the ranges of lines that a client may hide: documents, fields and items of
// several lines, and comments. Documents that do not parse are folded by their indentation. The limit
// is the number of ranges, or 0 for a default; outer ranges are preferred.
func FoldingRanges(ctx context.Context, text *Text, limit int) []FoldingRange {
	if limit <= 0 || limit > maxFoldingRanges {
		limit = maxFoldingRanges
	}
	f := &folder{text: text, limit: limit}
	documents := 0
	parts(ctx, text, func(p part) bool {
		documents++
		first, last := text.lineAt(p.start), text.lineAt(p.start+len(bytes.TrimRight(p.source, " \t\r\n")))
		if documents > 1 || p.end < len(text.Bytes()) {
			f.add(first, last, FoldRegion)
		}
		if p.root != nil {
			o := &outline{text: text, part: p}
			f.nodes(o, p.root, 0)
		} else {
			f.indented(first, last)
		}
		f.comments(first, last)
		return ctx.Err() == nil && len(f.ranges) < 4*limit
	})
	// Outer ranges are longer than those in them.
	if len(f.ranges) > limit {
		slices.SortStableFunc(f.ranges, func(a, b FoldingRange) int {
			return cmp.Compare(b.EndLine-b.StartLine, a.EndLine-a.StartLine)
		})
		f.ranges = f.ranges[:limit]
	}
	slices.SortStableFunc(f.ranges, func(a, b FoldingRange) int {
		return cmp.Or(cmp.Compare(a.StartLine, b.StartLine), cmp.Compare(b.EndLine, a.EndLine))
	})
	// Several nodes may start on one line, such as an item and its first field.
	return slices.CompactFunc(f.ranges, func(a, b FoldingRange) bool { return a.StartLine == b.StartLine })
}

// folder collects ranges.
type folder struct {
	text   *Text
	limit  int
	ranges []FoldingRange
}

// add adds a range of several lines.
func (f *folder) add(first, last int, kind string) {
	if last > first && len(f.ranges) < 4*f.limit {
		f.ranges = append(f.ranges, FoldingRange{StartLine: first, EndLine: last, Kind: kind})
	}
}

// nodes adds the fields and items of a node.
func (f *folder) nodes(o *outline, n *yamlx.Node, depth int) {
	if depth > maxSymbolDepth {
		return
	}
	if depth == 0 && n.Flow {
		f.node(o, n, n.Start)
	}
	for _, c := range n.Children {
		f.node(o, c, c.EntryStart())
		f.nodes(o, c, depth+1)
	}
}

// node adds the range of a node.
func (f *folder) node(o *outline, n *yamlx.Node, start int) {
	first, last := f.text.lineAt(o.part.start+start), f.text.lineAt(o.part.start+o.end(n))
	if n.Flow && last > first {
		// The line of the closing bracket stays visible.
		last--
	}
	f.add(first, last, "")
}

// comments adds comments of several lines.
func (f *folder) comments(first, last int) {
	from := -1
	for line := first; line <= last+1; line++ {
		comment := false
		if line <= last {
			start, end := f.text.Line(line)
			comment = bytes.HasPrefix(bytes.TrimLeft(f.text.data[start:end], " \t"), []byte("#"))
		}
		switch {
		case comment && from < 0:
			from = line
		case !comment && from >= 0:
			f.add(from, line-1, FoldComment)
			from = -1
		}
	}
}

// indented adds ranges of lines that are indented more than the line before them.
func (f *folder) indented(first, last int) {
	type open struct{ line, depth int }
	var stack []open
	previous := first
	closeTo := func(depth int) {
		for len(stack) > 0 && stack[len(stack)-1].depth >= depth {
			f.add(stack[len(stack)-1].line, previous, "")
			stack = stack[:len(stack)-1]
		}
	}
	for line := first; line <= last; line++ {
		start, end := f.text.Line(line)
		content := bytes.TrimLeft(f.text.data[start:end], " \t")
		if len(bytes.TrimSpace(content)) == 0 || content[0] == '#' {
			continue
		}
		// An item may be as far to the left as the field of its list.
		depth := 2 * (end - start - len(content))
		if content[0] == '-' {
			depth++
		}
		closeTo(depth)
		stack = append(stack, open{line, depth})
		previous = line
	}
	closeTo(-1)
}

// lineAt returns the line of an offset, which counts from 0.
func (t *Text) lineAt(offset int) int {
	line, found := slices.BinarySearch(t.lines, offset)
	if !found {
		line--
	}
	return line
}
