package lsp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"espalier.dev/cmd/espalier/internal/lsp"
)

const docURI = lsp.URI("file:///dir/a.yaml")

func TestRequests(t *testing.T) {
	t.Parallel()
	c, wait := serve(t, lsp.Options{}, &recorder{})
	result := c.Initialize(map[string]any{"capabilities": map[string]any{"general": map[string]any{"positionEncodings": []string{"utf-99", "utf-8", "utf-16"}}}})
	if got := result.Capabilities.PositionEncoding; got != lsp.UTF8 {
		t.Errorf("the encoding is %s", got)
	}
	c.Open(docURI, "é: 😀\nb")
	var hover lsp.Hover
	c.Call("textDocument/hover", at(docURI, 0, 4), &hover)
	if hover.Contents.Value != "é: " {
		t.Errorf("the text before the position is %q", hover.Contents.Value)
	}
	var list lsp.CompletionList
	c.Call("textDocument/completion", lsp.CompletionParams{
		TextDocumentPositionParams: at(docURI, 1, 9), Context: &lsp.CompletionContext{TriggerKind: lsp.CompletionCharacter, TriggerCharacter: ":"},
	}, &list)
	if len(list.Items) != 1 || list.Items[0].Label != "yaml" || list.Items[0].TextEdit.NewText != ":" || list.Items[0].TextEdit.Range.Start != (lsp.Position{Line: 1, Character: 1}) {
		t.Errorf("completion: %+v", list)
	}
	c.Notify("textDocument/didOpen", lsp.DidOpenParams{TextDocument: lsp.TextDocumentItem{URI: "untitled:1"}})
	var raw json.RawMessage
	c.Call("textDocument/completion", at("untitled:1", 0, 0), &raw)
	if string(raw) != `{"isIncomplete":false,"items":[]}` {
		t.Errorf("no completion: %s", raw)
	}
	var locations []lsp.Location
	c.Call("textDocument/definition", at(docURI, 1, 1), &locations)
	if len(locations) != 1 || locations[0].Range.End != (lsp.Position{Line: 1, Character: 1}) {
		t.Errorf("definition: %+v", locations)
	}
	references := lsp.ReferenceParams{TextDocumentPositionParams: at(docURI, 0, 0)}
	c.Call("textDocument/references", references, &locations)
	if len(locations) != 0 {
		t.Errorf("references: %+v", locations)
	}
	references.Context.IncludeDeclaration = true
	c.Call("textDocument/references", references, &locations)
	if len(locations) != 1 {
		t.Errorf("references with the declaration: %+v", locations)
	}
	var actions []lsp.CodeAction
	c.Call("textDocument/codeAction", json.RawMessage(`{"textDocument":{"uri":"file:///dir/a.yaml"},"range":{"start":{"line":1,"character":0},"end":{"line":1,"character":1}},
		"context":{"diagnostics":[{"range":{"start":{"line":0,"character":0},"end":{"line":0,"character":0}},"code":42,"message":"m"},
			{"range":{"start":{"line":0,"character":0},"end":{"line":0,"character":0}},"code":"x","message":"n","data":{"a":1}}]}}`), &actions)
	if len(actions) != 1 || actions[0].Title != "b 2" || actions[0].Diagnostics[0].Code != "42" || actions[0].Diagnostics[1].Code != "x" || string(actions[0].Diagnostics[1].Data) != `{"a":1}` {
		t.Errorf("code actions: %+v", actions)
	}
	if got := code(t, c.Start("textDocument/codeLens", lsp.CodeLensParams{TextDocument: lsp.TextDocumentIdentifier{URI: docURI}}).Wait(nil)); got != lsp.CodeContentModified {
		t.Errorf("the error of the session: %d", got)
	}
	for _, method := range []string{"completionItem/resolve", "codeLens/resolve", "workspace/executeCommand"} {
		if got := code(t, c.Start(method, struct{}{}).Wait(nil)); got != -32601 {
			t.Errorf("%s, which the session does not support: %d", method, got)
		}
	}
	if got := code(t, c.Start("textDocument/hover", []int{1}).Wait(nil)); got != -32602 {
		t.Errorf("invalid parameters: %d", got)
	}
	for _, method := range []string{"hover", "completion", "definition", "references", "codeAction", "codeLens", "documentSymbol", "foldingRange"} {
		c.Call("textDocument/"+method, at("file:///not/open", 0, 0), &raw)
		if string(raw) != "null" {
			t.Errorf("%s in a document that is not open: %s", method, raw)
		}
	}
	c.Shutdown()
	if err := wait(); err != nil {
		t.Error(err)
	}
}

