package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// listener is the server's port. It knows its connections.
type listener struct {
	net.Listener
	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// listen opens the server's port.
func listen(ctx context.Context, o *Options) (*listener, error) {
	address := net.JoinHostPort(o.BindAddress, strconv.Itoa(o.SecurePort))
	config := net.ListenConfig{KeepAlive: keepAlive}
	l, err := config.Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("port %d of %s is in use: choose another with --secure-port (0 is any free one)", o.SecurePort, o.BindAddress)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("--bind-address %s is not an address of this machine", o.BindAddress)
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return &listener{Listener: l, conns: map[net.Conn]struct{}{}}, nil
}

const (
	// keepAlive is how soon a connection to a client that is gone is found out, as
	// k8s.io/apiserver has it.
	keepAlive = 3 * time.Minute
	// hangUpDelay is for the last bytes of answers to be sent.
	hangUpDelay = 50 * time.Millisecond
)

// Accept returns the next connection.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = struct{}{}
	return &conn{c, l}, nil
}

// conn is a connection that its listener knows while it is open.
type conn struct {
	net.Conn
	listener *listener
}

// Close closes the connection.
func (c *conn) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.conns, c.Conn)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// close closes the port, which the generic server has usually done.
func (l *listener) close() { _ = l.Listener.Close() }

// hangUp closes all connections when all requests are answered. An HTTP/2 server says
// goodbye to its clients, and then gives them a second, whether they have anything to
// say or not.
func (s *Server) hangUp() {
	select {
	case <-s.drained:
	case <-s.done:
		return
	}
	time.Sleep(hangUpDelay)
	s.listener.mu.Lock()
	defer s.listener.mu.Unlock()
	for c := range s.listener.conns {
		_ = c.Close()
	}
}
