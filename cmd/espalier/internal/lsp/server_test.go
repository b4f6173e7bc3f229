package lsp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"espalier.dev/cmd/espalier/internal/lsp"
	"espalier.dev/cmd/espalier/internal/lsp/lsptest"
)

// recorder is a session that records what it is told. Functions that are set replace the methods.
type recorder struct {
	client *lsp.Client

	mu       sync.Mutex
	changes  []lsp.Change
	closed   int
	diagnose func(ctx context.Context, docs *lsp.Documents, publish func(lsp.URI, []lsp.Diagnostic)) error
	hover    func(ctx context.Context, docs *lsp.Documents, text *lsp.Text, offset int) (*lsp.Hover, error)
	init     func(ctx context.Context, p *lsp.InitializeParams) (*lsp.Features, error)
	ready    func(ctx context.Context)
	change   func(docs *lsp.Documents, c lsp.Change)
}

func (r *recorder) Initialize(ctx context.Context, p *lsp.InitializeParams) (*lsp.Features, error) {
	if r.init != nil {
		return r.init(ctx, p)
	}
	return &lsp.Features{Name: "test", Version: "1", CompletionTriggers: []string{":"}, Watch: []string{"**/*.yaml"}}, nil
}

func (r *recorder) Initialized(ctx context.Context) {
	if r.ready != nil {
		r.ready(ctx)
	}
}

func (r *recorder) Changed(docs *lsp.Documents, c lsp.Change) {
	r.mu.Lock()
	r.changes = append(r.changes, c)
	r.mu.Unlock()
	if r.change != nil {
		r.change(docs, c)
	}
}

func (r *recorder) Diagnose(ctx context.Context, docs *lsp.Documents, publish func(lsp.URI, []lsp.Diagnostic)) error {
	if r.diagnose != nil {
		return r.diagnose(ctx, docs, publish)
	}
	return nil
}

func (r *recorder) Completion(_ context.Context, _ *lsp.Documents, text *lsp.Text, offset int, how lsp.CompletionContext) (*lsp.CompletionList, error) {
	if text.Language() == "" {
		return &lsp.CompletionList{}, nil
	}
	edit := lsp.TextEdit{Range: text.Range(offset, offset), NewText: how.TriggerCharacter}
	return &lsp.CompletionList{Items: []lsp.CompletionItem{{Label: text.Language(), TextEdit: &edit}}}, nil
}

// Hover returns the text before the position.
func (r *recorder) Hover(ctx context.Context, docs *lsp.Documents, text *lsp.Text, offset int) (*lsp.Hover, error) {
	if r.hover != nil {
		return r.hover(ctx, docs, text, offset)
	}
	return &lsp.Hover{Contents: lsp.MarkupContent{Kind: lsp.PlainText, Value: string(text.Bytes()[:offset])}}, nil
}

func (r *recorder) Definition(_ context.Context, _ *lsp.Documents, text *lsp.Text, offset int) ([]lsp.Location, error) {
	return []lsp.Location{{URI: text.URI(), Range: text.Range(0, offset)}}, nil
}

func (r *recorder) References(_ context.Context, _ *lsp.Documents, text *lsp.Text, offset int, declaration bool) ([]lsp.Location, error) {
	if !declaration {
		return nil, nil
	}
	return []lsp.Location{{URI: text.URI(), Range: text.Range(offset, offset)}}, nil
}

func (r *recorder) CodeActions(_ context.Context, _ *lsp.Documents, text *lsp.Text, start, end int, request *lsp.CodeActionContext) ([]lsp.CodeAction, error) {
	return []lsp.CodeAction{{
		Title: fmt.Sprintf("%s %d", text.Bytes()[start:end], len(request.Diagnostics)), Kind: lsp.QuickFix, Diagnostics: request.Diagnostics,
	}}, nil
}

func (r *recorder) CodeLenses(_ context.Context, _ *lsp.Documents, text *lsp.Text) ([]lsp.CodeLens, error) {
	return nil, lsp.Errorf(lsp.CodeContentModified, "%s has changed", text.URI())
}

func (r *recorder) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed++
}

