package lsp_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"espalier.dev/cmd/espalier/internal/lsp"
	"espalier.dev/cmd/espalier/internal/lsp/lsptest"
)

func TestListenAddresses(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1:0", "localhost:0", "LOCALHOST:0", "[::1]:0", "127.0.0.2:0"} {
		l, err := lsp.Listen(t.Context(), address)
		if err != nil {
			if strings.Contains(address, "::1") || strings.Contains(address, ".2:") {
				t.Logf("%s: %v", address, err)
				continue
			}
			t.Errorf("%s: %v", address, err)
			continue
		}
		if host, _, _ := net.SplitHostPort(l.Addr().String()); !net.ParseIP(host).IsLoopback() {
			t.Errorf("%s listens on %s", address, l.Addr())
		}
		_ = l.Close()
	}
	for address, want := range map[string]string{
		"":                       "use unix:PATH, 127.0.0.1:PORT",
		"8080":                   "use unix:PATH, 127.0.0.1:PORT",
		":8080":                  "is not a loopback address",
		"0.0.0.0:8080":           "is not a loopback address",
		"[::]:8080":              "is not a loopback address",
		"192.0.2.1:8080":         "is not a loopback address",
		"example.com:8080":       "is not a loopback address",
		"localhost.evil.com:80":  "is not a loopback address",
		"unix:":                  "has no path",
		"unix:/does/not/exist/s": "no such file",
		"127.0.0.1:99999":        "invalid port",
	} {
		l, err := lsp.Listen(t.Context(), address)
		if err == nil {
			_ = l.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", address, err, want)
		}
	}
}

// socketPath returns a path that is short enough for a socket.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lsp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

func TestListenUnix(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("file modes")
	}
	path := socketPath(t)
	l, err := lsp.Listen(t.Context(), "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if l.Addr().String() != path {
		t.Errorf("the address is %s", l.Addr())
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("the directory has %v, %v", left, err)
	}
	// A server that runs is an error.
	if _, err := lsp.Listen(t.Context(), "unix:"+path); err == nil || !strings.Contains(err.Error(), "another server is listening") {
		t.Errorf("a second server: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}

	// The socket of a server that does not run is replaced.
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	_ = stale.Close()
	l, err = lsp.Listen(t.Context(), "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	// A socket of another server is not removed.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	other, err := lsp.Listen(t.Context(), "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the socket of another server: %v", err)
	}
	_ = other.Close()

	// Other files are not replaced.
	if err := os.WriteFile(path, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := lsp.Listen(t.Context(), "unix:"+path); err == nil || !strings.Contains(err.Error(), "is not a socket") {
		t.Errorf("a file: %v", err)
	}
}

// TestServeListener serves several clients, each with a session of its own.
func TestServeListener(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	l, err := lsp.Listen(t.Context(), "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var open atomic.Int32
	result := make(chan error, 1)
	go func() {
		result <- lsp.ServeListener(ctx, l, lsp.Options{}, func(*lsp.Client) lsp.Session {
			open.Add(1)
			return &closing{open: &open}
		})
	}()
	dial := func() *lsptest.Client {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		return lsptest.New(t, conn)
	}
	first, second, third := dial(), dial(), dial()
	for i, c := range []*lsptest.Client{first, second} {
		c.Initialize(nil)
		c.Open(docURI, strings.Repeat("x", i+1))
	}
	for i, c := range []*lsptest.Client{first, second} {
		var hover lsp.Hover
		c.Call("textDocument/hover", at(docURI, 0, 99), &hover)
		if len(hover.Contents.Value) != i+1 {
			t.Errorf("client %d sees %q", i, hover.Contents.Value)
		}
	}
	first.Shutdown()
	third.CloseConnection()
	// Others are not affected.
	second.Call("textDocument/hover", at(docURI, 0, 0), nil)
	cancel()
	second.WaitClosed()
	select {
	case err := <-result:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("ServeListener does not return")
	}
	if n := open.Load(); n != 0 {
		t.Errorf("%d sessions are open", n)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

// closing is a session that counts down when it is closed.
type closing struct {
	recorder
	open *atomic.Int32
}

func (c *closing) Close() { c.open.Add(-1) }

// TestGoroutines checks that sessions leave no goroutines, however they end. It is not parallel: it
// counts those of the process.
func TestGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	for i := range 40 {
		t.Run("session", func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r := &recorder{
				hover: func(ctx context.Context, _ *lsp.Documents, _ *lsp.Text, _ int) (*lsp.Hover, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				},
				diagnose: func(ctx context.Context, _ *lsp.Documents, _ func(lsp.URI, []lsp.Diagnostic)) error {
					<-ctx.Done()
					return ctx.Err()
				},
				ready: func(ctx context.Context) { <-ctx.Done() },
			}
			c, wait := serveContext(t, ctx, lsp.Options{Pause: time.Millisecond}, r)
			c.Initialize(map[string]any{"processId": os.Getpid(), "capabilities": struct{}{}})
			c.Open(docURI, "a")
			for range 20 {
				c.Start("textDocument/hover", at(docURI, 0, 0))
			}
			switch i % 4 {
			case 0:
				c.Shutdown()
			case 1:
				c.CloseConnection()
			case 2:
				cancel()
			case 3:
				_ = c.Raw("nonsense\r\n")
			}
			_ = wait()
		})
	}
	for range 200 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	stacks := make([]byte, 1<<20)
	t.Errorf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
}
