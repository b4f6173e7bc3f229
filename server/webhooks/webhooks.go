// Package webhooks provides the HTTP client for all webhooks that the server calls. Webhooks
// belong to users: they may hang, send wrong data or never stop sending. So responses have a
// size limit, redirects are errors (a redirect would send the object to an address that is
// not configured), and a call ends with the context of its request.
package webhooks

import (
	"fmt"
	"io"
	"net/http"

	"k8s.io/client-go/rest"
)

// MaxResponseBytes is the size limit of a webhook's response, uncompressed. etcd accepts
// objects of 1.5 MB, and a response holds one object, or a patch that may be twice as large.
const MaxResponseBytes = 8 << 20

// RedirectError is returned when a webhook responds with a redirect.
type RedirectError struct {
	Code     int
	Location string
}

func (e *RedirectError) Error() string {
	return fmt.Sprintf("the webhook responded with status %d, a redirect to %q: webhooks must not redirect", e.Code, e.Location)
}

// SizeError is returned when the response of a webhook exceeds [MaxResponseBytes].
type SizeError struct{ Limit int64 }

func (e *SizeError) Error() string {
	return fmt.Sprintf("the response of the webhook is larger than %d MiB", e.Limit>>20)
}

// GuardConfig returns a copy of c whose clients reject redirects and responses that are too
// large.
func GuardConfig(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	c.Wrap(func(rt http.RoundTripper) http.RoundTripper { return &transport{next: rt, limit: MaxResponseBytes} })
	return c
}

// transport checks responses.
type transport struct {
	next  http.RoundTripper
	limit int64
}

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		_ = resp.Body.Close()
		return nil, &RedirectError{Code: resp.StatusCode, Location: resp.Header.Get("Location")}
	case resp.ContentLength > t.limit:
		_ = resp.Body.Close()
		return nil, &SizeError{t.limit}
	}
	resp.Body = &limitedBody{body: resp.Body, left: t.limit, limit: t.limit}
	return resp, nil
}

// limitedBody returns an error when more than its limit is read.
type limitedBody struct {
	body        io.ReadCloser
	left, limit int64
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, &SizeError{b.limit}
	}
	// Reading one extra byte distinguishes a response of exactly the limit from a larger one.
	n, err := b.body.Read(p[:min(int64(len(p)), b.left+1)])
	b.left -= int64(n)
	if b.left < 0 {
		return n, &SizeError{b.limit}
	}
	return n, err
}

func (b *limitedBody) Close() error { return b.body.Close() }