// serve serves a session over a socket. It returns the client, and a function that waits for the
// result of Serve.
func serve(t *testing.T, options lsp.Options, session *recorder) (*lsptest.Client, func() error) {
	t.Helper()
	return serveContext(t, t.Context(), options, session)
}

func serveContext(t *testing.T, ctx context.Context, options lsp.Options, session *recorder) (*lsptest.Client, func() error) {
	t.Helper()
	ours, theirs := connection(t)
	result := make(chan error, 1)
	go func() {
		result <- lsp.Serve(ctx, theirs, options, func(c *lsp.Client) lsp.Session {
			session.client = c
			return session
		})
	}()
	client := lsptest.New(t, ours)
	var once sync.Once
	var err error
	wait := func() error {
		t.Helper()
		once.Do(func() {
			select {
			case err = <-result:
			case <-time.After(time.Minute):
				t.Fatal("Serve does not return")
			}
		})
		return err
	}
	t.Cleanup(func() {
		client.CloseConnection()
		_ = wait()
		session.mu.Lock()
		defer session.mu.Unlock()
		if session.closed != 1 {
			t.Errorf("the session was closed %d times", session.closed)
		}
	})
	return client, wait
}

// connection returns both ends of a connection over loopback.
func connection(t *testing.T) (ours, theirs net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if ours, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if theirs, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

// code returns the code of an error of the server.
func code(t *testing.T, err error) int64 {
	t.Helper()
	var e *lsptest.Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is not an error of the server", err)
	}
	return e.Code
}

// at returns parameters of a request about a position.
func at(uri lsp.URI, line, character int) lsp.TextDocumentPositionParams {
	return lsp.TextDocumentPositionParams{
		TextDocument: lsp.TextDocumentIdentifier{URI: uri}, Position: lsp.Position{Line: line, Character: character},
	}
}

func TestLifecycle(t *testing.T) {
	t.Parallel()
	c, wait := serve(t, lsp.Options{}, &recorder{})
	if got := code(t, c.Start("textDocument/hover", at("file:///a", 0, 0)).Wait(nil)); got != lsp.CodeServerNotInitialized {
		t.Errorf("a request before initialize: %d", got)
	}
	c.Notify("textDocument/didOpen", json.RawMessage(`{"textDocument":{"uri":"file:///early","text":"a"}}`))
	result := c.Initialize(nil)
	if result.ServerInfo.Name != "test" || result.Capabilities.PositionEncoding != lsp.UTF16 || result.Capabilities.TextDocumentSync.Change != lsp.SyncIncremental {
		t.Errorf("initialize: %+v", result)
	}
	if got := code(t, c.Start("initialize", struct{}{}).Wait(nil)); got != -32600 {
		t.Errorf("a second initialize: %d", got)
	}
	if got := code(t, c.Start("textDocument/unheardOf", struct{}{}).Wait(nil)); got != -32601 {
		t.Errorf("an unknown request: %d", got)
	}
	c.Notify("$/unheardOf", struct{}{})
	c.Notify("workspace/unheardOf", struct{}{})
	var hover *lsp.Hover
	c.Call("textDocument/hover", at("file:///early", 0, 0), &hover)
	if hover != nil {
		t.Errorf("a document that was opened before initialize: %+v", hover)
	}
	c.Call("shutdown", nil, nil)
	if got := code(t, c.Start("textDocument/hover", at("file:///a", 0, 0)).Wait(nil)); got != -32600 {
		t.Errorf("a request after shutdown: %d", got)
	}
	c.Notify("exit", nil)
	c.WaitClosed()
	if err := wait(); err != nil {
		t.Error(err)
	}
}

// logged waits until the server has logged a message that contains a text.
func logged(c *lsptest.Client, text string) {
	awaitMessage(c, "window/logMessage", text)
}

// awaitMessage waits for a notification whose message contains a text.
func awaitMessage(c *lsptest.Client, method, text string) {
	c.Await(method+" with "+text, func(m *lsptest.Message) bool {
		var p lsp.MessageParams
		return m.Method == method && json.Unmarshal(m.Params, &p) == nil && strings.Contains(p.Message, text)
	})
}
