package aggregator

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"

	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/streaming/pkg/httpstream"
)

// Upgrades reports whether a request asks another server to upgrade the connection. Such a request is
// long-running, whatever its resource is: with a deadline, the upgraded connection would end at that, and it would
// hold one of the seats of requests that end soon. Before the other server answers, it is limited like a watch.
func (a *Aggregator) Upgrades(req *http.Request, info *apirequest.RequestInfo) bool {
	return info.IsResourceRequest && httpstream.IsUpgradeRequest(req) && a.table.Load().route(req.URL.Path) != nil
}

// maxUpgrade limits the bytes that another server sends before the connection is upgraded: the handler of
// apimachinery keeps them, also the body of an error.
const maxUpgrade = 1 << 20

// errUpgradeTooLarge is the error of connections to servers that send more than maxUpgrade.
var errUpgradeTooLarge = fmt.Errorf("the answer to the request for an upgrade is too large: the limit is %d bytes", maxUpgrade)

// upgrade is the state of a request for an upgrade.
type upgrade struct {
	// begun is set when the client gets the answer that the connection is upgraded.
	begun atomic.Bool
	// stopTimer stops the timer of the request.
	stopTimer func()
}

func (u *upgrade) begin() {
	u.begun.Store(true)
	u.stopTimer()
}

// upgradeKey is the key of the upgrade in the context of a request to another server.
type upgradeKey struct{}

// Closing returns a dialer whose connections for upgrades are closed when the context of the request
// ends: nothing else interrupts who waits for them. They fail when the other server sends too much before the upgrade.
func Closing(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		u, ok := ctx.Value(upgradeKey{}).(*upgrade)
		if err != nil || !ok {
			return c, err
		}
		stop := context.AfterFunc(ctx, func() { _ = c.Close() })
		return &closing{Conn: c, stop: stop, upgrade: u}, nil
	}
}

// closing is a connection for an upgrade.
type closing struct {
	net.Conn
	stop    func() bool
	upgrade *upgrade
	// received counts the bytes before the upgrade. Only one goroutine at a time reads.
	received int
}

// Read reads from the connection.
func (c *closing) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.upgrade.begun.Load() {
		if c.received += n; c.received > maxUpgrade {
			return 0, errors.Join(errUpgradeTooLarge, c.Close())
		}
	}
	return n, err
}

// Close closes the connection.
func (c *closing) Close() error {
	c.stop()
	return c.Conn.Close()
}

// hijacker takes over the connection of the client of an upgrade.
type hijacker struct {
	http.ResponseWriter
	upgrade *upgrade
}

// Hijack takes over the connection.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	return &hijacked{Conn: conn, upgrade: h.upgrade}, buffer, nil
}

// Flush sends what is buffered.
func (h *hijacker) Flush() { _ = http.NewResponseController(h.ResponseWriter).Flush() }

// Unwrap returns the response writer below.
func (h *hijacker) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// hijacked is the connection of a client. The handler of apimachinery takes it over for every answer of the other
// server but redirects, and first writes the status line. The first write is before that of its goroutines.
type hijacked struct {
	net.Conn
	upgrade  *upgrade
	answered bool
}

// Write writes to the connection.
func (h *hijacked) Write(p []byte) (int, error) {
	if !h.answered {
		h.answered = true
		if _, status, _ := bytes.Cut(p, []byte(" ")); bytes.HasPrefix(status, []byte("101")) {
			h.upgrade.begin()
		}
	}
	return h.Conn.Write(p)
}
