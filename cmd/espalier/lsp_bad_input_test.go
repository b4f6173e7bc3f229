package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"espalier.dev/cmd/espalier/internal/lsp"
	"espalier.dev/cmd/espalier/internal/lsp/lsptest"
)

// at returns the parameters of a request about a position.
func at(uri lsp.URI, line, character int) lsp.TextDocumentPositionParams {
	return lsp.TextDocumentPositionParams{TextDocument: lsp.TextDocumentIdentifier{URI: uri}, Position: lsp.Position{Line: line, Character: character}}
}

// TestLSPCharacters edits a file with emoji, tabs and CR LF, whose positions count UTF-16 code units.
func TestLSPCharacters(t *testing.T) {
	t.Parallel()
	text := "# 😀\r\napiVersion: example.com/v1\r\nkind: Widget\r\nmetadata: {name: first, annotations: {a: \"😀\\t\tb\"}, oops: 1} # é😀\r\nspec:\t\r\n  size: 3\r\n"
	root := folder(t, map[string]string{"crd.yaml": widgetCRD, "first.yaml": text})
	p := startLSPProcess(t)
	p.open(root)
	uri := lsp.FileURI(filepath.Join(root, "first.yaml"))
	p.Open(uri, text)
	offset := strings.Index(text, "oops")
	want := lsp.Range{Start: utf16Position([]byte(text), offset), End: utf16Position([]byte(text), offset+len("oops"))}
	got := p.AwaitDiagnostics(uri, func(d *lsp.PublishDiagnosticsParams) bool { return len(d.Diagnostics) > 0 })
	if len(got.Diagnostics) != 1 || got.Diagnostics[0].Range != want {
		t.Errorf("got %+v, want the range %v", got.Diagnostics, want)
	}
	// The field is removed, and an emoji typed before another error.
	end := utf16Position([]byte(text), offset+len("oops: 1"))
	p.Change(uri, 2, lsp.ContentChange{Range: &lsp.Range{Start: want.Start, End: end}, Text: ""},
		lsp.ContentChange{Range: &lsp.Range{Start: lsp.Position{Line: 5, Character: 8}, End: lsp.Position{Line: 5, Character: 9}}, Text: "\"😀😀\""})
	got = p.AwaitDiagnostics(uri, func(d *lsp.PublishDiagnosticsParams) bool { return d.Version != nil && *d.Version == 2 })
	want = lsp.Range{Start: lsp.Position{Line: 5, Character: 8}, End: lsp.Position{Line: 5, Character: 8 + 6}}
	if len(got.Diagnostics) != 1 || got.Diagnostics[0].Range != want {
		t.Errorf("got %+v, want the range %v", got.Diagnostics, want)
	}
	var hover lsp.Hover
	p.Call("textDocument/hover", at(uri, 5, 4), &hover)
	if !strings.Contains(hover.Contents.Value, "millimetres") {
		t.Errorf("hover is %q", hover.Contents.Value)
	}
	// Positions outside of the text, and in the middle of an emoji, are answered.
	for _, position := range []lsp.Position{{Line: 999, Character: 7}, {Line: 5, Character: 10}, {Line: 5, Character: 9999}, {Line: -1, Character: -1}} {
		_ = p.Start("textDocument/completion", at(uri, position.Line, position.Character)).Wait(nil) // an error is an answer
	}
	p.Call("textDocument/hover", at(uri, 5, 4), &hover)
	p.stop(t)
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

// TestLSPTyped types a CRD character by character, so that it is invalid most of the time.
func TestLSPTyped(t *testing.T) {
	t.Parallel()
	object := strings.Replace(widget, "size: 3", "size: 0", 1)
	root := folder(t, map[string]string{"crd.yaml": widgetCRD, "first.yaml": object})
	p := startLSPProcess(t)
	p.open(root)
	first, crd := lsp.FileURI(filepath.Join(root, "first.yaml")), lsp.FileURI(filepath.Join(root, "crd.yaml"))
	p.Open(first, object)
	p.Open(crd, widgetCRD)
	isMinimum := func(d *lsp.PublishDiagnosticsParams) bool { return rules(d) == "validation/minimum" }
	p.AwaitDiagnostics(first, isMinimum)
	start := strings.Index(widgetCRD, "  versions:")
	version := 1
	for n := start; n < len(widgetCRD); n++ {
		version++
		p.Change(crd, version, whole(widgetCRD[:n]))
		if n%40 == 0 { // the user stops, and looks
			time.Sleep(60 * time.Millisecond)
			_ = p.Start("textDocument/completion", lsp.CompletionParams{TextDocumentPositionParams: lsp.TextDocumentPositionParams{
				TextDocument: lsp.TextDocumentIdentifier{URI: crd}, Position: utf16Position([]byte(widgetCRD), n)}}).Wait(nil)
			_ = p.Start("textDocument/codeLens", lsp.CodeLensParams{TextDocument: lsp.TextDocumentIdentifier{URI: crd}}).Wait(nil)
		}
	}
	p.Change(crd, version+1, whole(widgetCRD[:start]))
	p.AwaitDiagnostics(first, func(d *lsp.PublishDiagnosticsParams) bool { return !isMinimum(d) })
	p.Change(crd, version+2, whole(widgetCRD))
	p.AwaitDiagnostics(first, isMinimum)
	p.stop(t)
}

// TestLSPVanishing removes files, and the folder itself, while they are open.
func TestLSPVanishing(t *testing.T) {
	t.Parallel()
	object := strings.Replace(widget, "size: 3", "size: 0", 1)
	root := folder(t, map[string]string{"crds/crd.yaml": widgetCRD, "first.yaml": object})
	p := startLSPProcess(t)
	p.open(root)
	first := lsp.FileURI(filepath.Join(root, "first.yaml"))
	p.Open(first, object)
	p.AwaitDiagnostics(first, func(d *lsp.PublishDiagnosticsParams) bool { return rules(d) == "validation/minimum" })
	crds := filepath.Join(root, "crds")
	tell := func(path string, what int) {
		p.Notify("workspace/didChangeWatchedFiles", lsp.DidChangeWatchedFilesParams{Changes: []lsp.FileEvent{{URI: lsp.FileURI(path), Type: what}}})
	}
	if err := os.RemoveAll(crds); err != nil {
		t.Fatal(err)
	}
	// Before it is told, and after.
	_ = p.Start("textDocument/definition", at(first, 4, 3)).Wait(nil)
	tell(crds, lsp.FileDeleted)
	p.AwaitDiagnostics(first, func(d *lsp.PublishDiagnosticsParams) bool { return rules(d) == "missing-definition" })
	_ = p.Start("textDocument/definition", at(first, 4, 3)).Wait(nil)
	if err := os.RemoveAll(root); err != nil {
		t.Fatal(err)
	}
	tell(root, lsp.FileDeleted)
	_ = p.Start("textDocument/hover", at(first, 4, 3)).Wait(nil)
	// Everything comes back.
	writeFile(t, filepath.Join(crds, "crd.yaml"), []byte(widgetCRD))
	writeFile(t, filepath.Join(root, "first.yaml"), []byte(object))
	tell(filepath.Join(crds, "crd.yaml"), lsp.FileCreated)
	p.AwaitDiagnostics(first, func(d *lsp.PublishDiagnosticsParams) bool { return rules(d) == "validation/minimum" })
	p.stop(t)
}

// TestLSPCancels cancels every request. Each one is answered nevertheless.
func TestLSPCancels(t *testing.T) {
	t.Parallel()
	root := folder(t, map[string]string{"crd.yaml": widgetCRD, "first.yaml": widget})
	p := startLSPProcess(t)
	p.open(root)
	first, crd := lsp.FileURI(filepath.Join(root, "first.yaml")), lsp.FileURI(filepath.Join(root, "crd.yaml"))
	p.Open(first, widget)
	p.Open(crd, widgetCRD)
	var calls []*lsptest.Call
	for i := range 300 {
		method, uri := [...]string{"hover", "completion", "definition", "references", "documentSymbol", "codeLens"}[i%6], first
		if i%6 > 3 {
			uri = crd
		}
		call := p.Start("textDocument/"+method, at(uri, 4, 3))
		call.Cancel()
		calls = append(calls, call)
		if i%10 == 0 {
			p.Change(first, i+2, whole(fmt.Sprintf("%s# %d\n", widget, i)))
		}
	}
	for _, call := range calls {
		var failed *lsptest.Error
		if err := call.Wait(nil); err != nil && (!errors.As(err, &failed) || failed.Code != lsp.CodeRequestCancelled) {
			t.Fatalf("a canceled request: %v", err)
		}
	}
	var hover lsp.Hover
	p.Call("textDocument/hover", at(first, 4, 3), &hover)
	p.stop(t)
}

// TestLSPClientDies ends the client in several ways, while the server works. The server ends too.
func TestLSPClientDies(t *testing.T) {
	t.Parallel()
	root := folder(t, map[string]string{"crd.yaml": widgetCRD, "first.yaml": widget})
	busy := func(t *testing.T, pid int) *lspProcess {
		p := startLSPProcess(t)
		p.Initialize(map[string]any{"processId": pid, "rootUri": lsp.FileURI(root), "capabilities": map[string]any{}})
		for i := range 20 {
			p.Open(lsp.FileURI(filepath.Join(root, fmt.Sprintf("%d.yaml", i))), widget)
			p.Start("textDocument/completion", at(lsp.FileURI(filepath.Join(root, "0.yaml")), 4, 3))
		}
		return p
	}
	t.Run("closes", func(t *testing.T) {
		p := busy(t, os.Getpid())
		p.CloseConnection()
		if code := p.exit(t); code != 1 {
			t.Errorf("the exit code is %d: %s", code, &p.stderr)
		}
	})
	t.Run("ends in a message", func(t *testing.T) {
		p := busy(t, os.Getpid())
		if err := p.Raw("Content-Length: 500\r\n\r\n{\"jsonrpc\": \"2.0\", "); err != nil {
			t.Fatal(err)
		}
		p.CloseConnection()
		if code := p.exit(t); code != 1 {
			t.Errorf("the exit code is %d: %s", code, &p.stderr)
		}
	})
	t.Run("sends no protocol", func(t *testing.T) {
		p := busy(t, os.Getpid())
		if err := p.Raw("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if code := p.exit(t); code == 0 {
			t.Error("the exit code is 0")
		}
	})
	t.Run("process", func(t *testing.T) {
		// The connection stays open: another process has it, as the child of an editor may.
		editor := exec.Command("sleep", "600")
		if err := editor.Start(); err != nil {
			t.Skip("SKIPPED: no command sleep: ", err)
		}
		p := busy(t, editor.Process.Pid)
		if err := editor.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = editor.Wait() // it was killed
		if code := p.exit(t); code != 1 {
			t.Errorf("the exit code is %d: %s", code, &p.stderr)
		}
	})
	t.Run("without shutdown", func(t *testing.T) {
		p := busy(t, os.Getpid())
		p.Notify("exit", nil)
		if code := p.exit(t); code != 1 {
			t.Errorf("the exit code is %d: %s", code, &p.stderr)
		}
	})
}
