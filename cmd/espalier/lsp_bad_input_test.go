package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"espalier.dev/cmd/espalier/internal/lsp"
)

// at returns the parameters of a request about a position.
func at(uri lsp.URI, line, character int) lsp.TextDocumentPositionParams {
	return lsp.TextDocumentPositionParams{TextDocument: lsp.TextDocumentIdentifier{URI: uri}, Position: lsp.Position{Line: line, Character: character}}
}

// TestLSPLargeFile opens a file of 50 MB. Requests about another file are answered meanwhile, and the
// end of the session does not wait for it.
func TestLSPLargeFile(t *testing.T) {
	if testing.Short() {
		t.Skip("a large file takes a while")
	}
	t.Parallel()
	root := folder(t, map[string]string{"crd.yaml": widgetCRD, "first.yaml": widget})
	p := startLSPProcess(t)
	p.open(root)
	first, large := lsp.FileURI(filepath.Join(root, "first.yaml")), lsp.FileURI(filepath.Join(root, "large.yaml"))
	p.Open(first, widget)
	object := "---\n" + widget + "  color: " + strings.Repeat("blue", 1000) + "\n"
	text := strings.Repeat(object, 50<<20/len(object))
	p.Open(large, text)
	for version := 2; version < 5; version++ {
		p.Change(large, version, lsp.ContentChange{Range: &lsp.Range{}, Text: "#"})
		var hover lsp.Hover
		begin := time.Now()
		p.Call("textDocument/hover", at(first, 4, 3), &hover)
		if took := time.Since(begin); took > 30*time.Second {
			t.Errorf("hover has taken %v", took)
		}
		if !strings.Contains(hover.Contents.Value, "millimetres") {
			t.Errorf("hover is %q", hover.Contents.Value)
		}
	}
	p.stop(t)
}
