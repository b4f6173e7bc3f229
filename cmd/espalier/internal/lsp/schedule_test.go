package lsp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"espalier.dev/cmd/espalier/internal/lsp"
	"espalier.dev/cmd/espalier/internal/lsp/lsptest"
)

// publications returns how often diagnostics of a document were published.
func publications(c *lsptest.Client, uri lsp.URI) (n int) {
	for _, m := range c.Received("textDocument/publishDiagnostics") {
		var p lsp.PublishDiagnosticsParams
		if json.Unmarshal(m.Params, &p) == nil && p.URI == uri {
			n++
		}
	}
	return n
}

// words is a session that finds each "bad" in the open documents, and one in a file that is not open.
func words(_ context.Context, docs *lsp.Documents, publish func(lsp.URI, []lsp.Diagnostic)) error {
	for _, text := range docs.All() {
		var found []lsp.Diagnostic
		for at, rest := 0, string(text.Bytes()); ; {
			i := strings.Index(rest, "bad")
			if i < 0 {
				break
			}
			found = append(found, lsp.Diagnostic{Range: text.Range(at+i, at+i+3), Severity: lsp.SeverityError, Message: "bad"})
			at, rest = at+i+3, rest[i+3:]
		}
		publish(text.URI(), found)
	}
	publish("file:///other.yaml", []lsp.Diagnostic{{Message: "elsewhere"}})
	return nil
}

func TestDiagnostics(t *testing.T) {
	t.Parallel()
	r := &recorder{diagnose: words}
	c, _ := serve(t, lsp.Options{}, r)
	c.Initialize(nil)
	count := func(n, version int) func(*lsp.PublishDiagnosticsParams) bool {
		return func(p *lsp.PublishDiagnosticsParams) bool {
			return len(p.Diagnostics) == n && (version == 0 && p.Version == nil || p.Version != nil && *p.Version == version)
		}
	}
	c.Open(docURI, "a: 😀bad\n")
	first := c.AwaitDiagnostics(docURI, count(1, 1))
	if got := first.Diagnostics[0].Range; got != (lsp.Range{Start: lsp.Position{Character: 5}, End: lsp.Position{Character: 8}}) {
		t.Errorf("the range is %v", got)
	}
	c.AwaitDiagnostics("file:///other.yaml", count(1, 0))
	c.Change(docURI, 2, lsp.ContentChange{Range: &lsp.Range{}, Text: "bad\n"})
	c.AwaitDiagnostics(docURI, count(2, 2))
	// The same findings in a new version are published, so that clients do not discard them.
	c.Change(docURI, 3, lsp.ContentChange{Range: &lsp.Range{Start: lsp.Position{Line: 2}, End: lsp.Position{Line: 2}}, Text: "# good"})
	c.AwaitDiagnostics(docURI, count(2, 3))
	c.Change(docURI, 4, lsp.ContentChange{Text: "good"})
	c.AwaitDiagnostics(docURI, count(0, 4))
	// Nothing to say about a new version without findings.
	c.Change(docURI, 5, lsp.ContentChange{Text: "good too"})
	c.Open("file:///b.yaml", "bad")
	c.AwaitDiagnostics("file:///b.yaml", count(1, 1))
	if got := publications(c, docURI); got != 4 {
		t.Errorf("%s was published %d times", docURI, got)
	}
	if got := publications(c, "file:///other.yaml"); got != 1 {
		t.Errorf("a file that has not changed was published %d times", got)
	}
	c.CloseDocument("file:///b.yaml")
	c.AwaitDiagnostics("file:///b.yaml", count(0, 0))
	for _, m := range c.Received("textDocument/publishDiagnostics") {
		if strings.Contains(string(m.Params), `"diagnostics":null`) {
			t.Errorf("diagnostics are null: %s", m.Params)
		}
	}
}

