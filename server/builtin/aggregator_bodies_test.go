package builtin_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestAggregatorBodies sends bodies that this server would reject, or read as a whole first, to another server.
func TestAggregatorBodies(t *testing.T) {
	t.Parallel()
	s, c := start(t)
	b := newBackend(t, "bodies", "bodies.example.com")
	b.register(s, c, "bodies")
	await(t, s, c, "v1.bodies.example.com", "True", "Passed")
	const path = "/apis/bodies.example.com/v1/namespaces/default/widgets/one/upload"
	send := func(t *testing.T, contentType string, body io.Reader) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+path, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", contentType)
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
	t.Run("aliases", func(t *testing.T) {
		aliases := "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
		for i := range 9 {
			aliases += fmt.Sprintf("a%d: &a%[1]d [%s]\n", i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 10), ","))
		}
		if code, text := send(t, "text/plain", strings.NewReader(aliases)); code != http.StatusOK || !strings.Contains(text, "a9") {
			t.Errorf("%d %.200s", code, text)
		}
		// This server rejects the same body.
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+"/api/v1/namespaces/default/configmaps", strings.NewReader(aliases))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/yaml")
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusBadRequest {
			t.Error(resp.Status, err)
		}
	})
	t.Run("stream", func(t *testing.T) {
		// The client sends more when the other server has the first part.
		arrived := make(chan string)
		b.behave(func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != path {
				return false
			}
			first := make([]byte, 5)
			_, _ = io.ReadFull(r.Body, first)
			select {
			case arrived <- string(first):
			case <-r.Context().Done():
			}
			rest, _ := io.ReadAll(r.Body)
			_, _ = w.Write(rest)
			return true
		})
		out, in := io.Pipe()
		go func() {
			_, _ = io.WriteString(in, "first")
			select {
			case <-arrived:
				_, _ = io.WriteString(in, "second")
				_ = in.Close()
			case <-t.Context().Done():
				_ = in.CloseWithError(io.ErrUnexpectedEOF)
			}
		}()
		if code, text := send(t, "application/octet-stream", out); code != http.StatusOK || text != "second" {
			t.Errorf("%d %.200s", code, text)
		}
	})
}
