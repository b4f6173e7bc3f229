package memnet_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"espalier.dev/internal/memnet"
)

func listen() *memnet.Listener {
	return memnet.Listen(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6443})
}

// connect returns both ends of a connection, and a function that closes them.
func connect() (client, server net.Conn, stop func(), err error) {
	l := listen()
	if client, err = l.Dial(context.Background()); err != nil {
		return nil, nil, nil, err
	}
	if server, err = l.Accept(); err != nil {
		return nil, nil, nil, err
	}
	return client, server, func() { _, _, _ = client.Close(), server.Close(), l.Close() }, nil
}

func ends(t *testing.T) (client, server net.Conn) {
	t.Helper()
	client, server, stop, err := connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return client, server
}

// TestBuffer writes on both sides before anything is read, and more than the buffer takes.
func TestBuffer(t *testing.T) {
	t.Parallel()
	client, server := ends(t)
	for _, c := range []net.Conn{client, server} {
		if _, err := c.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
	}
	sent := make([]byte, 1<<20)
	_, _ = rand.Read(sent)
	var writing sync.WaitGroup
	writing.Go(func() {
		if n, err := client.Write(sent); n != len(sent) || err != nil {
			t.Error(n, err)
		}
	})
	got := make([]byte, 5+len(sent))
	if _, err := io.ReadFull(server, got); err != nil || !bytes.Equal(got[5:], sent) {
		t.Errorf("other bytes than sent: %v", err)
	}
	writing.Wait()
}

// TestFull fills the buffer: a write waits until its deadline.
func TestFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, _ := ends(t)
		_ = client.SetWriteDeadline(time.Now().Add(time.Hour))
		begin := time.Now()
		n, err := client.Write(make([]byte, 1<<20))
		if n != 256<<10 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != time.Hour {
			t.Error(n, err, time.Since(begin))
		}
	})
}

// TestClose closes one end: the other one reads the rest, and cannot write.
func TestClose(t *testing.T) {
	t.Parallel()
	client, server := ends(t)
	_, _ = client.Write([]byte("rest"))
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(server); string(got) != "rest" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	if _, err := server.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Error(err)
	}
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if _, err := client.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if err := client.SetDeadline(time.Now()); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if err := client.Close(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// TestBubble waits for a connection and its deadlines in a bubble, where time passes only if all goroutines are
// durably blocked.
func TestBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := listen()
		var accepting sync.WaitGroup
		accepting.Go(func() {
			if _, err := l.Accept(); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(24 * time.Hour)
		c, err := l.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		accepting.Wait()
		begin := time.Now()
		_ = c.SetReadDeadline(begin.Add(time.Minute))
		_ = c.SetReadDeadline(begin.Add(time.Hour)) // replaces the first
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != time.Hour {
			t.Error(err, time.Since(begin))
		}
	})
}

func TestListener(t *testing.T) {
	t.Parallel()
	l := listen()
	first, err := l.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, _ := l.Dial(t.Context())
	if first.RemoteAddr() != l.Addr() || first.LocalAddr().String() == second.LocalAddr().String() {
		t.Error(first.RemoteAddr(), first.LocalAddr(), second.LocalAddr())
	}
	accepted, err := l.Accept()
	if err != nil || accepted.RemoteAddr() != first.LocalAddr() || accepted.LocalAddr() != l.Addr() {
		t.Error(accepted, err)
	}
	ended := make(chan error)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := l.Accept()
		ended <- err
	}()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	// The accepted connection stays open, and the other one does not.
	if _, err := first.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if _, err := second.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if _, err := l.Dial(t.Context()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Error(err)
	}
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := listen().Dial(cancelled); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
