// Package memnet has connections in memory, between a server and clients in the same process.
//
// They use no sockets, and only channels, timers and condition variables that are made when a
// connection is made. In a bubble of testing/synctest, a goroutine that waits for such a connection is
// durably blocked, and deadlines follow the clock of the bubble.
//
// A connection buffers what is written, unlike that of [net.Pipe]: both sides of HTTP/2 may write
// before they read.
package memnet

import (
	"context"
	"net"
	"sync"
	"syscall"
)

// network is the name of the network in errors.
const network = "memory"

// firstPort is the port of the first client.
const firstPort = 49152

// Listener accepts the connections that [Listener.Dial] makes.
type Listener struct {
	addr *net.TCPAddr

	mu      sync.Mutex
	changed *sync.Cond
	waiting []net.Conn
	dialed  int
	closed  bool
}

// Listen returns a listener. The address is what its connections report: nothing listens there.
func Listen(addr *net.TCPAddr) *Listener {
	l := &Listener{addr: addr}
	l.changed = sync.NewCond(&l.mu)
	return l
}

// Accept waits for the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.waiting) == 0 && !l.closed {
		l.changed.Wait()
	}
	if l.closed {
		return nil, &net.OpError{Op: "accept", Net: network, Addr: l.addr, Err: net.ErrClosed}
	}
	c := l.waiting[0]
	l.waiting = l.waiting[1:]
	return c, nil
}

// Dial connects to the listener.
func (l *Listener) Dial(ctx context.Context) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: l.addr, Err: err}
	}
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return fail(syscall.ECONNREFUSED)
	}
	from := &net.TCPAddr{IP: l.addr.IP, Port: firstPort + l.dialed%(1<<16-firstPort)}
	l.dialed++
	up, down := newStream(), newStream()
	l.waiting = append(l.waiting, &conn{in: up, out: down, local: l.addr, remote: from})
	l.changed.Signal()
	return &conn{in: down, out: up, local: from, remote: l.addr}, nil
}

// Close closes the listener, and the connections that were not accepted.
func (l *Listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return &net.OpError{Op: "close", Net: network, Addr: l.addr, Err: net.ErrClosed}
	}
	l.closed = true
	for _, c := range l.waiting {
		_ = c.Close()
	}
	l.waiting = nil
	l.changed.Broadcast()
	return nil
}

// Addr returns the address of the listener.
func (l *Listener) Addr() net.Addr { return l.addr }
