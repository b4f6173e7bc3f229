package server_test

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"espalier.dev/api"
	"espalier.dev/server"
	"espalier.dev/server/faults"
	"espalier.dev/server/servertest"
)

// hanging makes the writes of CRDs in the group hang.example.com hang, whatever becomes of their requests,
// until release is called. Each of them sends to started.
func hanging(o *server.Options) (started <-chan struct{}, release func()) {
	begun, hang := make(chan struct{}), make(chan struct{})
	o.Warnings = func(_ context.Context, crd *api.CustomResourceDefinition) []string {
		if crd.Spec.Group == "hang.example.com" {
			begun <- struct{}{}
			<-hang
		}
		return nil
	}
	return begun, func() { close(hang) }
}

// abandon sends a write that hangs, and gives it up when the server works on it. It reports false if the
// server rejects it.
func abandon(t *testing.T, c *http.Client, url, body string, started <-chan struct{}) bool {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	answered := make(chan *http.Response, 1)
	go func() {
		resp, err := c.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		answered <- resp
	}()
	select {
	case <-started:
		cancel()
		<-answered
		return true
	case resp := <-answered:
		if resp == nil {
			t.Fatal("no answer")
		}
		wantBusy(t, resp)
		return false
	}
}

// TestAbandonedWork leaves behind work that does not end with its requests, as much of it as the server
// accepts. Only the work for which there are no seats of its own takes those of others, administrators
// can still read and delete, and all seats are free again when the work has ended. It is not parallel,
// because the metric counts all servers of the process.
func TestAbandonedWork(t *testing.T) {
	if testing.Short() {
		t.Skip("abandons work that takes seconds")
	}
	for _, test := range []struct {
		name     string
		fairness bool
		want     int
	}{
		// A tenth of the limit, then the limit.
		{"limits", false, 1 + 10},
		// The sum of both limits, and what the server adds for rounding.
		{"fairness", true, 2 + 20 + 64},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := fair(t)
			o.EnablePriorityAndFairness = test.fairness
			o.MaxRequestsInFlight, o.MaxMutatingRequestsInFlight = 10, 10
			started, release := hanging(o)
			s := servertest.Start(t, o)
			admin, joe, jane := servertest.Client(t, s, nil), of(t, s, "joe"), of(t, s, "jane")
			wantAbandoned := func(n int) {
				t.Helper()
				servertest.Eventually(t, func() error {
					if _, body := servertest.Get(t, s, admin, "/metrics"); !strings.Contains(body, fmt.Sprintf("\nespalier_abandoned_requests %d\n", n)) {
						return fmt.Errorf("the metric of abandoned requests is not %d", n)
					}
					return nil
				})
			}
			maps := s.URL() + "/api/v1/namespaces/default/configmaps"
			write := func(c *http.Client, name string) *http.Response {
				t.Helper()
				return send(t, c, http.MethodPost, maps, strings.NewReader(`{"metadata":{"name":"`+name+`"}}`))
			}
			if resp := write(jane, "a"); resp.StatusCode != http.StatusCreated {
				t.Fatalf("before: %d", resp.StatusCode)
			}
			servertest.Eventually(t, func() error {
				level := func(c *http.Client) string {
					return send(t, c, http.MethodGet, maps, nil).Header.Get(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID)
				}
				if test.fairness && level(joe) == level(admin) {
					return errors.New("the priority levels do not take effect")
				}
				return nil
			})
			left := 0
			for left < 200 && abandon(t, joe, s.URL()+servertest.CRDs, servertest.ThingCRD("hang.example.com"), started) {
				left++
				wantAbandoned(left)
			}
			if left != test.want {
				t.Errorf("the server accepts %d requests whose work hangs, want %d", left, test.want)
			}
			wantBusy(t, write(jane, "b"))
			for _, request := range []struct{ method, path string }{
				{http.MethodGet, "/a"}, {http.MethodGet, ""}, {http.MethodDelete, "/a"}, {http.MethodGet, "?watch=true&timeoutSeconds=1"},
			} {
				if resp := send(t, admin, request.method, maps+request.path, nil); resp.StatusCode != http.StatusOK {
					t.Errorf("an administrator: %s %s: %d", request.method, request.path, resp.StatusCode)
				}
			}
			release()
			wantAbandoned(0)
			if resp := write(jane, "b"); resp.StatusCode != http.StatusCreated {
				t.Errorf("after: %d", resp.StatusCode)
			}
		})
	}
}

