// Package lsptest has a client of a language server for tests. It shares no code with the server, so
// that a mistake in the protocol is not made on both sides.
package lsptest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/textproto"
	"strconv"
	"sync"
	"testing"
	"time"

	"espalier.dev/cmd/espalier/internal/lsp"
)

// patience is how long a test waits for the server before it fails.
const patience = 60 * time.Second

// Client is the client of a language server.
type Client struct {
	t   testing.TB
	rwc io.ReadWriteCloser

	// Configuration is the answer to workspace/configuration, for each section.
	Configuration map[string]any
	// Requested is called with each request of the server, if it is set. Its result is the answer.
	Requested func(method string, params json.RawMessage) any

	writing sync.Mutex

	mu    sync.Mutex
	next  int
	calls map[int]chan *Message
	inbox []*Message
	// diagnostics are the last ones that were published, by document.
	diagnostics map[lsp.URI]*lsp.PublishDiagnosticsParams
	changed     chan struct{}
	// Closed is closed when the server has closed the connection.
	Closed chan struct{}
}

// Message is a message of the server.
type Message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *Error          `json:"error"`
}

// Error is the error of a request.
type Error struct {
	Code    int64  `json:"code"`
	Message string `json:"message"`
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%d: %s", e.Code, e.Message) }

// New returns a client of the server at the other end of a connection, and reads its messages until
// the connection ends. The end of the test closes it.
func New(t testing.TB, rwc io.ReadWriteCloser) *Client {
	c := &Client{t: t, rwc: rwc, calls: map[int]chan *Message{}, diagnostics: map[lsp.URI]*lsp.PublishDiagnosticsParams{},
		changed: make(chan struct{}), Closed: make(chan struct{})}
	go c.read()
	t.Cleanup(func() {
		_ = rwc.Close()
		select {
		case <-c.Closed:
		case <-time.After(patience):
			t.Error("the client's connection has no end after it was closed")
		}
	})
	return c
}

// read reads messages until the connection ends.
func (c *Client) read() {
	defer close(c.Closed)
	in := bufio.NewReader(c.rwc)
	for {
		m, err := readMessage(in)
		if err != nil {
			c.mu.Lock()
			for id, call := range c.calls {
				close(call)
				delete(c.calls, id)
			}
			c.mu.Unlock()
			return
		}
		switch {
		case m.Method != "" && len(m.ID) > 0:
			c.record(m)
			c.answer(m)
		case m.Method != "":
			c.record(m)
		default:
			id, err := strconv.Atoi(string(m.ID))
			c.mu.Lock()
			call := c.calls[id]
			delete(c.calls, id)
			c.mu.Unlock()
			if err != nil || call == nil {
				// Answers to messages that are none have no id.
				c.record(m)
				continue
			}
			call <- m
		}
	}
}

// readMessage reads a message.
func readMessage(in *bufio.Reader) (*Message, error) {
	header, err := textproto.NewReader(in).ReadMIMEHeader()
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(header.Get("Content-Length"))
	if err != nil {
		return nil, err
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(in, data); err != nil {
		return nil, err
	}
	m := &Message{}
	return m, json.Unmarshal(data, m)
}

// record keeps a notification or request of the server.
func (c *Client) record(m *Message) {
	var p lsp.PublishDiagnosticsParams
	if m.Method == "textDocument/publishDiagnostics" {
		if err := json.Unmarshal(m.Params, &p); err != nil {
			c.t.Errorf("publishDiagnostics: %v", err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.URI != "" {
		c.diagnostics[p.URI] = &p
	}
	c.inbox = append(c.inbox, m)
	close(c.changed)
	c.changed = make(chan struct{})
}

// answer answers a request of the server.
func (c *Client) answer(m *Message) {
	var result any
	switch {
	case c.Requested != nil:
		result = c.Requested(m.Method, m.Params)
	case m.Method == "workspace/applyEdit":
		result = map[string]any{"applied": true}
	case m.Method == "workspace/configuration":
		var p lsp.ConfigurationParams
		_ = json.Unmarshal(m.Params, &p)
		values := []any{}
		for _, item := range p.Items {
			values = append(values, c.Configuration[item.Section])
		}
		result = values
	}
	_ = c.send(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": result})
}

// send sends a message.
func (c *Client) send(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.Raw(fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(data), data))
}

// Raw writes text to the connection.
func (c *Client) Raw(text string) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := io.WriteString(c.rwc, text)
	return err
}

// CloseConnection closes the connection, like a client that dies.
func (c *Client) CloseConnection() { _ = c.rwc.Close() }

// Notify sends a notification.
func (c *Client) Notify(method string, params any) {
	c.t.Helper()
	if err := c.send(map[string]any{"jsonrpc": "2.0", "method": method, "params": params}); err != nil {
		c.t.Errorf("sending %s: %v", method, err)
	}
}

// Call is a request that has been sent.
type Call struct {
	// ID is the id of the request.
	ID     int
	client *Client
	method string
	answer chan *Message
}

// Start sends a request.
func (c *Client) Start(method string, params any) *Call {
	c.t.Helper()
	c.mu.Lock()
	c.next++
	call := &Call{ID: c.next, client: c, method: method, answer: make(chan *Message, 1)}
	c.calls[call.ID] = call.answer
	c.mu.Unlock()
	message := map[string]any{"jsonrpc": "2.0", "id": call.ID, "method": method}
	if params != nil {
		message["params"] = params
	}
	if err := c.send(message); err != nil {
		c.t.Errorf("sending %s: %v", method, err)
	}
	return call
}

// Cancel cancels the request. The server answers nevertheless.
func (c *Call) Cancel() {
	c.client.t.Helper()
	c.client.Notify("$/cancelRequest", map[string]any{"id": c.ID})
}

// Wait waits for the answer and stores it in result, unless that is nil. An error of the server is an
// [*Error].
func (c *Call) Wait(result any) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	select {
	case <-ctx.Done():
		return fmt.Errorf("%s: no answer after %v", c.method, patience)
	case m, ok := <-c.answer:
		switch {
		case !ok:
			return fmt.Errorf("%s: %w", c.method, io.ErrUnexpectedEOF)
		case m.Error != nil:
			return m.Error
		case result == nil:
			return nil
		}
		return json.Unmarshal(m.Result, result)
	}
}

// Call sends a request, and stores the answer in result, unless that is nil. An error fails the test.
func (c *Client) Call(method string, params, result any) {
	c.t.Helper()
	if err := c.Start(method, params).Wait(result); err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
}

// Initialize starts the session. Clients without params have no capabilities.
func (c *Client) Initialize(params any) *lsp.InitializeResult {
	c.t.Helper()
	if params == nil {
		params = map[string]any{"processId": nil, "rootUri": nil, "capabilities": map[string]any{}}
	}
	var result lsp.InitializeResult
	c.Call("initialize", params, &result)
	c.Notify("initialized", struct{}{})
	return &result
}

// Shutdown ends the session in order, and waits until the server has closed the connection.
func (c *Client) Shutdown() {
	c.t.Helper()
	c.Call("shutdown", nil, nil)
	c.Notify("exit", nil)
	c.WaitClosed()
}

// WaitClosed waits until the server has closed the connection.
func (c *Client) WaitClosed() {
	c.t.Helper()
	select {
	case <-c.Closed:
	case <-time.After(patience):
		c.t.Fatal("the server does not close the connection")
	}
}

// Open opens a YAML document in version 1.
func (c *Client) Open(uri lsp.URI, text string) {
	c.t.Helper()
	c.Notify("textDocument/didOpen", lsp.DidOpenParams{
		TextDocument: lsp.TextDocumentItem{URI: uri, LanguageID: "yaml", Version: 1, Text: text},
	})
}

// Change changes a document.
func (c *Client) Change(uri lsp.URI, version int, changes ...lsp.ContentChange) {
	c.t.Helper()
	c.Notify("textDocument/didChange", lsp.DidChangeParams{
		TextDocument: lsp.VersionedTextDocumentIdentifier{URI: uri, Version: version}, ContentChanges: changes,
	})
}

// CloseDocument closes a document.
func (c *Client) CloseDocument(uri lsp.URI) {
	c.t.Helper()
	c.Notify("textDocument/didClose", lsp.DidCloseParams{TextDocument: lsp.TextDocumentIdentifier{URI: uri}})
}

// Received returns the notifications and requests of a method so far.
func (c *Client) Received(method string) []*Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []*Message
	for _, m := range c.inbox {
		if m.Method == method {
			found = append(found, m)
		}
	}
	return found
}

// Await waits until a notification, a request or an answer without a request satisfies a condition,
// and returns the first one.
func (c *Client) Await(what string, condition func(*Message) bool) *Message {
	c.t.Helper()
	timeout := time.After(patience)
	for seen := 0; ; {
		c.mu.Lock()
		inbox, changed := c.inbox, c.changed
		c.mu.Unlock()
		for ; seen < len(inbox); seen++ {
			if condition(inbox[seen]) {
				return inbox[seen]
			}
		}
		select {
		case <-changed:
		case <-c.Closed:
			c.t.Fatalf("waiting for %s: the server has closed the connection", what)
		case <-timeout:
			c.t.Fatalf("waiting for %s: not received after %v", what, patience)
		}
	}
}

// AwaitDiagnostics waits until the last published diagnostics of a document satisfy a condition, and
// returns them.
func (c *Client) AwaitDiagnostics(uri lsp.URI, condition func(*lsp.PublishDiagnosticsParams) bool) *lsp.PublishDiagnosticsParams {
	c.t.Helper()
	timeout := time.After(patience)
	for {
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		last := c.Diagnostics(uri)
		if last != nil && condition(last) {
			return last
		}
		select {
		case <-changed:
		case <-c.Closed:
			c.t.Fatalf("waiting for diagnostics of %s: the server has closed the connection", uri)
		case <-timeout:
			c.t.Fatalf("waiting for diagnostics of %s: the last ones after %v are %+v", uri, patience, last)
		}
	}
}

// Diagnostics returns the last published diagnostics of a document, or nil.
func (c *Client) Diagnostics(uri lsp.URI) *lsp.PublishDiagnosticsParams {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.diagnostics[uri]
}

// Forget drops the notifications and requests that Received and Await return, so that a long test
// does not keep all of them. The last diagnostics of each document stay.
func (c *Client) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inbox = nil
}
