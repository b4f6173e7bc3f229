package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	flowclient "k8s.io/client-go/kubernetes/typed/flowcontrol/v1"
	"k8s.io/client-go/rest"

	"espalier.dev/server"
	"espalier.dev/server/servertest"
)

// fair returns the options of a server with priority and fairness.
func fair(t testing.TB) *server.Options {
	o := servertest.Options(t)
	o.EnablePriorityAndFairness = true
	o.Authorization.Modes = []string{"AlwaysAllow"}
	return o
}

// everything returns a flow schema for all requests of a user.
func everything(name, user, level string) *v1.FlowSchema {
	return &v1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.FlowSchemaSpec{
		PriorityLevelConfiguration: v1.PriorityLevelConfigurationReference{Name: level}, MatchingPrecedence: 100,
		DistinguisherMethod: &v1.FlowDistinguisherMethod{Type: v1.FlowDistinguisherMethodByUserType},
		Rules: []v1.PolicyRulesWithSubjects{{
			Subjects: []v1.Subject{{Kind: v1.SubjectKindUser, User: &v1.UserSubject{Name: user}}},
			ResourceRules: []v1.ResourcePolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"},
				ClusterScope: true, Namespaces: []string{"*"}}},
			NonResourceRules: []v1.NonResourcePolicyRule{{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}},
		}},
	}}
}

// level returns a priority level that rejects requests for which it has no seat.
func level(name string, shares int32) *v1.PriorityLevelConfiguration {
	return &v1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PriorityLevelConfigurationSpec{
		Type: v1.PriorityLevelEnablementLimited,
		Limited: &v1.LimitedPriorityLevelConfiguration{NominalConcurrencyShares: &shares, LendablePercent: new(int32(0)),
			BorrowingLimitPercent: new(int32(0)), LimitResponse: v1.LimitResponse{Type: v1.LimitResponseTypeReject}},
	}}
}

// of returns a client of a user.
func of(t testing.TB, s *server.Server, user string) *http.Client {
	t.Helper()
	config, err := s.UserConfig(user)
	if err != nil {
		t.Fatal(err)
	}
	return servertest.Client(t, s, config)
}

// hold sends a write of a user whose body does not end before the returned function is called, and
// returns when the server works on it.
func hold(t testing.TB, s *server.Server, user string) (release func()) {
	t.Helper()
	body, end := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+"/api/v1/namespaces", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	c, done := of(t, s, user), make(chan struct{})
	go func() {
		defer close(done)
		resp, err := c.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		_ = body.Close() // the server may have given up
	}()
	// So much of the body is only read when the request has a seat.
	if _, err := end.Write([]byte(strings.Repeat(" ", server.MaxRequestBody*2/3))); err != nil {
		t.Fatal(err)
	}
	return func() {
		_ = end.Close()
		<-done
	}
}

