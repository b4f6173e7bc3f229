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

// listener is the server's port. It tracks its connections.
type listener struct {
	net.Listener
	// dial connects to the listener if that is not possible over the network, and is nil otherwise.
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// listen opens the server's port.
func listen(ctx context.Context, o *Options) (*listener, error) {
	if o.Bubble {
		return listenInBubble(o), nil
	}
	address := net.JoinHostPort(o.BindAddress, strconv.Itoa(o.SecurePort))
	config := net.ListenConfig{KeepAlive: keepAlive}
	l, err := config.Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("port %d of %s is in use: choose another port with --secure-port (0 chooses a free one)", o.SecurePort,
			o.BindAddress)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("--bind-address %s is not an address of this machine", o.BindAddress)
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return &listener{Listener: l, conns: map[net.Conn]struct{}{}}, nil
}

const (
	// keepAlive is the interval of keep-alive probes, as in k8s.io/apiserver.
	keepAlive = 3 * time.Minute
	// hangUpDelay is the time to send the last bytes of responses.
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

// conn is a connection that its listener tracks while it is open.
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

// close closes the port, which the generic server has usually closed already.
func (l *listener) close() { _ = l.Listener.Close() }

// hangUp closes all connections after all requests are answered. Otherwise an HTTP/2 server
// sends GOAWAY and then waits a second for every client. ended is closed when the server does not
// serve anymore.
func (s *Server) hangUp(ended <-chan struct{}) {
	select {
	case <-s.drained:
	case <-ended:
		return
	}
	select {
	case <-time.After(hangUpDelay):
	case <-ended:
	}
	s.listener.mu.Lock()
	defer s.listener.mu.Unlock()
	for c := range s.listener.conns {
		_ = c.Close()
	}
}
