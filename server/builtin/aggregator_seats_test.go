package builtin_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"espalier.dev/server"
	"espalier.dev/server/servertest"
)

// TestAggregatorShare has a server that does not answer: it takes only a part of the seats of this one, and watches and upgrades
// of it do not count.
func TestAggregatorShare(t *testing.T) {
	t.Parallel()
	o := servertest.Options(t)
	o.MaxRequestsInFlight, o.MaxMutatingRequestsInFlight = 8, 4
	s := servertest.Start(t, o)
	c := servertest.Client(t, s, nil)
	b := newBackend(t, "share", "share.example.com")
	b.register(s, c, "share")
	await(t, s, c, "v1.share.example.com", "True", "Passed")
	const version = "/apis/share.example.com/v1"
	requestUpgrade(t, s, version+"/namespaces/default/widgets/one/vnc").exchange(t)
	arrived := make(chan string)
	b.behave(func(_ http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/hangs") {
			return false
		}
		select {
		case arrived <- r.Method:
		case <-r.Context().Done():
		case <-b.stop:
		}
		select {
		case <-r.Context().Done():
		case <-b.stop:
		}
		return true
	})
	// The client gives up at the end.
	clients, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	const path = version + "/namespaces/default/widgets/hangs"
	for _, one := range []struct {
		method string
		share  int
		flag   string
	}{{http.MethodGet, 2, "--max-requests-inflight (8)"}, {http.MethodPut, 1, "--max-mutating-requests-inflight (4)"}} {
		for range one.share {
			go func() { _, _, _ = ask(clients, c, s, one.method, path) }()
			select {
			case <-arrived:
			case <-time.After(20 * time.Second):
				t.Fatalf("%s does not arrive", one.method)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		resp, text, err := ask(ctx, c, s, one.method, path)
		cancel()
		want := fmt.Sprintf("%d requests are waiting for the service default/share of the API service v1.share.example.com, which is its share of %s: try again later", one.share, one.flag)
		if err != nil || resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "1" || !strings.Contains(text, want) {
			t.Errorf("%s: %v %s %v", one.method, resp, text, err)
		}
	}
	if code, text := servertest.Get(t, s, c, "/apis/apps/v1/deployments"); code != http.StatusOK {
		t.Error("a read of this server:", code, text)
	}
	if code, text := servertest.Exchange(t, c, http.MethodPost, s.URL()+configMaps, `{"metadata":{"name":"one"}}`); code != http.StatusCreated {
		t.Error("a write of this server:", code, text)
	}
	watch, err := c.Get(s.URL() + version + "/widgets?watch=true")
	if err != nil || watch.StatusCode != http.StatusOK {
		t.Fatal(watch, err)
	}
	_ = watch.Body.Close()
	giveUp()
	servertest.Eventually(t, func() error {
		if code, text := servertest.Get(t, s, c, version+"/widgets"); code != http.StatusOK {
			return fmt.Errorf("after the requests have ended: %d %s", code, text)
		}
		return nil
	})
}

// ask sends a request and reads the response.
func ask(ctx context.Context, c *http.Client, s *server.Server, method, path string) (*http.Response, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.URL()+path, strings.NewReader("{}"))
	if err != nil {
		return nil, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), err
}