// TestRediagnose checks that a session can ask for a run.
func TestRediagnose(t *testing.T) {
	t.Parallel()
	var known atomic.Bool
	r := &recorder{diagnose: func(_ context.Context, _ *lsp.Documents, publish func(lsp.URI, []lsp.Diagnostic)) error {
		if known.Load() {
			publish(docURI, []lsp.Diagnostic{{Message: "new"}})
		}
		return nil
	}}
	r.ready = func(context.Context) {
		known.Store(true)
		r.client.Diagnose()
	}
	c, _ := serve(t, lsp.Options{}, r)
	c.Initialize(nil)
	c.AwaitDiagnostics(docURI, func(p *lsp.PublishDiagnosticsParams) bool { return len(p.Diagnostics) == 1 })
}

// TestFailedDiagnose checks that findings stay if a run fails, except for those of closed documents.
func TestFailedDiagnose(t *testing.T) {
	t.Parallel()
	var fail atomic.Bool
	r := &recorder{diagnose: func(ctx context.Context, docs *lsp.Documents, publish func(lsp.URI, []lsp.Diagnostic)) error {
		if fail.Load() {
			return errors.New("no CRDs")
		}
		return words(ctx, docs, publish)
	}}
	c, _ := serve(t, lsp.Options{}, r)
	c.Initialize(nil)
	c.Open(docURI, "bad")
	c.Open("file:///b.yaml", "bad")
	one := func(p *lsp.PublishDiagnosticsParams) bool { return len(p.Diagnostics) == 1 }
	c.AwaitDiagnostics(docURI, one)
	c.AwaitDiagnostics("file:///b.yaml", one)
	fail.Store(true)
	c.CloseDocument("file:///b.yaml")
	c.AwaitDiagnostics("file:///b.yaml", func(p *lsp.PublishDiagnosticsParams) bool { return len(p.Diagnostics) == 0 })
	logged(c, "no CRDs")
	if got := len(c.Diagnostics(docURI).Diagnostics); got != 1 {
		t.Errorf("%d findings after a run that failed", got)
	}
}

// TestOutdated checks that a change cancels the run before it, whose findings are not published.
func TestOutdated(t *testing.T) {
	t.Parallel()
	started := make(chan struct{}, 10)
	r := &recorder{diagnose: func(ctx context.Context, docs *lsp.Documents, publish func(lsp.URI, []lsp.Diagnostic)) error {
		text := docs.Get(docURI)
		if text.Version() == 1 {
			started <- struct{}{}
			<-ctx.Done()
		}
		publish(docURI, []lsp.Diagnostic{{Message: fmt.Sprint(text.Version())}})
		return nil
	}}
	c, _ := serve(t, lsp.Options{MaxCanceled: time.Hour}, r)
	c.Initialize(nil)
	c.Open(docURI, "a")
	<-started
	c.Change(docURI, 2, lsp.ContentChange{Text: "b"})
	c.AwaitDiagnostics(docURI, func(p *lsp.PublishDiagnosticsParams) bool { return p.Diagnostics[0].Message == "2" })
	if got := publications(c, docURI); got != 1 {
		t.Errorf("published %d times", got)
	}
}

// TestConstantChange checks that a run comes to an end although documents change all the time.
func TestConstantChange(t *testing.T) {
	t.Parallel()
	changes := make(chan struct{}, 1)
	r := &recorder{
		change: func(*lsp.Documents, lsp.Change) {
			select {
			case changes <- struct{}{}:
			default:
			}
		},
		// A run takes longer than the time between two changes.
		diagnose: func(ctx context.Context, docs *lsp.Documents, publish func(lsp.URI, []lsp.Diagnostic)) error {
			for range 5 {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-changes:
				}
			}
			publish(docURI, []lsp.Diagnostic{{Message: "found"}})
			return nil
		},
	}
	c, _ := serve(t, lsp.Options{Pause: time.Millisecond, MaxPause: 2 * time.Millisecond, MaxCanceled: 20 * time.Millisecond}, r)
	c.Initialize(nil)
	c.Open(docURI, "a")
	for version := 2; c.Diagnostics(docURI) == nil; version++ {
		if version > 10_000 {
			t.Fatal("no run has finished")
		}
		c.Change(docURI, version, lsp.ContentChange{Text: "a"})
		time.Sleep(time.Millisecond)
	}
}

