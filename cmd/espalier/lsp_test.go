package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"espalier.dev/cmd/espalier/internal/lsp"
	"espalier.dev/cmd/espalier/internal/lsp/lsptest"
)

const widgetCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget, singular: widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        description: A widget.
        type: object
        properties:
          spec:
            type: object
            required: [size]
            properties:
              size: {type: integer, minimum: 1, description: The size in millimetres.}
              color: {type: string, enum: [red, green], default: red}
`

const widget = `apiVersion: example.com/v1
kind: Widget
metadata: {name: first}
spec:
  size: 3
`

// startLSP starts the language server for a client in a folder.
func startLSP(t *testing.T, root string, flags ...string) *lsptest.Client {
	t.Helper()
	ours, theirs := newPipes()
	a := newApp(theirs.Reader, theirs.Writer, io.Discard)
	done := make(chan int, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { done <- a.run(ctx, append([]string{"lsp"}, flags...)) }()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	c := lsptest.New(t, ours)
	c.Initialize(map[string]any{
		"processId": os.Getpid(), "rootUri": lsp.FileURI(root),
		"capabilities": map[string]any{"textDocument": map[string]any{"publishDiagnostics": map[string]any{"relatedInformation": true}}},
	})
	return c
}

// pipes are the two ends of a connection.
type pipes struct {
	io.Reader
	io.Writer
	close func()
}

// Close closes both directions.
func (p pipes) Close() error { p.close(); return nil }

func newPipes() (ours, theirs pipes) {
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	end := func() {
		fromClient.Close()
		toClient.Close()
	}
	return pipes{toClient, fromClient, end}, pipes{toServer, fromServer, func() {}}
}

// folder returns a folder with files.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// rules returns the codes of diagnostics.
func rules(p *lsp.PublishDiagnosticsParams) string {
	var all []string
	for _, d := range p.Diagnostics {
		all = append(all, d.Code)
	}
	return strings.Join(all, " ")
}

func whole(text string) lsp.ContentChange { return lsp.ContentChange{Text: text} }

// TestLSPDiagnostics follows a user who edits an object and its CRD.
func TestLSPDiagnostics(t *testing.T) {
	t.Parallel()
	root := folder(t, map[string]string{"crd/widget.yaml": widgetCRD, "objects/first.yaml": widget})
	c := startLSP(t, root)
	object, definition := lsp.FileURI(filepath.Join(root, "objects/first.yaml")), lsp.FileURI(filepath.Join(root, "crd/widget.yaml"))
	c.Open(object, widget)

	c.Change(object, 2, whole(strings.Replace(widget, "size: 3", "size: 0\n  colour: red", 1)))
	got := c.AwaitDiagnostics(object, func(p *lsp.PublishDiagnosticsParams) bool { return len(p.Diagnostics) == 2 })
	if rules(got) != "validation/minimum unknown-field" {
		t.Fatalf("got %+v", got.Diagnostics)
	}
	bad, pruned := got.Diagnostics[0], got.Diagnostics[1]
	if want := (lsp.Range{Start: lsp.Position{Line: 4, Character: 8}, End: lsp.Position{Line: 4, Character: 9}}); bad.Range != want {
		t.Errorf("the range is %+v, want %+v", bad.Range, want)
	}
	if bad.Severity != lsp.SeverityError || len(bad.RelatedInformation) == 0 ||
		bad.RelatedInformation[len(bad.RelatedInformation)-1].Location.URI != definition {
		t.Errorf("got %+v", bad)
	}
	if pruned.Severity != lsp.SeverityWarning || len(pruned.Tags) != 1 || pruned.Tags[0] != lsp.TagUnnecessary {
		t.Errorf("got %+v", pruned)
	}

	// The CRD is edited, and not saved.
	c.Open(definition, widgetCRD)
	c.Change(definition, 2, whole(strings.Replace(widgetCRD, "minimum: 1", "minimum: 0", 1)))
	c.AwaitDiagnostics(object, func(p *lsp.PublishDiagnosticsParams) bool { return rules(p) == "unknown-field" })
	c.Change(definition, 3, whole(strings.Replace(widgetCRD, "type: integer, minimum: 1", "type: string", 1)))
	c.AwaitDiagnostics(object, func(p *lsp.PublishDiagnosticsParams) bool { return strings.HasPrefix(rules(p), "decode") })
	// A CRD that becomes invalid is reported itself.
	c.Change(definition, 4, whole(strings.Replace(widgetCRD, "type: integer", "type: integre", 1)))
	c.AwaitDiagnostics(definition, func(p *lsp.PublishDiagnosticsParams) bool { return len(p.Diagnostics) > 0 })
	// When it is closed, what is on disk counts.
	c.CloseDocument(definition)
	c.AwaitDiagnostics(object, func(p *lsp.PublishDiagnosticsParams) bool { return rules(p) == "validation/minimum unknown-field" })

	// A file that another program creates is found.
	if err := os.WriteFile(filepath.Join(root, ".espalier.yaml"), []byte("validate: {fieldValidation: strict}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Notify("workspace/didChangeWatchedFiles", lsp.DidChangeWatchedFilesParams{Changes: []lsp.FileEvent{
		{URI: lsp.FileURI(filepath.Join(root, ".espalier.yaml")), Type: 1}}})
	c.AwaitDiagnostics(object, func(p *lsp.PublishDiagnosticsParams) bool {
		return len(p.Diagnostics) == 2 && p.Diagnostics[1].Severity == lsp.SeverityError
	})
	c.Shutdown()
}

// TestLSPActions applies code actions.
func TestLSPActions(t *testing.T) {
	t.Parallel()
	crd := strings.Replace(widgetCRD, "type: integer,", "type: integer, format: int46,", 1)
	root := folder(t, map[string]string{"widget.yaml": crd})
	c := startLSP(t, root)
	uri := lsp.FileURI(filepath.Join(root, "widget.yaml"))
	c.Open(uri, crd)
	got := c.AwaitDiagnostics(uri, func(p *lsp.PublishDiagnosticsParams) bool { return strings.Contains(rules(p), "unknown-format") })
	for _, d := range got.Diagnostics {
		if d.Code != "unknown-format" {
			continue
		}
		var actions []lsp.CodeAction
		c.Call("textDocument/codeAction", lsp.CodeActionParams{TextDocument: lsp.TextDocumentIdentifier{URI: uri}, Range: d.Range,
			Context: lsp.CodeActionContext{Diagnostics: got.Diagnostics}}, &actions)
		for _, action := range actions {
			if !strings.HasPrefix(action.Title, "Suppress") {
				continue
			}
			edit := action.Edit.Changes[uri][0]
			c.Change(uri, 2, lsp.ContentChange{Range: &edit.Range, Text: edit.NewText})
			c.AwaitDiagnostics(uri, func(p *lsp.PublishDiagnosticsParams) bool { return !strings.Contains(rules(p), "unknown-format") })
			return
		}
		t.Fatalf("no suppression in %+v", actions)
	}
}

// TestLSPAssist asks for completion, documentation, definitions and code lenses, and repairs a line.
func TestLSPAssist(t *testing.T) {
	t.Parallel()
	root := folder(t, map[string]string{"crd.yaml": widgetCRD, "first.yaml": widget})
	c := startLSP(t, root)
	uri, definition := lsp.FileURI(filepath.Join(root, "first.yaml")), lsp.FileURI(filepath.Join(root, "crd.yaml"))
	text := widget + "  col: \n  color: blue\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\nda\n"
	c.Open(uri, text)
	c.Open(definition, widgetCRD)
	labels := func(line, character int) string {
		var list lsp.CompletionList
		c.Call("textDocument/completion", lsp.CompletionParams{TextDocumentPositionParams: at(uri, line, character)}, &list)
		var all []string
		for _, item := range list.Items {
			all = append(all, item.Label)
		}
		return strings.Join(all, " ")
	}
	if got := labels(6, 9); !strings.Contains(got, "red") || !strings.Contains(got, "green") {
		t.Errorf("values of color: %q", got)
	}
	if got := labels(11, 2); !strings.Contains(got, "data") || !strings.Contains(got, "binaryData") {
		t.Errorf("fields of a ConfigMap in the second document: %q", got)
	}
	var hover lsp.Hover
	c.Call("textDocument/hover", at(uri, 4, 3), &hover)
	if !strings.Contains(hover.Contents.Value, "millimetres") {
		t.Errorf("hover is %q", hover.Contents.Value)
	}
	var found []lsp.Location
	c.Call("textDocument/definition", at(uri, 4, 3), &found)
	if len(found) != 1 || found[0].URI != definition || found[0].Range.Start.Line != 20 {
		t.Errorf("the definition of size is %+v", found)
	}
	found = nil
	c.Call("textDocument/references", lsp.ReferenceParams{TextDocumentPositionParams: at(definition, 20, 15)}, &found)
	if len(found) != 1 || found[0].URI != uri || found[0].Range.Start.Line != 4 {
		t.Errorf("the objects with size are %+v", found)
	}
	var lenses []lsp.CodeLens
	c.Call("textDocument/codeLens", lsp.CodeLensParams{TextDocument: lsp.TextDocumentIdentifier{URI: definition}}, &lenses)
	if len(lenses) != 1 || lenses[0].Command != nil {
		t.Fatalf("got lenses %+v", lenses)
	}
	var lens lsp.CodeLens
	c.Call("codeLens/resolve", lenses[0], &lens)
	if lens.Command == nil || !strings.HasPrefix(lens.Command.Title, "1 object in the workspace") {
		t.Errorf("got the lens %+v", lens)
	}
	// The last line of the second document does not parse. Nothing else is hidden by that.
	c.AwaitDiagnostics(uri, func(p *lsp.PublishDiagnosticsParams) bool {
		return strings.Contains(rules(p), "syntax") && strings.Contains(rules(p), "validation/enum") && strings.Contains(rules(p), "unknown-field")
	})
	c.Change(uri, 2, whole(strings.Replace(widget, "size: 3", "size: 0\n  half typed\n  colour: red", 1)))
	c.AwaitDiagnostics(uri, func(p *lsp.PublishDiagnosticsParams) bool {
		return rules(p) == "syntax validation/minimum unknown-field"
	})

	// A required field and a misspelled one are fixed.
	c.Change(uri, 3, whole(strings.Replace(widget, "size: 3", "colour: red", 1)))
	got := c.AwaitDiagnostics(uri, func(p *lsp.PublishDiagnosticsParams) bool {
		return strings.Contains(rules(p), "validation/required") && len(p.Diagnostics) == 2
	})
	var titles []string
	for _, d := range got.Diagnostics {
		var actions []lsp.CodeAction
		c.Call("textDocument/codeAction", lsp.CodeActionParams{TextDocument: lsp.TextDocumentIdentifier{URI: uri}, Range: d.Range}, &actions)
		for _, a := range actions {
			titles = append(titles, a.Title)
		}
	}
	for _, want := range []string{"Add size", "color", "Remove", "Suppress"} {
		if !strings.Contains(strings.Join(titles, "; "), want) {
			t.Errorf("no action with %q in %q", want, titles)
		}
	}
	c.Shutdown()
}