// TestOrder checks that a request sees all changes before it, and none after it.
func TestOrder(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	r := &recorder{hover: func(ctx context.Context, docs *lsp.Documents, text *lsp.Text, _ int) (*lsp.Hover, error) {
		select {
		case <-release:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return &lsp.Hover{Contents: lsp.MarkupContent{Value: fmt.Sprintf("%d %s %v", text.Version(), text.Bytes(), docs.Get(text.URI()) == text)}}, nil
	}}
	c, _ := serve(t, lsp.Options{MaxRequests: 2}, r)
	c.Initialize(nil)
	c.Open(docURI, "")
	want := ""
	type sent struct {
		wait func(any) error
		want string
	}
	var calls []sent
	for i := range 50 {
		letter := string(rune('a' + i%26))
		c.Change(docURI, i+2, lsp.ContentChange{Range: &lsp.Range{Start: lsp.Position{Character: i}, End: lsp.Position{Character: i}}, Text: letter})
		want += letter
		calls = append(calls, sent{c.Start("textDocument/hover", at(docURI, 0, 0)).Wait, fmt.Sprintf("%d %s true", i+2, want)})
	}
	c.CloseDocument(docURI)
	var gone json.RawMessage
	after := c.Start("textDocument/hover", at(docURI, 0, 0))
	close(release)
	for _, call := range calls {
		var hover lsp.Hover
		if err := call.wait(&hover); err != nil || hover.Contents.Value != call.want {
			t.Errorf("%q, %v, want %q", hover.Contents.Value, err, call.want)
		}
	}
	if err := after.Wait(&gone); err != nil || string(gone) != "null" {
		t.Errorf("after the document was closed: %s, %v", gone, err)
	}
}

// TestConcurrency checks that requests run at the same time, but not too many.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	var active atomic.Int32
	started, release := make(chan struct{}, 20), make(chan struct{})
	r := &recorder{hover: func(context.Context, *lsp.Documents, *lsp.Text, int) (*lsp.Hover, error) {
		if n := active.Add(1); n > 2 {
			t.Errorf("%d requests at the same time", n)
		}
		defer active.Add(-1)
		started <- struct{}{}
		<-release
		return nil, nil
	}}
	c, _ := serve(t, lsp.Options{MaxRequests: 2, MaxWaiting: 20}, r)
	c.Initialize(nil)
	c.Open(docURI, "")
	var waits []func(any) error
	for range 20 {
		waits = append(waits, c.Start("textDocument/hover", at(docURI, 0, 0)).Wait)
	}
	<-started
	<-started
	// The server reads on.
	for range 20 {
		if got := code(t, c.Start("unheardOf", nil).Wait(nil)); got != -32601 {
			t.Errorf("an unknown request: %d", got)
		}
	}
	close(release)
	for _, wait := range waits {
		if err := wait(nil); err != nil {
			t.Error(err)
		}
	}
}

