package lsp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"espalier.dev/cmd/espalier/internal/lsp"
)

// outline returns symbols as text, one on each line.
func outline(text *lsp.Text, symbols []lsp.DocumentSymbol, indent string) string {
	var b strings.Builder
	for _, s := range symbols {
		start, end := text.Offsets(s.SelectionRange)
		fmt.Fprintf(&b, "%s%s|%s|%d|%d-%d|%s\n", indent, s.Name, s.Detail, s.Kind, s.Range.Start.Line, s.Range.End.Line, text.Bytes()[start:end])
		b.WriteString(outline(text, s.Children, indent+" "))
	}
	return b.String()
}

// contained fails the test if a range is not in that of its parent, which clients reject.
func contained(t *testing.T, text *lsp.Text, symbols []lsp.DocumentSymbol, start, end int) {
	t.Helper()
	for _, s := range symbols {
		from, to := text.Offsets(s.Range)
		selected, selectedEnd := text.Offsets(s.SelectionRange)
		if from < start || to > end || selected < from || selectedEnd > to || s.Name == "" {
			t.Errorf("%q is at %d-%d, selected %d-%d, in %d-%d", s.Name, from, to, selected, selectedEnd, start, end)
		}
		contained(t, text, s.Children, from, to)
	}
}

func TestSymbols(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, source, want string }{
		{"documents", "# first\nkind: Widget\napiVersion: a/v1\nmetadata:\n  name: one\n  namespace: ns\nspec:\n  size: 3\n  \"on\": true\n  items:\n  - name: x\n  - 5\n  - {}\n---\nkind: A\n---\nbroken: [\n---\n\"\": null\n",
			`Widget one|a/v1 in ns|19|1-12|Widget
 kind|Widget|15|1-1|kind
 apiVersion|a/v1|15|2-2|apiVersion
 metadata||19|3-5|metadata
  name|one|15|4-4|name
  namespace|ns|15|5-5|namespace
 spec||19|6-12|spec
  size|3|16|7-7|size
  on|true|17|8-8|"on"
  items||18|9-12|items
   x||19|10-10|name: x
    name|x|15|10-10|name
   1|5|16|11-11|5
   2||19|12-12|{}
A||19|14-14|A
 kind|A|15|14-14|kind
document||19|18-18|"": null
 ""|null|21|18-18|""
`},
		{"crlf", "kind: A\r\ntext: |\r\n  one\r\n  two\r\n\r\nlast: 😀\r\n",
			"A||19|0-5|A\n kind|A|15|0-0|kind\n text|one…|15|1-3|text\n last|😀|15|5-5|last\n"},
		{"anchors", "a: &x\n  b: 1\nc: *x\nd:\n  <<: *x\n", `document||19|0-4|a: &x
 a||19|0-1|a
  b|1|16|1-1|b
 c||20|2-2|c
 d||19|3-4|d
  <<||20|4-4|<<
`},
		{"json", `{"kind": "B", "metadata": {"generateName": "n-"}}`, `B n-||19|0-0|"B"
 kind|B|15|0-0|"kind"
 metadata||19|0-0|"metadata"
  generateName|n-|15|0-0|"generateName"
`},
		{"list", "- a\n- b\n", "document||19|0-1|- a\n a|a|15|0-0|a\n b|b|15|1-1|b\n"},
		{"empty", "", ""}, {"comment", "# only\n", ""}, {"broken", "a: b: c", ""}, {"scalar", "text", "document||19|0-0|text\n"},
	} {
		text := lsp.NewText("file:///a", 1, "yaml", []byte(c.source), lsp.UTF16)
		symbols := lsp.Symbols(t.Context(), text)
		if got := outline(text, symbols, ""); got != c.want {
			t.Errorf("%s:\n%s\nwant:\n%s", c.name, got, c.want)
		}
		contained(t, text, symbols, 0, len(c.source))
	}
}

