package builtin_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"espalier.dev/server"
	"espalier.dev/server/servertest"
)

// connection is a connection that a client has asked to upgrade.
type connection struct {
	net.Conn
	in   *bufio.Reader
	resp *http.Response
}

// askUpgrade asks for an upgrade through the proxy.
func askUpgrade(t *testing.T, s *server.Server, path string) *connection {
	t.Helper()
	config, err := s.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	tlsConfig.NextProtos = []string{"http/1.1"}
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", u.Host, tlsConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	c := &connection{Conn: conn, in: bufio.NewReader(conn)}
	c.bound()
	_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\n", path)
	if c.resp, err = http.ReadResponse(c.in, nil); err != nil {
		t.Fatal(err)
	}
	return c
}

// requestUpgrade switches protocols through the proxy.
func requestUpgrade(t *testing.T, s *server.Server, path string) *connection {
	t.Helper()
	c := askUpgrade(t, s, path)
	if c.resp.StatusCode != http.StatusSwitchingProtocols {
		text, _ := io.ReadAll(c.resp.Body)
		t.Fatalf("%s %s", c.resp.Status, text)
	}
	return c
}

// bound limits the time of what follows.
func (c *connection) bound() { _ = c.SetDeadline(time.Now().Add(20 * time.Second)) }

// exchange sends a line to the other server, which echoes it.
func (c *connection) exchange(t *testing.T) {
	t.Helper()
	c.bound()
	_, _ = io.WriteString(c, "hello\n")
	if line, err := c.in.ReadString('\n'); err != nil || line != "echo hello\n" {
		t.Errorf("%q %v", line, err)
	}
}

// TestAggregatorUpgradeTooLarge has a server that sends too much before the upgrade. Afterwards it may send more.
func TestAggregatorUpgradeTooLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("large answers")
	}
	t.Parallel()
	s, c := start(t)
	b := newBackend(t, "large", "large.example.com")
	b.register(s, c, "large")
	await(t, s, c, "v1.large.example.com", "True", "Passed")
	const size = 16 << 20
	header := "X-Large: " + strings.Repeat("x", 1<<10) + "\r\n"
	headers := strings.Repeat(header, size/len(header))
	body := fmt.Sprintf("Content-Length: %d\r\n\r\n%s", size, strings.Repeat("x", size))
	for name, one := range map[string]struct {
		answer string
		code   int
		body   int // that arrives, or -1 if it is less than all
	}{
		"headers": {"HTTP/1.1 101 Switching Protocols\r\n" + headers + "\r\n", http.StatusServiceUnavailable, -1},
		"error":   {"HTTP/1.1 500 Internal Server Error\r\n" + body, http.StatusInternalServerError, -1},
		"upgrade": {"HTTP/1.1 101 Switching Protocols\r\n\r\n" + strings.Repeat("x", size), http.StatusSwitchingProtocols, size},
	} {
		b.behave(func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/exec") {
				return false
			}
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return true
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, one.answer) // it fails when the other side closes the connection
			return true
		})
		c := askUpgrade(t, s, "/apis/large.example.com/v1/namespaces/default/widgets/one/exec")
		from := c.resp.Body
		if c.resp.StatusCode == http.StatusSwitchingProtocols {
			from = io.NopCloser(c.in)
		}
		n, err := io.Copy(io.Discard, from)
		if c.resp.StatusCode != one.code || one.body == -1 && n >= size || one.body >= 0 && int(n) != one.body {
			t.Errorf("%s: %s, %d bytes, %v", name, c.resp.Status, n, err)
		}
	}
}

// TestAggregatorStop has long-running requests that are open when the server stops: they end, on both sides.
func TestAggregatorStop(t *testing.T) {
	t.Parallel()
	o := servertest.Options(t)
	o.Ephemeral = false // it would close all connections
	s, err := servertest.TryStart(t, o)
	if err != nil {
		t.Fatal(err)
	}
	c := servertest.Client(t, s, nil)
	b := newBackend(t, "stops", "stops.example.com")
	b.register(s, c, "stops")
	await(t, s, c, "v1.stops.example.com", "True", "Passed")
	ended := make(chan string, 2)
	b.behave(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.HasSuffix(r.URL.Path, "/log"):
			_, _ = io.WriteString(w, "first\n")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
			case <-b.stop:
			}
			ended <- "log"
		case strings.HasSuffix(r.URL.Path, "/exec"):
			b.upgrade(w)
			ended <- "exec"
		default:
			return false
		}
		return true
	})
	const widget = "/apis/stops.example.com/v1/namespaces/default/widgets/one"
	resp, err := c.Get(s.URL() + widget + "/log?follow=true")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil {
		t.Fatal(line, err)
	}
	upgraded := requestUpgrade(t, s, widget+"/exec")
	upgraded.exchange(t)
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop() }()
	for range 2 {
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Fatal("a request goes on at the other server")
		}
	}
	upgraded.bound()
	if _, err := upgraded.in.ReadByte(); err == nil {
		t.Error("the upgraded connection is open")
	}
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the log ended as if it was complete")
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