// TestTooMany checks that requests beyond the limit are rejected while others wait.
func TestTooMany(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	r := &recorder{hover: func(context.Context, *lsp.Documents, *lsp.Text, int) (*lsp.Hover, error) {
		<-release
		return nil, nil
	}}
	c, _ := serve(t, lsp.Options{MaxRequests: 1, MaxWaiting: 3}, r)
	c.Initialize(nil)
	c.Open(docURI, "")
	var calls []func(any) error
	for range 3 {
		calls = append(calls, c.Start("textDocument/hover", at(docURI, 0, 0)).Wait)
	}
	if got := code(t, c.Start("textDocument/hover", at(docURI, 0, 0)).Wait(nil)); got != lsp.CodeServerCancelled {
		t.Errorf("one request too many: %d", got)
	}
	close(release)
	for _, wait := range calls {
		if err := wait(nil); err != nil {
			t.Error(err)
		}
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	started := make(chan struct{}, 100)
	r := &recorder{hover: func(ctx context.Context, _ *lsp.Documents, _ *lsp.Text, offset int) (*lsp.Hover, error) {
		if offset == 0 {
			started <- struct{}{}
			<-ctx.Done()
		}
		// Results of canceled requests are not sent.
		return &lsp.Hover{}, nil
	}}
	c, _ := serve(t, lsp.Options{MaxRequests: 1}, r)
	c.Initialize(nil)
	c.Open(docURI, "abc")
	runs := c.Start("textDocument/hover", at(docURI, 0, 0))
	<-started
	// These wait for the first one.
	waits := c.Start("textDocument/hover", at(docURI, 0, 0))
	stays := c.Start("textDocument/hover", at(docURI, 0, 1))
	waits.Cancel()
	if got := code(t, waits.Wait(nil)); got != lsp.CodeRequestCancelled {
		t.Errorf("a request that waits: %d", got)
	}
	runs.Cancel()
	if got := code(t, runs.Wait(nil)); got != lsp.CodeRequestCancelled {
		t.Errorf("a request that runs: %d", got)
	}
	if err := stays.Wait(nil); err != nil {
		t.Errorf("another request: %v", err)
	}
	stays.Cancel()
	c.Notify("$/cancelRequest", map[string]any{"id": "unknown"})
	c.Notify("$/cancelRequest", map[string]any{"id": []int{1}})
	c.Notify("$/cancelRequest", nil)

	// A client that cancels everything gets all answers.
	var all []func(any) error
	for range 100 {
		call := c.Start("textDocument/hover", at(docURI, 0, 0))
		call.Cancel()
		all = append(all, call.Wait)
	}
	for _, wait := range all {
		if got := code(t, wait(nil)); got != lsp.CodeRequestCancelled {
			t.Errorf("a request of many: %d", got)
		}
	}
	c.Call("textDocument/hover", at(docURI, 0, 1), nil)
}

func TestShutdownCancels(t *testing.T) {
	t.Parallel()
	started := make(chan struct{})
	r := &recorder{hover: func(ctx context.Context, _ *lsp.Documents, _ *lsp.Text, _ int) (*lsp.Hover, error) {
		close(started)
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	c, wait := serve(t, lsp.Options{}, r)
	c.Initialize(nil)
	c.Open(docURI, "")
	call := c.Start("textDocument/hover", at(docURI, 0, 0))
	<-started
	c.Call("shutdown", nil, nil)
	if got := code(t, call.Wait(nil)); got != lsp.CodeRequestCancelled {
		t.Errorf("a request that runs: %d", got)
	}
	c.Notify("exit", nil)
	c.WaitClosed()
	if err := wait(); err != nil {
		t.Error(err)
	}
}

// TestPanic checks that a panic fails one request, and that later ones are answered.
func TestPanic(t *testing.T) {
	t.Parallel()
	var runs atomic.Int32
	r := &recorder{
		hover:  func(context.Context, *lsp.Documents, *lsp.Text, int) (*lsp.Hover, error) { panic("in hover") },
		change: func(*lsp.Documents, lsp.Change) { panic("in changed") },
		ready:  func(context.Context) { panic("in initialized") },
		diagnose: func(_ context.Context, docs *lsp.Documents, publish func(lsp.URI, []lsp.Diagnostic)) error {
			if runs.Add(1) == 1 {
				panic("in diagnose")
			}
			publish(docURI, []lsp.Diagnostic{{Message: "found"}})
			return nil
		},
	}
	c, wait := serve(t, lsp.Options{}, r)
	c.Initialize(nil)
	c.Open(docURI, "abc")
	if err := c.Start("textDocument/hover", at(docURI, 0, 0)).Wait(nil); code(t, err) != -32603 || !strings.Contains(err.Error(), "in hover") {
		t.Errorf("a panic: %v", err)
	}
	for _, where := range []string{"in hover", "in changed", "in initialized", "in diagnose"} {
		logged(c, where)
	}
	c.Change(docURI, 2, lsp.ContentChange{Text: "abcd"})
	c.AwaitDiagnostics(docURI, func(p *lsp.PublishDiagnosticsParams) bool { return len(p.Diagnostics) == 1 && *p.Version == 2 })
	c.Shutdown()
	if err := wait(); err != nil {
		t.Error(err)
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	c, _ := serve(t, lsp.Options{}, r)
	c.Initialize(nil)
	c.Open(docURI, "a")
	c.Change(docURI, 2, lsp.ContentChange{Text: "b"})
	c.Notify("textDocument/didSave", lsp.DidSaveParams{TextDocument: lsp.TextDocumentIdentifier{URI: docURI}})
	c.CloseDocument(docURI)
	c.Notify("workspace/didChangeWatchedFiles", lsp.DidChangeWatchedFilesParams{Changes: []lsp.FileEvent{{URI: "file:///x", Type: lsp.FileDeleted}}})
	c.Notify("workspace/didChangeWorkspaceFolders", json.RawMessage(`{"event":{"added":[{"uri":"file:///n","name":"n"}],"removed":[{"uri":"file:///o","name":"o"}]}}`))
	c.Notify("workspace/didChangeConfiguration", json.RawMessage(`{"settings":{"a":1}}`))
	// These change nothing.
	c.CloseDocument(docURI)
	c.Notify("textDocument/didSave", lsp.DidSaveParams{TextDocument: lsp.TextDocumentIdentifier{URI: docURI}})
	c.Change(docURI, 3, lsp.ContentChange{Text: "c"})
	c.Notify("workspace/didChangeWatchedFiles", lsp.DidChangeWatchedFilesParams{})
	c.Notify("textDocument/didChange", "nonsense")
	c.Call("textDocument/hover", at(docURI, 0, 0), nil)

	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.changes) != 7 {
		t.Fatalf("%d changes: %+v", len(r.changes), r.changes)
	}
	if opened := r.changes[0].Opened; opened == nil || string(opened.Bytes()) != "a" || opened.Version() != 1 || opened.Language() != "yaml" {
		t.Errorf("opened: %+v", opened)
	}
	if edited := r.changes[1].Edited; edited == nil || string(edited.Bytes()) != "b" || edited.Version() != 2 || edited.Language() != "yaml" {
		t.Errorf("edited: %+v", edited)
	}
	if saved := r.changes[2].Saved; saved != r.changes[1].Edited {
		t.Errorf("saved: %+v", saved)
	}
	if closed := r.changes[3].Closed; closed != docURI {
		t.Errorf("closed: %s", closed)
	}
	if files := r.changes[4].Files; len(files) != 1 || files[0].Type != lsp.FileDeleted {
		t.Errorf("files: %+v", files)
	}
	if c := r.changes[5]; len(c.AddedFolders) != 1 || c.AddedFolders[0].Name != "n" || len(c.RemovedFolders) != 1 || c.RemovedFolders[0].URI != "file:///o" {
		t.Errorf("folders: %+v", c)
	}
	if c := r.changes[6]; !c.SettingsChanged || string(c.Settings) != `{"a":1}` {
		t.Errorf("settings: %+v", c)
	}
	logged(c, "is not open")
	logged(c, "textDocument/didChange: ")
}

// TestFlood sends 10,000 changes, with requests among them.
func TestFlood(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	running, runs := 0, 0
	r := &recorder{diagnose: func(_ context.Context, docs *lsp.Documents, publish func(lsp.URI, []lsp.Diagnostic)) error {
		mu.Lock()
		running++
		runs++
		if running > 1 {
			t.Error("two runs at the same time")
		}
		mu.Unlock()
		publish(docURI, []lsp.Diagnostic{{Message: fmt.Sprint(len(docs.Get(docURI).Bytes()))}})
		mu.Lock()
		running--
		mu.Unlock()
		return nil
	}}
	c, wait := serve(t, lsp.Options{}, r)
	c.Initialize(nil)
	c.Open(docURI, strings.Repeat("key: value\n", 1000))
	const n = 10_000
	for i := range n {
		c.Change(docURI, i+2, lsp.ContentChange{Range: &lsp.Range{Start: lsp.Position{Line: i % 1000}, End: lsp.Position{Line: i % 1000}}, Text: "x"})
		if i%500 == 0 {
			c.Call("textDocument/hover", at(docURI, 0, 0), nil)
		}
	}
	want := fmt.Sprint(11*1000 + n)
	c.AwaitDiagnostics(docURI, func(p *lsp.PublishDiagnosticsParams) bool {
		return len(p.Diagnostics) == 1 && p.Diagnostics[0].Message == want && *p.Version == n+1
	})
	mu.Lock()
	defer mu.Unlock()
	if runs > n/10 {
		t.Errorf("%d runs after %d changes", runs, n)
	}
	c.Shutdown()
	if err := wait(); err != nil {
		t.Error(err)
	}
}
