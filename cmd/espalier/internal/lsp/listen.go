package lsp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Listen returns a listener for an address: unix:PATH, or the port of a loopback address such as
// 127.0.0.1:PORT, localhost:PORT or [::1]:PORT. Other hosts are rejected, because clients are not
// authenticated. The socket at a path is accessible to its owner only. It replaces that of a server
// that no longer runs, and Close removes it.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return listenUnix(ctx, path)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("listen address %q: use unix:PATH, 127.0.0.1:PORT, localhost:PORT or [::1]:PORT", address)
	}
	if strings.EqualFold(host, "localhost") {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("listen address %q: %q is not a loopback address: use 127.0.0.1, localhost or [::1], since clients are not authenticated", address, host)
	}
	var c net.ListenConfig
	return c.Listen(ctx, "tcp", net.JoinHostPort(host, port))
}

// listenUnix listens on a Unix socket.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	if path == "" {
		return nil, errors.New("listen address unix: has no path")
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	// The socket must never be accessible to others, also not before its mode is changed: it is
	// created in a directory that is not, and gets its name afterwards.
	dir, err := os.MkdirTemp(dirOf(path), ".lsp")
	if err != nil {
		return nil, fmt.Errorf("listen address unix:%s: %w", path, err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var c net.ListenConfig
	hidden := dir + string(os.PathSeparator) + "s"
	l, err := c.Listen(ctx, "unix", hidden)
	if err != nil {
		return nil, fmt.Errorf("listen address unix:%s: %w", path, err)
	}
	unix := l.(*net.UnixListener)
	unix.SetUnlinkOnClose(false)
	err = os.Chmod(hidden, 0o600)
	if err == nil {
		// Link fails if another server has created the socket meanwhile. Some file systems have no
		// links.
		if err = os.Link(hidden, path); err != nil && !errors.Is(err, fs.ErrExist) {
			err = os.Rename(hidden, path)
		}
	}
	var created fs.FileInfo
	if err == nil {
		created, err = os.Lstat(path)
	}
	if err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("listen address unix:%s: %w", path, err)
	}
	return &unixListener{UnixListener: unix, path: path, created: created}, nil
}

// dirOf returns the directory of a path, in the form of the path: names of sockets are short.
func dirOf(path string) string {
	if i := strings.LastIndexByte(path, os.PathSeparator); i >= 0 {
		return path[:i+1]
	}
	return "."
}

// removeStale removes the socket of a server that no longer runs. It is an error if one runs, or if
// the path is not a socket.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("listen address unix:%s: %w", path, err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("listen address unix:%s: the file exists and is not a socket", path)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		_ = conn.Close()
		return fmt.Errorf("listen address unix:%s: another server is listening", path)
	case !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist):
		// It may run, and be busy or belong to someone else.
		return fmt.Errorf("listen address unix:%s: the socket exists: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("listen address unix:%s: removing the socket of a server that no longer runs: %w", path, err)
	}
	return nil
}

// unixListener removes its socket when it is closed.
type unixListener struct {
	*net.UnixListener
	path    string
	created fs.FileInfo
	once    sync.Once
}

// Close implements net.Listener.
func (l *unixListener) Close() error {
	l.once.Do(func() {
		// Another server may have replaced the socket.
		if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.created) {
			_ = os.Remove(l.path)
		}
	})
	return l.UnixListener.Close()
}

// Addr implements net.Listener. It has the path that clients use.
func (l *unixListener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// maxConnections is the number of clients that a listener serves at the same time.
const maxConnections = 32

// ServeListener serves the clients that connect to a listener, each with a session of its own, until
// ctx ends. It closes the listener and returns when all sessions have ended. How a session ends is
// logged, and does not affect others.
func ServeListener(ctx context.Context, l net.Listener, options Options, newSession func(*Client) Session) error {
	options = options.withDefaults()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	unhook := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer unhook()
	defer func() { _ = l.Close() }()

	var sessions sync.WaitGroup
	defer sessions.Wait()
	slots := make(chan struct{}, maxConnections)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if temporary(err) {
				<-slots
				options.Log.Warn("accepting a connection", "err", err)
				pause(ctx, 100*time.Millisecond)
				continue
			}
			cancel(err)
			return fmt.Errorf("accepting connections: %w", err)
		}
		sessions.Go(func() {
			defer func() { <-slots }()
			err := Serve(ctx, conn, options, newSession)
			if err != nil && ctx.Err() == nil && !errors.Is(err, io.EOF) {
				options.Log.Info("a session has ended", "err", err)
			}
		})
	}
}

// temporary reports whether accepting connections may succeed later: the process has too many open
// files, or the client has gone.
func temporary(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED)
}

// pause waits, at most until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// stdio is the standard input and output of a process.
type stdio struct {
	io.Reader
	io.Writer
	closers []io.Closer
}

func (s stdio) Close() error {
	var errs []error
	for _, c := range s.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Stdio returns the connection of a client that has started the process: it writes to in and reads
// from out.
func Stdio(in io.ReadCloser, out io.WriteCloser) io.ReadWriteCloser {
	return stdio{in, out, []io.Closer{in, out}}
}
