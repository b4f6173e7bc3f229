package lsp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"espalier.dev/cmd/espalier/internal/lsp"
	"espalier.dev/cmd/espalier/internal/lsp/lsptest"
)

// frame returns a message with its header.
func frame(message string) string {
	return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(message), message)
}

// TestMalformed sends messages that are none. The session continues after those whose end is known.
func TestMalformed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		message string
		code    int64
	}{
		{"not JSON", -32700},
		{`{"jsonrpc":"2.0","id":1,"method":"hover"`, -32700},
		{"", -32700},
		{"null", -32600},
		{"[]", -32600},
		{`[{"jsonrpc":"2.0","id":1,"method":"shutdown"}]`, -32600},
		{`"text"`, -32600},
		{`{}`, -32600},
		{`{"jsonrpc":"2.0","id":{},"method":"shutdown"}`, -32600},
		{`{"jsonrpc":"2.0","id":-1,"method":"shutdown"}`, -32600},
		{`{"jsonrpc":"2.0","id":1.5,"method":"shutdown"}`, -32600},
		{`{"jsonrpc":"2.0","id":1,"method":7}`, -32600},
		{strings.Repeat("[", 100_000), -32600},
		{`{"a":` + strings.Repeat("[", 100_000), -32700},
	} {
		client, wait := serve(t, lsp.Options{}, &recorder{})
		client.Initialize(nil)
		if err := client.Raw(frame(c.message)); err != nil {
			t.Fatal(err)
		}
		got := client.Await("an error", func(m *lsptest.Message) bool { return m.Error != nil })
		if got.Error.Code != c.code || string(got.ID) != "null" {
			t.Errorf("%.50q: id %s: %v, want %d", c.message, got.ID, got.Error, c.code)
		}
		client.Shutdown()
		if err := wait(); err != nil {
			t.Error(err)
		}
	}
}

// TestUnexpectedResponse sends answers to no request, and a notification and a request in odd forms.
func TestUnexpectedResponse(t *testing.T) {
	t.Parallel()
	c, wait := serve(t, lsp.Options{}, &recorder{})
	c.Initialize(nil)
	for _, message := range []string{
		`{"jsonrpc":"2.0","id":77,"result":null}`, `{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"m"}}`,
		`{"jsonrpc":"2.0","method":"textDocument/hover"}`, `{"jsonrpc":"2.0","id":null,"method":"unheardOf","params":null}`,
	} {
		if err := c.Raw("content-type: text; charset=utf-8\ncontent-length:" + fmt.Sprint(len(message)) + "\n\n" + message); err != nil {
			t.Fatal(err)
		}
	}
	c.Shutdown()
	if err := wait(); err != nil {
		t.Error(err)
	}
}

// TestBadHeader sends headers after which it is unknown where the next message starts. They end the
// session.
func TestBadHeader(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"Content-Length: x\r\n\r\n{}", "Content-Length"},
		{"Content-Length: -5\r\n\r\n{}", "Content-Length"},
		{"Content-Length: 99999999999999999999\r\n\r\n{}", "Content-Length"},
		{"Content-Type: a\r\n\r\n{}", "no Content-Length"},
		{"\r\n{}", "no Content-Length"},
		{"GET / HTTP/1.1\r\n\r\n", "has no colon"},
		{strings.Repeat("x", 100_000), "longer than"},
		{strings.Repeat("Content-Type: b\r\n", 10_000), "longer than"},
		{"POST /x:y HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n\r\n{}", `"POST /x" is neither Content-Length nor Content-Type`},
	} {
		client, wait := serve(t, lsp.Options{}, &recorder{})
		// The server may close the connection before all is written.
		_ = client.Raw(c.text)
		client.WaitClosed()
		if err := wait(); err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, lsp.ErrNoShutdown) {
			t.Errorf("%.30q: %v, want %s", c.text, err, c.want)
		}
	}
}