// TestClientRequests checks what the server asks and tells the client.
func TestClientRequests(t *testing.T) {
	t.Parallel()
	done := make(chan error, 1)
	r := &recorder{}
	r.ready = func(ctx context.Context) {
		c := r.client
		progress := c.Progress(ctx, "Loading", "CRDs")
		progress.Report("more CRDs")
		progress.End("done")
		settings, err := c.Configuration(ctx, "espalier")
		if string(settings) != `{"a":1}` {
			err = errors.Join(err, fmt.Errorf("the settings are %s", settings))
		}
		done <- errors.Join(err, c.RefreshCodeLenses(ctx), c.ApplyEdit(ctx, "Fix", lsp.WorkspaceEdit{}),
			c.UnregisterCapability(ctx, lsp.Unregistration{ID: "espalier-files", Method: "workspace/didChangeWatchedFiles"}))
	}
	c, _ := serve(t, lsp.Options{}, r)
	c.Configuration = map[string]any{"espalier": map[string]any{"a": 1}}
	c.Initialize(json.RawMessage(`{"processId":null,"rootUri":"file:///root","capabilities":{
		"workspace":{"configuration":true,"codeLens":{"refreshSupport":true},"didChangeWatchedFiles":{"dynamicRegistration":true}},
		"textDocument":{"publishDiagnostics":{"tagSupport":true},"completion":{"completionItem":{"tagSupport":{"valueSet":[1]}}}},
		"window":{"workDoneProgress":true}}}`))
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, method := range []string{"client/registerCapability", "window/workDoneProgress/create", "workspace/configuration", "workspace/codeLens/refresh", "workspace/applyEdit", "client/unregisterCapability"} {
		if n := len(c.Received(method)); n != 1 {
			t.Errorf("%d requests %s", n, method)
		}
	}
	registered := string(c.Received("client/registerCapability")[0].Params)
	if !strings.Contains(registered, `{"watchers":[{"globPattern":"**/*.yaml"}]}`) {
		t.Errorf("registered: %s", registered)
	}
	var kinds []string
	for _, m := range c.Received("$/progress") {
		var p struct{ Value lsp.ProgressValue }
		if err := json.Unmarshal(m.Params, &p); err != nil {
			t.Error(err)
		}
		kinds = append(kinds, p.Value.Kind)
	}
	if fmt.Sprint(kinds) != "[begin report end]" {
		t.Errorf("progress: %v", kinds)
	}
	if got := r.client.Params().Folders(); len(got) != 1 || got[0].URI != "file:///root" {
		t.Errorf("folders: %v", got)
	}
	if tags := r.client.Capabilities().TextDocument.Completion.CompletionItem.TagSupport; len(tags.Values) != 1 {
		t.Errorf("tags: %v", tags)
	}
}

// TestPlainClient checks that clients without capabilities are asked nothing.
func TestPlainClient(t *testing.T) {
	t.Parallel()
	done := make(chan error, 1)
	r := &recorder{}
	r.ready = func(ctx context.Context) {
		r.client.Progress(ctx, "Loading", "").End("")
		settings, err := r.client.Configuration(ctx, "espalier")
		if settings != nil {
			err = fmt.Errorf("the settings are %s", settings)
		}
		done <- errors.Join(err, r.client.RefreshCodeLenses(ctx))
	}
	c, _ := serve(t, lsp.Options{}, r)
	c.Requested = func(method string, _ json.RawMessage) any {
		t.Errorf("the client was asked %s", method)
		return nil
	}
	c.Initialize(nil)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestUnansweredRequest checks that a request of the server ends with its context.
func TestUnansweredRequest(t *testing.T) {
	t.Parallel()
	done := make(chan error, 1)
	r := &recorder{}
	block := make(chan struct{})
	r.ready = func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		done <- r.client.ApplyEdit(ctx, "", lsp.WorkspaceEdit{})
	}
	c, _ := serve(t, lsp.Options{}, r)
	c.Requested = func(string, json.RawMessage) any {
		<-block
		return nil
	}
	c.Notify("unheardOf", nil)
	call := c.Start("initialize", struct{}{})
	if err := call.Wait(nil); err != nil {
		t.Fatal(err)
	}
	c.Notify("initialized", struct{}{})
	if err := <-done; !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	close(block)
	c.Await("the cancellation", func(m *lsptest.Message) bool { return m.Method == "$/cancelRequest" })
}
