package server

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestStalls checks that the writes to a client fail after it has stopped reading, and that
// the time between writes does not count.
func TestStalls(t *testing.T) {
	t.Parallel()
	const most = 300 * time.Millisecond
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			ended := make(chan error, 1)
			idle := make(chan struct{})
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				w = boundStalls(w, most)
				if req.URL.Path == "/idle" {
					for range 2 {
						_, _ = io.WriteString(w, "event\n")
						w.(http.Flusher).Flush()
						<-idle
					}
					return
				}
				var err error
				for part := make([]byte, 1<<20); err == nil; w.(http.Flusher).Flush() {
					_, err = w.Write(part)
				}
				ended <- err
			}))
			s.EnableHTTP2 = protocol == "HTTP/2.0"
			s.StartTLS()
			t.Cleanup(s.Close)
			get := func(path string) *http.Response {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := s.Client().Do(req)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = resp.Body.Close() })
				if resp.Proto != protocol {
					t.Errorf("the protocol is %s", resp.Proto)
				}
				return resp
			}

			resp := get("/idle")
			time.AfterFunc(3*most, func() { close(idle) })
			if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "event\nevent\n" {
				t.Errorf("%q, %v", body, err)
			}

			get("/stalled")
			select {
			case <-ended:
			case <-time.After(time.Minute):
				t.Error("the response has not ended")
				s.CloseClientConnections()
			}
		})
	}
}