func TestSymbolLimits(t *testing.T) {
	t.Parallel()
	count := func(source string) (n int) {
		text := lsp.NewText("file:///a", 1, "yaml", []byte(source), lsp.UTF16)
		symbols := lsp.Symbols(t.Context(), text)
		contained(t, text, symbols, 0, len(source))
		return strings.Count(outline(text, symbols, ""), "\n")
	}
	if n := count(strings.Repeat("kind: A\n---\n", 20_000)); n != 10_000 {
		t.Errorf("%d symbols of many documents", n)
	}
	if n := count("- a\n" + strings.Repeat("- b\n", 20_000)); n != 10_000 {
		t.Errorf("%d symbols of many items", n)
	}
	if n := count(strings.Repeat("[", 5000) + strings.Repeat("]", 5000)); n > 100 {
		t.Errorf("%d symbols of a deep document", n)
	}
	if n := count("a: 1\n" + strings.Repeat("# comment\n", 1<<20)); n != 0 {
		t.Errorf("%d symbols of a large document", n)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if got := lsp.Symbols(canceled, lsp.NewText("file:///a", 1, "yaml", []byte("a: 1"), lsp.UTF16)); len(got) != 0 {
		t.Errorf("symbols of a canceled request: %v", got)
	}
}

func TestFolding(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, source, want string }{
		{"fields", "kind: A\nspec:\n  a:\n    b: 1\n  list:\n  - x: 1\n    y: 2\n  - z\n\n# one\n# two\nend: |\n  text\n  text\n",
			"1-7 2-3 4-7 5-6 9-10comment 11-13"},
		{"crlf", "spec:\r\n  a: 1\r\n\r\nb: 1\r\n", "0-1"},
		{"documents", "a: 1\nb: 2\n---\nc:\n  d: 1\n---\n", "0-1region 2-4region 3-4"},
		{"json", "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {}\n}\n", "0-5 1-3"},
		{"broken", "a:\n  b: [\n  c: 1\n# c\n\nlist:\n- x\n- y:\n    z: 1\nend: 1\n", "0-2 5-8 7-8"},
		{"broken document", "a:\n  b: 1\n---\nx: [\n  y\n", "0-1region 2-4region 3-4"},
		{"tabs", "a:\n\tb: 1\n\tc: 2\n", "0-2"},
		{"empty", "", ""}, {"line", "a: 1", ""}, {"blank", "\n\n\n", ""},
	} {
		var got []string
		for _, f := range lsp.FoldingRanges(t.Context(), lsp.NewText("file:///a", 1, "yaml", []byte(c.source), lsp.UTF16), 0) {
			got = append(got, fmt.Sprintf("%d-%d%s", f.StartLine, f.EndLine, f.Kind))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
	many := "all:\n" + strings.Repeat("  a:\n    b: 1\n", 10_000)
	for _, limit := range []int{0, 10} {
		got := lsp.FoldingRanges(t.Context(), lsp.NewText("file:///a", 1, "yaml", []byte(many), lsp.UTF16), limit)
		if want := max(limit, 5000*(1-min(limit, 1))); len(got) != want || got[0].StartLine != 0 || got[0].EndLine != 20_000 {
			t.Errorf("%d ranges with the limit %d, the first is %v", len(got), limit, got[0])
		}
	}
}

// TestSymbolRequests requests symbols and folding ranges.
func TestSymbolRequests(t *testing.T) {
	t.Parallel()
	for _, hierarchical := range []bool{true, false} {
		c, _ := serve(t, lsp.Options{}, &recorder{})
		c.Initialize(map[string]any{"capabilities": map[string]any{"textDocument": map[string]any{
			"documentSymbol": map[string]any{"hierarchicalDocumentSymbolSupport": hierarchical}, "foldingRange": map[string]any{"rangeLimit": 1},
		}}})
		c.Open(docURI, "kind: A\nspec:\n  a:\n    b: 1\n")
		var raw json.RawMessage
		c.Call("textDocument/documentSymbol", at(docURI, 0, 0), &raw)
		if strings.Contains(string(raw), `"children"`) != hierarchical || strings.Contains(string(raw), `"containerName":"spec"`) == hierarchical {
			t.Errorf("hierarchical %v: %s", hierarchical, raw)
		}
		c.Call("textDocument/foldingRange", at(docURI, 0, 0), &raw)
		if string(raw) != `[{"startLine":1,"endLine":3}]` {
			t.Errorf("folding: %s", raw)
		}
	}
}