// limit makes a priority level for a user, and waits until it takes effect.
func limit(t testing.TB, s *server.Server, user string, l *v1.PriorityLevelConfiguration) {
	t.Helper()
	root := servertest.Clientset(t, s, nil, "").FlowcontrolV1()
	if _, err := root.PriorityLevelConfigurations().Create(t.Context(), l, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	schema, err := root.FlowSchemas().Create(t.Context(), everything(l.Name, user, l.Name), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := of(t, s, user)
	servertest.Eventually(t, func() error {
		resp := send(t, c, http.MethodGet, s.URL()+"/api/v1/namespaces", nil)
		if got := resp.Header.Get(v1.ResponseHeaderMatchedFlowSchemaUID); resp.StatusCode != http.StatusOK || got != string(schema.UID) {
			return fmt.Errorf("got %d, flow schema %s", resp.StatusCode, got)
		}
		return nil
	})
}

// TestFairness tests that stored flow schemas and priority levels take effect.
func TestFairness(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := servertest.Start(t, fair(t))
	root := servertest.Clientset(t, s, nil, "")
	schemas, levels := root.FlowcontrolV1().FlowSchemas(), root.FlowcontrolV1().PriorityLevelConfigurations()

	t.Run("defaults", func(t *testing.T) {
		all, err := schemas.List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, one := range all.Items {
			names = append(names, one.Name)
			if one.Annotations[v1.AutoUpdateAnnotationKey] != "true" || len(one.Status.Conditions) != 1 ||
				one.Status.Conditions[0].Status != v1.ConditionFalse || len(one.ManagedFields) != 2 {
				text, _ := json.Marshal(one)
				t.Errorf("got %s", text)
			}
		}
		const want = "catch-all exempt global-default kube-controller-manager kube-scheduler kube-system-service-accounts probes " +
			"service-accounts system-leader-election system-node-high system-nodes"
		if got := strings.Join(names, " "); got != want {
			t.Errorf("got the flow schemas %s, want %s", got, want)
		}
		stored, err := levels.List(ctx, metav1.ListOptions{})
		if err != nil || len(stored.Items) != 8 {
			t.Errorf("got the priority levels %v, %v", stored.Items, err)
		}
	})

	t.Run("classified", func(t *testing.T) {
		limit(t, s, "jane", level("own", 10))
		resp := send(t, of(t, s, "john"), http.MethodGet, s.URL()+"/api/v1/namespaces", nil)
		other, err := schemas.Get(ctx, "global-default", metav1.GetOptions{})
		if err != nil || resp.Header.Get(v1.ResponseHeaderMatchedFlowSchemaUID) != string(other.UID) {
			t.Errorf("got the headers %v, %v", resp.Header, err)
		}
		wantCondition(t, schemas, "own", v1.ConditionFalse)
	})

	t.Run("dangling", func(t *testing.T) {
		if _, err := schemas.Create(ctx, everything("dangling", "jim", "missing"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		wantCondition(t, schemas, "dangling", v1.ConditionTrue)
		if _, err := levels.Create(ctx, level("missing", 1), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		wantCondition(t, schemas, "dangling", v1.ConditionFalse)
	})

	t.Run("rejected", func(t *testing.T) {
		// A level without seats works on one request at a time.
		limit(t, s, "joe", level("none", 0))
		release := hold(t, s, "joe")
		joe := of(t, s, "joe")
		wantBusy(t, send(t, joe, http.MethodGet, s.URL()+"/api/v1/namespaces", nil))
		_, err := servertest.Clientset(t, s, userConfig(t, s, "joe"), "").CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces").MaxRetries(0).DoRaw(ctx)
		if !apierrors.IsTooManyRequests(err) {
			t.Errorf("got the error %v", err)
		}
		if resp := send(t, of(t, s, "jane"), http.MethodGet, s.URL()+"/api/v1/namespaces", nil); resp.StatusCode != http.StatusOK {
			t.Errorf("another user: %d", resp.StatusCode)
		}
		release()
		if resp := send(t, joe, http.MethodGet, s.URL()+"/api/v1/namespaces", nil); resp.StatusCode != http.StatusOK {
			t.Errorf("afterwards: %d", resp.StatusCode)
		}
	})

	t.Run("watches", func(t *testing.T) {
		// An open watch has no seat.
		limit(t, s, "jill", level("watching", 0))
		jill := of(t, s, "jill")
		resp, err := jill.Get(s.URL() + "/api/v1/namespaces?watch=true&timeoutSeconds=60")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if resp := send(t, jill, http.MethodGet, s.URL()+"/api/v1/namespaces", nil); resp.StatusCode != http.StatusOK {
			t.Errorf("beside a watch: %d", resp.StatusCode)
		}
	})

	t.Run("debug", func(t *testing.T) {
		jane := of(t, s, "jane")
		for _, path := range []string{"dump_priority_levels", "dump_queues", "dump_requests"} {
			if code, body := servertest.Get(t, s, jane, "/debug/api_priority_and_fairness/"+path); code != http.StatusOK || body == "" {
				t.Errorf("%s: got %d %s", path, code, body)
			}
		}
		_, body := servertest.Get(t, s, jane, "/metrics")
		if want := `apiserver_flowcontrol_dispatched_requests_total{flow_schema="own",priority_level="own"}`; !strings.Contains(body, want) {
			t.Errorf("the metrics have no %s", want)
		}
	})
}

func userConfig(t testing.TB, s *server.Server, user string) *rest.Config {
	t.Helper()
	config, err := s.UserConfig(user)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// wantCondition waits until a flow schema has the condition Dangling with a status.
func wantCondition(t testing.TB, schemas flowclient.FlowSchemaInterface, name string, status v1.ConditionStatus) {
	t.Helper()
	servertest.Eventually(t, func() error {
		got, err := schemas.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if c := got.Status.Conditions; len(c) != 1 || c[0].Type != v1.FlowSchemaConditionDangling || c[0].Status != status {
			return fmt.Errorf("got the conditions %v", c)
		}
		return nil
	})
}

// queueing returns a priority level with one seat, and one queue.
func queueing(name string) *v1.PriorityLevelConfiguration {
	l := level(name, 1)
	l.Spec.Limited.LimitResponse = v1.LimitResponse{Type: v1.LimitResponseTypeQueue,
		Queuing: &v1.QueuingConfiguration{Queues: 1, HandSize: 1, QueueLengthLimit: 100}}
	return l
}

// wantWaiting waits until so many requests wait in the queue of the level slow.
func wantWaiting(t testing.TB, s *server.Server, want int) {
	t.Helper()
	// The index of a request that is worked on is -1.
	row := regexp.MustCompile(`(?m)^slow, +slow, +0, +\d+,`)
	root := servertest.Client(t, s, nil)
	servertest.Eventually(t, func() error {
		_, body := servertest.Get(t, s, root, "/debug/api_priority_and_fairness/dump_requests")
		if got := len(row.FindAllString(body, -1)); got != want {
			return fmt.Errorf("%d requests wait, want %d:\n%s", got, want, body)
		}
		return nil
	})
}

// TestFairnessQueue tests what ends the wait of a request in a queue.
func TestFairnessQueue(t *testing.T) {
	t.Parallel()
	o := fair(t)
	o.MaxRequestsInFlight, o.MaxMutatingRequestsInFlight = 10, 5 // so that a small level has one seat
	o.RequestTimeout = 20 * time.Second
	s := servertest.Start(t, o)
	limit(t, s, "joe", queueing("slow"))
	joe := of(t, s, "joe")
	release := hold(t, s, "joe")
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+"/api/v1/namespaces", nil)
		resp, err := joe.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		gone <- err
	}()
	wantWaiting(t, s, 1)
	cancel()
	if err := <-gone; err == nil {
		t.Error("a request was answered before it had a seat")
	}
	wantWaiting(t, s, 0)

	answered := make(chan int, 1)
	go func() { answered <- send(t, joe, http.MethodGet, s.URL()+"/api/v1/namespaces", nil).StatusCode }()
	wantWaiting(t, s, 1)
	release()
	if code := <-answered; code != http.StatusOK {
		t.Errorf("a request that has waited: %d", code)
	}

	release = hold(t, s, "joe")
	defer release()
	// It waits for a quarter of the timeout of requests.
	wantBusy(t, send(t, joe, http.MethodGet, s.URL()+"/api/v1/namespaces", nil))
}

// TestFairnessRounding has more priority levels than seats: each of them works on a request at the same time.
func TestFairnessRounding(t *testing.T) {
	t.Parallel()
	o := fair(t)
	o.MaxRequestsInFlight, o.MaxMutatingRequestsInFlight = 1, 1
	s := servertest.Start(t, o)
	for _, user := range []string{"jane", "jill", "joe"} {
		limit(t, s, user, level(user, 0))
	}
	defer hold(t, s, "jane")()
	defer hold(t, s, "jill")()
	if resp := send(t, of(t, s, "joe"), http.MethodGet, s.URL()+"/api/v1/namespaces", nil); resp.StatusCode != http.StatusOK {
		t.Errorf("got %d", resp.StatusCode)
	}
}

// TestFairnessStop stops a server while requests wait in a queue.
func TestFairnessStop(t *testing.T) {
	t.Parallel()
	o := fair(t)
	o.MaxRequestsInFlight, o.MaxMutatingRequestsInFlight = 10, 5 // so that a small level has one seat
	o.RequestTimeout = time.Minute                               // requests wait for a quarter of it
	s, err := servertest.TryStart(t, o)
	if err != nil {
		t.Fatal(err)
	}
	limit(t, s, "joe", queueing("slow"))
	joe := of(t, s, "joe")
	release := hold(t, s, "joe")
	const requests = 50
	codes := make(chan int, requests)
	for range requests {
		go func() {
			resp, err := joe.Get(s.URL() + "/api/v1/namespaces")
			if err != nil {
				codes <- 0
				return
			}
			_ = resp.Body.Close()
			codes <- resp.StatusCode
		}()
	}
	wantWaiting(t, s, requests)
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop() }()
	release()
	for range requests {
		if code := <-codes; code != http.StatusOK && code != http.StatusTooManyRequests {
			t.Errorf("a request that waited when the server stopped: %d", code)
		}
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// TestFairnessFlood sends the requests of 1,000 clients of one user beside those of one client of
// another, who must get all of them answered. Without priority and fairness the server rejects some.
func TestFairnessFlood(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	const clients, connections, requests = 1000, 20, 20
	// rejected returns how many requests of the other user were rejected.
	rejected := func(t *testing.T, on bool) (n int) {
		o := fair(t)
		o.EnablePriorityAndFairness = on
		o.MaxRequestsInFlight, o.MaxMutatingRequestsInFlight = 20, 10
		s := servertest.Start(t, o)
		create(t, s, servertest.Client(t, s, nil), "load.example.com", "Load", 300)
		ctx, cancel := context.WithCancel(t.Context())
		var flood sync.WaitGroup
		defer flood.Wait()
		defer cancel()
		var answered, busy atomic.Int64
		var of1 []*http.Client
		for range connections {
			of1 = append(of1, of(t, s, "joe"))
		}
		for i := range clients {
			flood.Go(func() {
				for ctx.Err() == nil {
					req, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+"/apis/load.example.com/v1/loads", nil)
					resp, err := of1[i%connections].Do(req)
					if err != nil {
						continue // it was canceled
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
					if resp.StatusCode == http.StatusTooManyRequests {
						busy.Add(1)
						time.Sleep(100 * time.Millisecond)
					} else {
						answered.Add(1)
					}
				}
			})
		}
		servertest.Eventually(t, func() error {
			if busy.Load() < clients {
				return fmt.Errorf("%d requests of the flood were rejected", busy.Load())
			}
			return nil
		})
		other := of(t, s, "jane")
		for range requests {
			switch resp := send(t, other, http.MethodGet, s.URL()+"/apis/load.example.com/v1/loads?limit=1", nil); resp.StatusCode {
			case http.StatusOK:
			case http.StatusTooManyRequests:
				n++
			default:
				t.Errorf("got %d", resp.StatusCode)
			}
		}
		if answered.Load() == 0 {
			t.Error("no request of the flood was answered")
		}
		t.Logf("on: %v. %d of %d requests of the other user were rejected; of the flood, %d were answered and %d rejected",
			on, n, requests, answered.Load(), busy.Load())
		return n
	}
	t.Run("on", func(t *testing.T) {
		if n := rejected(t, true); n > 0 {
			t.Errorf("%d of %d requests of the other user were rejected", n, requests)
		}
	})
	t.Run("off", func(t *testing.T) {
		if n := rejected(t, false); n == 0 {
			t.Error("no request of the other user was rejected: the clients do not flood the server")
		}
	})
}