// TestTruncated closes the connection at all places of a message.
func TestTruncated(t *testing.T) {
	t.Parallel()
	message := frame(`{"jsonrpc":"2.0","id":1,"method":"shutdown"}`)
	for n := range len(message) {
		client, wait := serve(t, lsp.Options{}, &recorder{})
		if err := client.Raw(message[:n]); err != nil {
			t.Fatal(err)
		}
		client.CloseConnection()
		err := wait()
		if !errors.Is(err, lsp.ErrNoShutdown) || strings.Contains(err.Error(), "in the middle") != (n > 0) {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
}

// TestLarge sends messages and documents that are too large.
func TestLarge(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	c, _ := serve(t, lsp.Options{MaxDocument: 1 << 20, MaxMessage: 3 << 20}, r)
	c.Initialize(nil)
	// A message that is too large is ignored.
	c.Open("file:///huge.yaml", strings.Repeat("x", 4<<20))
	awaitMessage(c, "window/showMessage", "a message of 4 MiB was ignored")
	// A document that is too large is ignored until it is opened again.
	c.Open("file:///dir/large.yaml", strings.Repeat("x", 2<<20))
	awaitMessage(c, "window/showMessage", "large.yaml is not checked: it has 2 MiB, and at most 1 MiB are supported")
	c.Change("file:///dir/large.yaml", 2, lsp.ContentChange{Text: "small"})
	var raw json.RawMessage
	c.Call("textDocument/hover", at("file:///dir/large.yaml", 0, 0), &raw)
	if string(raw) != "null" {
		t.Errorf("a document that is too large: %s", raw)
	}
	c.CloseDocument("file:///dir/large.yaml")
	c.Open("file:///dir/large.yaml", "small")
	// It grows.
	for version := range 3 {
		c.Change("file:///dir/large.yaml", version+2, lsp.ContentChange{Range: &lsp.Range{}, Text: strings.Repeat("y", 1<<19)})
	}
	c.Call("textDocument/hover", at("file:///dir/large.yaml", 0, 0), &raw)
	if string(raw) != "null" {
		t.Errorf("a document that has grown: %s", raw)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.changes); n != 3 || r.changes[2].Closed != "file:///dir/large.yaml" {
		t.Errorf("%d changes: %+v", n, r.changes[n-1])
	}
	for _, m := range c.Received("textDocument/hover") {
		t.Errorf("%+v", m)
	}
}

// TestFifty opens a document of 50 MB, and edits it.
func TestFifty(t *testing.T) {
	if testing.Short() {
		t.Skip("uses much memory")
	}
	t.Parallel()
	c, wait := serve(t, lsp.Options{}, &recorder{})
	c.Initialize(nil)
	document := strings.Repeat("key: 😀 value\r\n", 50_000_000/17)
	c.Open(docURI, document)
	c.Change(docURI, 2, lsp.ContentChange{Range: &lsp.Range{Start: lsp.Position{Line: 1_000_000, Character: 7}, End: lsp.Position{Line: 1_000_000, Character: 8}}, Text: "new"})
	var locations []lsp.Location
	c.Call("textDocument/definition", at(docURI, 1_000_000, 10), &locations)
	if len(locations) != 1 || locations[0].Range.End != (lsp.Position{Line: 1_000_000, Character: 10}) {
		t.Errorf("%+v", locations)
	}
	var folds []lsp.FoldingRange
	c.Call("textDocument/foldingRange", at(docURI, 0, 0), &folds)
	c.Shutdown()
	if err := wait(); err != nil {
		t.Error(err)
	}
}

// TestExit checks how sessions end without shutdown.
func TestExit(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*lsptest.Client){
		"exit":  func(c *lsptest.Client) { c.Notify("exit", nil) },
		"close": func(c *lsptest.Client) { c.CloseConnection() },
		"early": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, wait := serve(t, lsp.Options{}, &recorder{})
			if end == nil {
				c.Notify("exit", nil)
			} else {
				c.Initialize(nil)
				end(c)
			}
			c.WaitClosed()
			if err := wait(); !errors.Is(err, lsp.ErrNoShutdown) {
				t.Error(err)
			}
		})
	}
	t.Run("close after shutdown", func(t *testing.T) {
		t.Parallel()
		c, wait := serve(t, lsp.Options{}, &recorder{})
		c.Initialize(nil)
		c.Call("shutdown", nil, nil)
		c.CloseConnection()
		if err := wait(); err != nil {
			t.Error(err)
		}
	})
	t.Run("reset", func(t *testing.T) {
		t.Parallel()
		ours, theirs := connection(t)
		result := make(chan error, 1)
		go func() {
			result <- lsp.Serve(t.Context(), theirs, lsp.Options{}, func(*lsp.Client) lsp.Session { return &recorder{} })
		}()
		if _, err := io.WriteString(ours, frame(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}`)); err != nil {
			t.Fatal(err)
		}
		// The answer arrives and is not read.
		if _, err := io.ReadFull(ours, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if err := ours.(*net.TCPConn).SetLinger(0); err != nil {
			t.Fatal(err)
		}
		_ = ours.Close()
		if err := <-result; !errors.Is(err, lsp.ErrNoShutdown) {
			t.Error(err)
		}
	})
	t.Run("context", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(t.Context())
		c, wait := serveContext(t, ctx, lsp.Options{}, &recorder{})
		c.Initialize(nil)
		reason := errors.New("signal")
		cancel(reason)
		c.WaitClosed()
		if err := wait(); !errors.Is(err, reason) {
			t.Error(err)
		}
	})
}

// TestClientProcess checks that the session ends with the process of the client.
func TestClientProcess(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("processes are not watched")
	}
	process := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := process.Start(); err != nil {
		t.Skip(err)
	}
	c, wait := serve(t, lsp.Options{ClientPoll: 10 * time.Millisecond}, &recorder{})
	c.Initialize(map[string]any{"processId": process.Process.Pid, "capabilities": struct{}{}})
	c.Open(docURI, "a")
	c.Call("textDocument/hover", at(docURI, 0, 0), nil)
	if err := process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = process.Wait()
	c.WaitClosed()
	if err := wait(); !errors.Is(err, lsp.ErrNoShutdown) || !strings.Contains(err.Error(), "process") {
		t.Error(err)
	}
	// A process that is not found at first is not watched.
	c, wait = serve(t, lsp.Options{ClientPoll: time.Millisecond}, &recorder{})
	c.Initialize(map[string]any{"processId": process.Process.Pid, "capabilities": struct{}{}})
	for range 20 {
		c.Call("textDocument/hover", at(docURI, 0, 0), nil)
		time.Sleep(time.Millisecond)
	}
	c.Shutdown()
	if err := wait(); err != nil {
		t.Error(err)
	}
}

// TestDeafClient checks that a client that reads nothing ends the session, and blocks nothing before
// that.
func TestDeafClient(t *testing.T) {
	t.Parallel()
	ours, theirs := connection(t)
	defer func() { _ = ours.Close() }()
	result := make(chan error, 1)
	go func() {
		result <- lsp.Serve(t.Context(), theirs, lsp.Options{MaxDocument: 1 << 20}, func(c *lsp.Client) lsp.Session {
			return &recorder{client: c, hover: func(context.Context, *lsp.Documents, *lsp.Text, int) (*lsp.Hover, error) {
				return &lsp.Hover{Contents: lsp.MarkupContent{Value: strings.Repeat("x", 1<<20)}}, nil
			}}
		})
	}()
	messages := frame(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}`) +
		frame(`{"jsonrpc":"2.0","method":"textDocument/didOpen","params":{"textDocument":{"uri":"file:///a","text":"x"}}}`)
	for i := range 100 {
		messages += frame(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"textDocument/hover","params":{"textDocument":{"uri":"file:///a"},"position":{"line":0,"character":0}}}`, i+2))
	}
	_, _ = io.WriteString(ours, messages)
	select {
	case err := <-result:
		if err == nil || !strings.Contains(err.Error(), "the client does not read") {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the session has no end")
	}
}

// TestStuckSession checks that a session that ignores its context does not keep Serve from returning.
func TestStuckSession(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	started := make(chan struct{})
	r := &recorder{hover: func(context.Context, *lsp.Documents, *lsp.Text, int) (*lsp.Hover, error) {
		close(started)
		<-release
		return nil, nil
	}}
	var log buffer
	c, wait := serve(t, lsp.Options{Grace: time.Millisecond, Log: slog.New(slog.NewTextHandler(&log, nil))}, r)
	c.Initialize(nil)
	c.Open(docURI, "")
	c.Start("textDocument/hover", at(docURI, 0, 0))
	<-started
	c.CloseConnection()
	if err := wait(); !errors.Is(err, lsp.ErrNoShutdown) {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "have not returned") {
		t.Errorf("the log is %q", log.String())
	}
}

// buffer is a buffer for concurrent use.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// stdinLike is a connection whose Close does not interrupt Read, like a standard input that is a
// terminal.
type stdinLike struct {
	in  chan []byte
	out io.Writer
}

func (s *stdinLike) Read(p []byte) (int, error) {
	data, ok := <-s.in
	if !ok {
		return 0, io.EOF
	}
	return copy(p, data), nil
}
func (s *stdinLike) Write(p []byte) (int, error) { return s.out.Write(p) }
func (s *stdinLike) Close() error                { return nil }

// TestBlockingInput checks that Serve returns although a read is not interrupted.
func TestBlockingInput(t *testing.T) {
	t.Parallel()
	conn := &stdinLike{in: make(chan []byte), out: io.Discard}
	defer close(conn.in)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		result <- lsp.Serve(ctx, conn, lsp.Options{}, func(*lsp.Client) lsp.Session { return &recorder{} })
	}()
	conn.in <- []byte(frame(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}`))
	cancel()
	select {
	case err := <-result:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("Serve does not return")
	}
}
