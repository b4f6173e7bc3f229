package server_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"espalier.dev/server"
	"espalier.dev/server/servertest"
)

const slowThings = "/apis/slow.example.com/v1/namespaces/default/things"

// TestSlowClients runs clients that stop in the middle of a request or of its response. They
// must not hold the only seat, and must not keep the server from stopping.
func TestSlowClients(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the deadlines of clients")
	}
	t.Parallel()
	o := servertest.Options(t)
	o.Authorization.Modes = []string{"AlwaysAllow"} // an administrator has more than the only seat
	o.MaxRequestsInFlight, o.MaxMutatingRequestsInFlight = 1, 1
	o.RequestTimeout = 4 * time.Second
	s, err := servertest.TryStart(t, o)
	if err != nil {
		t.Fatal(err)
	}
	joe := of(t, s, "joe")
	things := s.URL() + slowThings
	create(t, s, joe, "slow.example.com", "Thing", 0)
	// This is more than a client and the kernel buffer.
	for i := range 12 {
		body := fmt.Sprintf(`{"apiVersion":"slow.example.com/v1","kind":"Thing","metadata":{"name":"large-%d"},"spec":{"a":%q}}`, i, strings.Repeat("x", 1<<20))
		servertest.Eventually(t, func() error {
			// On a slow machine, a write can time out and take effect.
			resp := send(t, joe, http.MethodPost, things, strings.NewReader(body))
			if resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusConflict {
				return fmt.Errorf("create: %d", resp.StatusCode)
			}
			return nil
		})
	}
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run("answer "+protocol, func(t *testing.T) {
			slow := of(t, s, "joe")
			transport := slow.Transport.(*http.Transport)
			transport.ForceAttemptHTTP2, transport.DisableCompression = protocol == "HTTP/2.0", true
			// On a slow machine, the seat may be free again before it is seen to be taken.
			servertest.Eventually(t, func() error {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, things, nil)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := slow.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				if resp.Proto != protocol {
					t.Fatalf("the protocol is %s", resp.Proto)
				}
				busy := send(t, joe, http.MethodGet, things+"/large-0", nil)
				if resp.StatusCode != http.StatusOK || busy.StatusCode == http.StatusOK {
					_ = resp.Body.Close()
					return fmt.Errorf("the list: %d, a read at the same time: %d", resp.StatusCode, busy.StatusCode)
				}
				t.Cleanup(func() { _ = resp.Body.Close() })
				wantBusy(t, busy)
				return nil
			})
			servertest.Eventually(t, func() error {
				if resp := send(t, joe, http.MethodGet, things+"/large-0", nil); resp.StatusCode != http.StatusOK {
					return fmt.Errorf("a read while a client does not read its answer: %d", resp.StatusCode)
				}
				return nil
			})
		})
	}
	t.Run("body", func(t *testing.T) {
		conn := sendHalf(t, s)
		servertest.Eventually(t, func() error {
			if resp := send(t, joe, http.MethodDelete, things+"/large-1", nil); resp.StatusCode == http.StatusTooManyRequests {
				return fmt.Errorf("a write while a client does not send its request: %d", resp.StatusCode)
			}
			return nil
		})
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusGatewayTimeout {
			t.Errorf("the client that does not send its request: %d, want 504", resp.StatusCode)
		}
	})
	t.Run("watch after a request", func(t *testing.T) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, things+"?watch=true&resourceVersion=0&timeoutSeconds=6&fieldSelector=metadata.name%3Dnone", nil)
		if err != nil {
			t.Fatal(err)
		}
		c := of(t, s, "joe")
		c.Transport.(*http.Transport).ForceAttemptHTTP2 = false
		send(t, c, http.MethodDelete, things+"/large-2", nil)
		began := time.Now()
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Errorf("the watch ended after %v: %v", time.Since(began), err)
		}
		if lasted := time.Since(began); lasted < 5*time.Second {
			t.Errorf("the watch lasted %v, want 6s", lasted)
		}
	})

	sendHalf(t, s)
	began := time.Now()
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	// Without a bound, it would wait for the client, which sends nothing more.
	if took := time.Since(began); took > time.Minute {
		t.Errorf("the server took %v to stop", took)
	}
}

// sendHalf sends a request over HTTP/1.1 with an incomplete body, and returns when the
// request holds the seat for writes.
func sendHalf(t *testing.T, s *server.Server) net.Conn {
	t.Helper()
	config, err := s.UserConfig("joe")
	if err != nil {
		t.Fatal(err)
	}
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	dialer := &tls.Dialer{Config: tlsConfig}
	joe := of(t, s, "joe")
	var conn net.Conn
	servertest.Eventually(t, func() error {
		if conn == nil {
			if conn, err = dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(s.URL(), "https://")); err != nil {
				t.Fatal(err)
			}
			opened := conn
			t.Cleanup(func() { _ = opened.Close() })
			if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{", slowThings); err != nil {
				t.Fatal(err)
			}
		}
		resp := send(t, joe, http.MethodDelete, s.URL()+slowThings+"/none", nil)
		if resp.StatusCode == http.StatusTooManyRequests {
			return nil
		}
		// The request has not arrived yet, or, on a slow machine, has timed out.
		_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			conn = nil
		}
		return fmt.Errorf("the seat is free: %d", resp.StatusCode)
	})
	_ = conn.SetReadDeadline(time.Time{})
	return conn
}
