package robustness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"espalier.dev/test/robustness/internal/rig"
)

// client sends requests to a server.
type client struct {
	// url returns the address of the server, which changes when it is restarted.
	url  func() string
	http *http.Client
}

func newClient(s *rig.Server) *client { return &client{url: s.URL, http: s.HTTPClient()} }

// answer is a response. The body is a Status if the code is not 2xx.
type answer struct {
	code int
	body []byte
}

// status is a metav1.Status.
type status struct {
	Kind, Message, Reason string
	Code                  int
	Details               *struct {
		Name, UID         string
		RetryAfterSeconds int
	}
}

func (a answer) status() (s status) {
	_ = json.Unmarshal(a.body, &s) // the zero value is no Status
	return s
}

func (a answer) String() string { return fmt.Sprintf("%d %s", a.code, bytes.TrimSpace(a.body)) }

// contentType returns the media type of the body of a request.
func contentType(method string, apply bool) string {
	switch {
	case apply:
		return "application/apply-patch+yaml"
	case method == http.MethodPatch:
		return "application/merge-patch+json"
	}
	return "application/json"
}

// open sends a request. The caller closes the body of the response.
func (c *client) open(ctx context.Context, method, path, media string, body any) (*http.Response, error) {
	var data []byte
	switch body := body.(type) {
	case nil:
	case string:
		data = []byte(body)
	default:
		var err error
		if data, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url()+path, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", media)
	}
	return c.http.Do(req)
}

// do sends a request and reads the response.
func (c *client) do(ctx context.Context, method, path, media string, body any) (answer, error) {
	resp, err := c.open(ctx, method, path, media, body)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, data}, err
}

// must sends a request until it succeeds, and fails the test if it does not within a minute.
func (c *client) must(t testing.TB, method, path string, body any) answer {
	t.Helper()
	var a answer
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		a, err = c.do(ctx, method, path, contentType(method, false), body)
		cancel()
		if err == nil && a.code < 300 {
			return a
		}
	}
	t.Fatalf("%s %s: %v %v", method, path, a, err)
	return a
}
