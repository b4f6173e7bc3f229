package rig

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// Link is the state of the connections through a Proxy.
type Link int

const (
	// Up forwards everything.
	Up Link = iota
	// Cut closes connections and accepts none.
	Cut
	// Stalled forwards nothing and keeps connections open, as a network that loses packets.
	// What was sent arrives when the link is up again.
	Stalled
)

// Proxy forwards TCP connections to a unix socket. It identifies the sender of the
// connections between etcd members by the header X-Server-From of their first request.
//
// It owns a goroutine that accepts connections and two for each connection. All of them end
// when Close closes the listener and the connections.
type Proxy struct {
	listener net.Listener
	target   string
	wg       sync.WaitGroup

	mu     sync.Mutex
	change *sync.Cond // signalled when links change
	closed bool
	all    Link
	from   map[string]Link // by sender
	conns  map[*proxied]struct{}
}

// proxied is a connection through a Proxy.
type proxied struct {
	client, server net.Conn
	sender         string
}

func (c *proxied) close() {
	_ = c.client.Close()
	if c.server != nil {
		_ = c.server.Close()
	}
}

// NewProxy returns a proxy that listens on a free port and forwards to a unix socket.
func NewProxy(t testing.TB, socket string, peers bool) *Proxy {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: listener, target: socket, from: map[string]Link{}, conns: map[*proxied]struct{}{}}
	p.change = sync.NewCond(&p.mu)
	p.wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(conn, peers) })
		}
	})
	t.Cleanup(p.Close)
	return p
}

// URL returns the address of the proxy.
func (p *Proxy) URL() string { return "http://" + p.listener.Addr().String() }

// Set changes the state of all connections.
func (p *Proxy) Set(link Link) {
	p.update(func() { p.all = link })
}

// SetFrom changes the state of the connections of one sender.
func (p *Proxy) SetFrom(sender string, link Link) {
	p.update(func() { p.from[sender] = link })
}

// Close closes the listener and all connections.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.update(func() { p.closed = true })
	p.wg.Wait()
}

// update changes the state and closes the connections whose link is cut.
func (p *Proxy) update(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	for c := range p.conns {
		if p.closed || p.link(c.sender) == Cut {
			c.close()
		}
	}
	p.change.Broadcast()
}

// link returns the state of the connections of a sender. The caller holds mu.
func (p *Proxy) link(sender string) Link { return max(p.all, p.from[sender]) }

// pass waits until connections of the sender are forwarded. It reports false if they are
// closed.
func (p *Proxy) pass(sender string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.closed && p.link(sender) == Stalled {
		p.change.Wait()
	}
	return !p.closed && p.link(sender) == Up
}

func (p *Proxy) serve(client net.Conn, peers bool) {
	c := &proxied{client: client}
	p.mu.Lock()
	p.conns[c] = struct{}{}
	if p.closed {
		c.close()
	}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.conns, c)
		c.close()
		p.mu.Unlock()
	}()

	var first []byte
	if peers {
		var err error
		if first, err = readHeader(client); err != nil {
			return
		}
	}
	sender := headerValue(first, "X-Server-From")
	p.mu.Lock()
	c.sender = sender
	p.mu.Unlock()
	if !p.pass(sender) {
		return
	}
	server, err := net.Dial("unix", p.target)
	if err != nil {
		return
	}
	p.mu.Lock()
	c.server = server
	if p.closed || p.link(sender) == Cut {
		c.close()
	}
	p.mu.Unlock()
	if _, err := server.Write(first); err != nil {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { p.forward(server, client, sender); c.close() })
	wg.Go(func() { p.forward(client, server, sender); c.close() })
	wg.Wait()
}

// forward copies from one connection to the other while the link is up.
func (p *Proxy) forward(to, from net.Conn, sender string) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if !p.pass(sender) {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// readHeader reads at least the header of an HTTP request.
func readHeader(conn net.Conn) ([]byte, error) {
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return nil, err
	}
	var data []byte
	buf := make([]byte, 4096)
	for !bytes.Contains(data, []byte("\r\n\r\n")) {
		if len(data) > 64<<10 {
			return nil, errors.New("the header is too large")
		}
		n, err := conn.Read(buf)
		data = append(data, buf[:n]...)
		if err != nil && (n == 0 || !errors.Is(err, io.EOF)) {
			return nil, err
		}
	}
	return data, conn.SetReadDeadline(time.Time{})
}

// headerValue returns the value of a field in the header of a request.
func headerValue(request []byte, name string) string {
	header, _, _ := bytes.Cut(request, []byte("\r\n\r\n"))
	for line := range strings.SplitSeq(string(header), "\r\n") {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.EqualFold(key, name) {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
