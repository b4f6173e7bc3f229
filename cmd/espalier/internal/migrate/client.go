package migrate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"espalier.dev/cmd/espalier/internal/source"
)

// DefaultRetryFor is how long a Client repeats a request by default.
const DefaultRetryFor = time.Minute

// The pause before a request is repeated doubles each time, unless the server asks for a
// longer one.
const (
	firstPause = 200 * time.Millisecond
	maxPause   = 10 * time.Second
)

// Client sends requests to an API server and returns the JSON of its answers, byte for byte:
// numbers of objects are never converted. It repeats requests that the server cannot answer at
// the moment. It is safe for concurrent use.
type Client struct {
	http *http.Client
	base *url.URL
	// RetryFor is how long a request is repeated.
	RetryFor time.Duration
	// answered is set after the first answer: before that, an address that does not answer is
	// probably wrong.
	answered atomic.Bool
}

// NewClient returns a Client for the server of a configuration.
func NewClient(config *rest.Config) (*Client, error) {
	h, err := source.HTTPClient(config)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	return &Client{http: h, base: base, RetryFor: DefaultRetryFor}, nil
}

// Server returns the address of the server.
func (c *Client) Server() string { return c.base.String() }

// UnavailableError is returned if the server did not answer a request, or could not answer it
// at the moment, although the request was repeated.
type UnavailableError struct {
	Server string
	Err    error
}

// Error describes the last attempt.
func (e *UnavailableError) Error() string {
	return fmt.Sprintf("the server %s is not available: %v", e.Server, e.Err)
}

// Unwrap returns the error of the last attempt.
func (e *UnavailableError) Unwrap() error { return e.Err }

// request is a request to a server.
type request struct {
	method, path string
	query        url.Values
	// contentType is the type of the body.
	contentType string
	body        []byte
}

// do sends a request until the server answers it. Answers other than success are
// *apierrors.StatusError. A write whose answer was lost is sent again; its resource version
// makes sure that it has no effect twice.
func (c *Client) do(ctx context.Context, r request) ([]byte, error) {
	end := time.Now().Add(c.RetryFor)
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		data, after, err := c.send(ctx, r)
		if err == nil {
			c.answered.Store(true)
			return data, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		status := (*apierrors.StatusError)(nil)
		if errors.As(err, &status) {
			c.answered.Store(true)
			if !isTemporary(status, after) {
				return nil, err
			}
		} else if !c.answered.Load() {
			return nil, &UnavailableError{c.Server(), err}
		}
		wait := max(after, pause/2+rand.N(pause))
		if time.Now().Add(wait).After(end) {
			return nil, &UnavailableError{c.Server(), err}
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// isTemporary reports whether a request may succeed later, without any change.
func isTemporary(err *apierrors.StatusError, after time.Duration) bool {
	switch err.ErrStatus.Code {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	case http.StatusInternalServerError:
		return after > 0
	}
	return false
}

// send sends a request once. after is the time that the server asks to wait.
func (c *Client) send(ctx context.Context, r request) (data []byte, after time.Duration, err error) {
	u := c.base.JoinPath(r.path)
	u.RawQuery = r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Accept", "application/json")
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, 0, err
	}
	data, err = io.ReadAll(resp.Body)
	_ = resp.Body.Close() // it has been read
	if err != nil {
		return nil, 0, err
	}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return data, 0, nil
	}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		after = time.Duration(seconds) * time.Second
	}
	return nil, after, statusError(resp.StatusCode, r.method, data)
}

// statusError returns the error of an answer, which a proxy may have written.
func statusError(code int, method string, body []byte) error {
	var s metav1.Status
	if json.Unmarshal(body, &s) == nil && s.Kind == "Status" && s.Status == metav1.StatusFailure {
		s.Code = int32(code)
		return &apierrors.StatusError{ErrStatus: s}
	}
	return apierrors.NewGenericServerResponse(code, strings.ToLower(method),
		runtimeschema.GroupResource{}, "", string(body[:min(len(body), 1000)]), 0, true)
}

// get reads a path.
func (c *Client) get(ctx context.Context, path string, query url.Values) ([]byte, error) {
	return c.do(ctx, request{method: http.MethodGet, path: path, query: query})
}

// patch applies a JSON merge patch.
func (c *Client) patch(ctx context.Context, path string, query url.Values, patch any) ([]byte, error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	return c.do(ctx, request{method: http.MethodPatch, path: path, query: query, contentType: "application/merge-patch+json", body: body})
}
