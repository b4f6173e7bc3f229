package webhooks

import (
	"compress/gzip"
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/util/webhook"
)

// call sends a request to a webhook with the given handler, as converters and admission
// plugins do.
func call(t *testing.T, ctx context.Context, h http.HandlerFunc) ([]byte, error) {
	t.Helper()
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	network := NewNetwork(webhook.NewDefaultServiceResolver())
	t.Cleanup(network.Close)
	clients, err := network.NewClients(runtimeschema.GroupVersion{Group: "apiextensions.k8s.io", Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := clients.HookClient(webhook.ClientConfig{
		Name: "test", URL: s.URL + "/convert",
		CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return c.Post().Body([]byte("{}")).Do(ctx).Raw()
}

func TestSize(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		size     int
		announce bool
		gzip     bool
		tooLarge bool
	}{
		"just fits":           {size: MaxResponseBytes},
		"fits, announced":     {size: MaxResponseBytes, announce: true},
		"too large":           {size: MaxResponseBytes + 1, tooLarge: true},
		"announced too large": {size: MaxResponseBytes + 1, announce: true, tooLarge: true},
		"too large unpacked":  {size: 64 << 20, gzip: true, tooLarge: true},
		"without end":         {size: 1 << 40, tooLarge: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body, err := call(t, t.Context(), func(w http.ResponseWriter, _ *http.Request) {
				var out = struct{ http.ResponseWriter }{w}
				write := out.Write
				if tt.announce {
					w.Header().Set("Content-Length", strconv.Itoa(tt.size))
				}
				if tt.gzip {
					w.Header().Set("Content-Encoding", "gzip")
					z := gzip.NewWriter(w)
					defer z.Close()
					write = z.Write
				}
				chunk := make([]byte, 1<<20)
				for left := tt.size; left > 0; left -= len(chunk) {
					chunk = chunk[:min(left, len(chunk))]
					if _, err := write(chunk); err != nil {
						return // the client has hung up
					}
				}
			})
			var size *SizeError
			if errors.As(err, &size) != tt.tooLarge {
				t.Errorf("error %v", err)
			}
			if !tt.tooLarge && len(body) != tt.size {
				t.Errorf("%d bytes of %d, %v", len(body), tt.size, err)
			}
		})
	}
}

// TestDeadline calls a webhook that never answers.
func TestDeadline(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	hung := make(chan struct{})
	defer close(hung)
	_, err := call(t, ctx, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-hung:
		case <-r.Context().Done():
		}
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