// TestAbandonedConversion lets a client give up on writes that wait for a conversion webhook. They must keep
// their seats until their work ends.
func TestAbandonedConversion(t *testing.T) {
	t.Parallel()
	started, released := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	hook := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		select {
		case started <- struct{}{}:
		case <-released:
		}
		<-released
	}))
	t.Cleanup(hook.Close)
	t.Cleanup(release)
	o := servertest.Options(t)
	o.Authorization.Modes = []string{"AlwaysAllow"}
	o.MaxMutatingRequestsInFlight = 1
	s := servertest.Start(t, o)
	joe := of(t, s, "joe")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})
	const schema = `"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}`
	definition := fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.abandoned.example.com"},
		"spec":{"group":"abandoned.example.com","scope":"Namespaced","names":{"plural":"things","kind":"Thing"},
		"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":%q,"caBundle":%q}}},
		"versions":[{"name":"v1","served":true,"storage":true,%s},{"name":"v2","served":true,"storage":false,%s}]}}`,
		hook.URL, base64.StdEncoding.EncodeToString(ca), schema, schema)
	if resp := send(t, joe, http.MethodPost, s.URL()+servertest.CRDs, strings.NewReader(definition)); resp.StatusCode != http.StatusCreated {
		t.Fatalf("create the CRD: %d", resp.StatusCode)
	}
	const thing = `{"apiVersion":"abandoned.example.com/v2","kind":"Thing","metadata":{"name":"x"}}`
	things := s.URL() + "/apis/abandoned.example.com/v2/namespaces/default/things"
	write := func(method, path string) *http.Response {
		return send(t, joe, method, things+path, strings.NewReader(thing))
	}
	// One has a seat for abandoned work, the other one keeps its own.
	for range 2 {
		servertest.Eventually(t, func() error {
			if !abandon(t, joe, things, thing, started) {
				return errors.New("the seat of a request that has ended was not freed")
			}
			return nil
		})
	}
	wantBusy(t, write(http.MethodPost, ""))
	wantBusy(t, write(http.MethodDelete, "/x"))
	release()
	servertest.Eventually(t, func() error {
		if resp := write(http.MethodPost, ""); resp.StatusCode == http.StatusTooManyRequests {
			return errors.New("the seat was not given back")
		}
		return nil
	})
}

// TestReservedSeats takes all seats for reads and watches. Administrators have a few more.
func TestReservedSeats(t *testing.T) {
	t.Parallel()
	o := servertest.Options(t)
	o.Authorization.Modes = []string{"AlwaysAllow"}
	o.MaxRequestsInFlight, o.MaxLongRunningRequestsInFlight = 1, 1
	o.Faults = &faults.Set{}
	s := servertest.Start(t, o)
	for _, query := range []string{"", "?watch=true&timeoutSeconds=1"} {
		slow, err := o.Faults.Inject(faults.Rule{Fault: faults.Delay, User: "joe", Delay: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		joe, ended := of(t, s, "joe"), make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer close(ended)
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+"/api/v1/namespaces"+query, nil)
			if resp, err := joe.Do(req); err == nil {
				_ = resp.Body.Close()
			}
		}()
		servertest.Eventually(t, func() error {
			if slow.Hits() == 0 {
				return fmt.Errorf("%q: the request has no seat", query)
			}
			return nil
		})
		wantBusy(t, send(t, of(t, s, "jane"), http.MethodGet, s.URL()+"/api/v1/namespaces"+query, nil))
		if resp := send(t, servertest.Client(t, s, nil), http.MethodGet, s.URL()+"/api/v1/namespaces"+query, nil); resp.StatusCode != http.StatusOK {
			t.Errorf("%q: an administrator: %d", query, resp.StatusCode)
		}
		cancel()
		<-ended
		slow.Remove()
	}
}
