package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/rest"

	"espalier.dev/server"
	"espalier.dev/server/servertest"
)

// TestCancelledStart checks that a start can be cancelled at any time: it returns an error,
// the process continues, and all resources are released so that the next start succeeds.
func TestCancelledStart(t *testing.T) {
	o := servertest.EtcdOptions(t)
	s, err := servertest.TryStart(t, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	cancelled, stop := context.WithCancel(t.Context())
	stop()
	if s, err := server.Start(cancelled, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("with a cancelled context: %v, %v", s, err)
	}
	failures := 0
	for patience := 5 * time.Millisecond; ; patience += max(5*time.Millisecond, patience/5) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		s, err := server.Start(ctx, o)
		cancel()
		if err == nil {
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
			break
		}
		failures++
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %v: %v", patience, err)
		}
		if patience > time.Minute {
			t.Fatal("it never starts")
		}
	}
	if failures < 3 {
		t.Errorf("the start was cancelled %d times only", failures)
	}
}

// TestObjectsWhileStarting requests an existing object as soon as the port of a restarted
// server is open: no response may claim that the object does not exist, or that a user with the
// right role or token has no access.
func TestObjectsWhileStarting(t *testing.T) {
	t.Parallel()
	o := servertest.Options(t)
	s, err := servertest.TryStart(t, o)
	if err != nil {
		t.Fatal(err)
	}
	c := servertest.Client(t, s, nil)
	for i := range 40 {
		plural := "things" + strconv.Itoa(i)
		if code, body := servertest.Exchange(t, c, http.MethodPost, s.URL()+"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", fmt.Sprintf(`{
"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]s.example.com"},"spec":{"group":"example.com","scope":"Cluster",
"names":{"plural":"%[1]s","kind":"Thing%[2]d"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`, plural, i)); code != http.StatusCreated {
			t.Fatalf("%d %s", code, body)
		}
	}
	const object = "/apis/example.com/v1/things39/it"
	if code, body := servertest.Exchange(t, c, http.MethodPost, s.URL()+"/apis/example.com/v1/things39", `{"apiVersion":"example.com/v1","kind":"Thing39","metadata":{"name":"it"}}`); code != http.StatusCreated {
		t.Fatalf("%d %s", code, body)
	}
	// An administrator, a user with a role, and a service account with a role.
	user, err := s.UserConfig("ann")
	if err != nil {
		t.Fatal(err)
	}
	for path, body := range map[string]string{
		"clusterroles": `{"metadata":{"name":"things"},"rules":[{"apiGroups":["example.com"],"resources":["*"],"verbs":["get"]}]}`,
		"clusterrolebindings": `{"metadata":{"name":"things"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"things"},
"subjects":[{"kind":"User","name":"ann"},{"kind":"ServiceAccount","name":"default","namespace":"default"}]}`,
	} {
		if code, body := servertest.Exchange(t, c, http.MethodPost, s.URL()+"/apis/rbac.authorization.k8s.io/v1/"+path, body); code != http.StatusCreated {
			t.Fatalf("%d %s", code, body)
		}
	}
	var issued authenticationv1.TokenRequest
	servertest.Eventually(t, func() error {
		code, body := servertest.Exchange(t, c, http.MethodPost, s.URL()+"/api/v1/namespaces/default/serviceaccounts/default/token", "{}")
		if code != http.StatusCreated {
			return fmt.Errorf("%d %s", code, body)
		}
		return json.Unmarshal([]byte(body), &issued)
	})
	account := rest.AnonymousClientConfig(user)
	account.BearerToken = issued.Status.Token
	clients := map[string]*http.Client{"administrator": c, "user": servertest.Client(t, s, user), "service account": servertest.Client(t, s, account)}

	address, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	if o.SecurePort, err = strconv.Atoi(address.Port()); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var group sync.WaitGroup
	for who, c := range clients {
		group.Go(func() {
			seen := map[int]int{}
			for run := true; run; {
				select {
				case <-done:
					run = false // after a last request
				default:
				}
				resp, err := c.Get(s.URL() + object)
				if err != nil {
					time.Sleep(5 * time.Millisecond) // the port is closed
					continue
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				seen[resp.StatusCode]++
			}
			for code := range seen {
				if code != http.StatusOK && code != http.StatusServiceUnavailable {
					t.Errorf("%s: while starting: %v", who, seen)
				}
			}
			if seen[http.StatusOK] == 0 {
				t.Errorf("%s: when ready: %v", who, seen)
			}
			if seen[http.StatusServiceUnavailable] == 0 {
				t.Logf("%s: the server was too quick: %v", who, seen)
			}
		})
	}
	servertest.Start(t, o)
	close(done)
	group.Wait()
}
