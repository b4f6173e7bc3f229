package espaliertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"espalier.dev/server/faults"
)

// patience bounds the waits of these tests.
const patience = 30 * time.Second

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
}

// protobuf returns a client that sends and receives protobuf.
func protobuf(t *testing.T, c *rest.Config) kubernetes.Interface {
	t.Helper()
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// exchange sends a request with the administrator's certificate.
func exchange(t *testing.T, s *Server, method, path, body string) (*http.Response, []byte, error) {
	t.Helper()
	client, err := rest.HTTPClientFor(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", string(types.MergePatchType))
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return resp, text, err
}

// TestFaultAnswers sends one request for each fault that is an answer: the answers are
// those of an API server.
func TestFaultAnswers(t *testing.T) {
	t.Parallel()
	s := Start(t, WithCRDs("testdata/crds"))
	const collection = "/apis/example.com/v1/trees"
	if _, text, err := exchange(t, s, "POST", collection, `{"apiVersion":"example.com/v1","kind":"Tree","metadata":{"name":"oak"}}`); err != nil {
		t.Fatalf("%s, %v", text, err)
	}
	for _, test := range []struct {
		rule         Rule
		method, path string
		body         string
		code         int
		reason       metav1.StatusReason
		details      *metav1.StatusDetails
		header       string
	}{
		{Rule{Fault: Conflict, Resource: "trees.example.com"}, "PATCH", collection + "/oak", `{"metadata":{"labels":{"a":"b"}}}`, 409, metav1.StatusReasonConflict,
			&metav1.StatusDetails{Name: "oak", Group: "example.com", Kind: "trees"}, ""},
		{Rule{Fault: TooManyRequests}, "GET", collection + "/oak", "", 429, metav1.StatusReasonTooManyRequests,
			&metav1.StatusDetails{RetryAfterSeconds: 1}, "1"},
		{Rule{Fault: TooManyRequests, RetryAfter: 3 * time.Second}, "GET", collection, "", 429, metav1.StatusReasonTooManyRequests,
			&metav1.StatusDetails{RetryAfterSeconds: 3}, "3"},
		{Rule{Fault: InternalError}, "DELETE", collection + "/oak", "", 500, metav1.StatusReasonInternalError,
			&metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: "the storage is not available"}}}, ""},
		{Rule{Fault: Unavailable}, "GET", collection, "", 503, metav1.StatusReasonServiceUnavailable, nil, ""},
		{Rule{Fault: Unavailable, RetryAfter: 2 * time.Second}, "GET", collection + "?watch=true", "", 503,
			metav1.StatusReasonServiceUnavailable, &metav1.StatusDetails{RetryAfterSeconds: 2}, "2"},
		{Rule{Fault: LostAnswer, Name: "elm"}, "POST", collection, `{"apiVersion":"example.com/v1","kind":"Tree","metadata":{"name":"elm"}}`,
			504, metav1.StatusReasonTimeout, &metav1.StatusDetails{}, ""},
		{Rule{Fault: Expired}, "GET", collection + "?limit=1&continue=abc", "", 410, metav1.StatusReasonExpired, nil, ""},
	} {
		t.Run(test.rule.String()+" "+test.method, func(t *testing.T) {
			test.rule.Strict = true
			in := s.Inject(t, test.rule)
			resp, text, err := exchange(t, s, test.method, test.path, test.body)
			if err != nil {
				t.Fatal(err)
			}
			var status metav1.Status
			if err := json.Unmarshal(text, &status); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if status.Kind != "Status" || status.APIVersion != "v1" || status.Status != metav1.StatusFailure || status.Message == "" ||
				resp.StatusCode != test.code || int(status.Code) != test.code || status.Reason != test.reason {
				t.Errorf("got %d, %s", resp.StatusCode, text)
			}
			if fmt.Sprint(status.Details) != fmt.Sprint(test.details) || resp.Header.Get("Retry-After") != test.header {
				t.Errorf("got %s, Retry-After %q", text, resp.Header.Get("Retry-After"))
			}
			if in.Hits() != 1 {
				t.Errorf("%d hits", in.Hits())
			}
		})
	}
	// The write with the lost answer was stored, and the deletion with the error was not executed.
	for _, name := range []string{"elm", "oak"} {
		if resp, text, err := exchange(t, s, "GET", collection+"/"+name, ""); err != nil || resp.StatusCode != 200 {
			t.Errorf("%s, %v", text, err)
		}
	}
}

// TestInjectedWrites checks what is stored when answers are lost, and which requests rules match.
func TestInjectedWrites(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := Start(t)
	client := protobuf(t, s.Config()).CoreV1().ConfigMaps("default")
	other := protobuf(t, s.AddUser(t, "alice", "system:masters")).CoreV1().ConfigMaps("default")
	exists := func(name string, want bool) {
		t.Helper()
		if _, err := client.Get(ctx, name, metav1.GetOptions{}); want && err != nil || !want && !apierrors.IsNotFound(err) {
			t.Errorf("%s: %v", name, err)
		}
	}

	in := s.Inject(t, Rule{Fault: CloseBefore, Verbs: []string{"create"}, Name: "before"},
		Rule{Fault: CloseAfter, Verbs: []string{"create"}, Name: "after"},
		Rule{Fault: LostAnswer, Verbs: []string{"create"}, Name: "lost", Nth: 2})
	for _, name := range []string{"before", "after"} {
		_, err := client.Create(ctx, configMap(name), metav1.CreateOptions{})
		if status := apierrors.APIStatus(nil); err == nil || errors.As(err, &status) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	exists("before", false)
	exists("after", true)
	if _, err := client.Create(ctx, configMap("lost"), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	// The second create fails: its own answer is not lost.
	if _, err := client.Create(ctx, configMap("lost"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("got %v", err)
	}
	var got []string
	for _, c := range in.Counts() {
		got = append(got, fmt.Sprint(c.Matched, c.Hits))
	}
	if want := []string{"1 1", "1 1", "2 0"}; !slices.Equal(got, want) {
		t.Errorf("counts: %q, want %q", got, want)
	}

	// Users, counts and dry runs.
	in.Remove()
	in = s.Inject(t, Rule{Fault: LostAnswer, User: "alice", Resource: "configmaps", Namespace: "default", First: 1, Strict: true},
		Rule{Fault: Unavailable, User: "bob"}, Rule{Fault: Unavailable, Resource: "configmaps.apps"}, Rule{Fault: Unavailable, Resource: "configmaps/status"},
		Rule{Fault: Unavailable, Namespace: "kube-system"})
	if _, err := client.Create(ctx, configMap("mine"), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := other.Create(ctx, configMap("dry"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Error(err)
	}
	if _, err := other.Create(ctx, configMap("hers"), metav1.CreateOptions{}); !apierrors.IsTimeout(err) {
		t.Errorf("got %v", err)
	}
	exists("hers", true)
	if err := other.Delete(ctx, "hers", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if in.Hits() != 1 {
		t.Errorf("counts: %+v", in.Counts())
	}
}

// TestFaultDelay delays a request until the rule is removed.
func TestFaultDelay(t *testing.T) {
	t.Parallel()
	s := Start(t)
	in := s.Inject(t, Rule{Fault: Delay, Delay: time.Hour, Resource: "configmaps"})
	answered := make(chan error, 1)
	go func() {
		_, err := protobuf(t, s.Config()).CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		answered <- err
	}()
	await(t, "the request", func() bool { return in.Hits() == 1 })
	select {
	case err := <-answered:
		t.Fatalf("it was not delayed: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	in.Remove()
	select {
	case err := <-answered:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("no answer")
	}
}

// await waits for a condition.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// TestStaleReads reads older states with resourceVersion=0, which never go back.
func TestStaleReads(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := Start(t, WithCRDs("testdata/crds"))
	maps := protobuf(t, s.Config()).CoreV1().ConfigMaps("default")
	all := trees(t, s.Config())
	set := func(value string) {
		t.Helper()
		patch := []byte(`{"metadata":{"labels":{"v":"` + value + `"}}}`)
		if _, err := maps.Patch(ctx, "a", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := all.Patch(ctx, "a", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	cached := "0"
	reads := func(version string) string {
		t.Helper()
		m, err := maps.Get(ctx, "a", metav1.GetOptions{ResourceVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		list, err := maps.List(ctx, metav1.ListOptions{ResourceVersion: version, LabelSelector: "v"})
		if err != nil || len(list.Items) != 1 {
			t.Fatalf("%+v, %v", list, err)
		}
		u, err := all.Get(ctx, "a", metav1.GetOptions{ResourceVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		us, err := all.List(ctx, metav1.ListOptions{ResourceVersion: version, Limit: 1})
		if err != nil || len(us.Items) != 1 {
			t.Fatalf("%+v, %v", us, err)
		}
		if at, own := number(t, list.ResourceVersion), number(t, m.ResourceVersion); at < own {
			t.Errorf("a list at %d has an object of %d", at, own)
		}
		return m.Labels["v"] + list.Items[0].Labels["v"] + u.GetLabels()["v"] + us.Items[0].GetLabels()["v"]
	}
	if _, err := maps.Create(ctx, configMap("a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := all.Create(ctx, tree("a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	set("1")

	stale := s.Inject(t, Rule{Fault: StaleRead, Strict: true})
	set("2")
	set("3")
	// Reads of the newest state wait until the cache has it.
	if got := reads(""); got != "3333" {
		t.Errorf("got %s", got)
	}
	if got := reads(cached); got != "1111" {
		t.Errorf("got %s", got)
	}
	if hits := stale.Hits(); hits != 4 {
		t.Errorf("%d hits", hits)
	}
	// An object that did not exist then is not found.
	if _, err := maps.Create(ctx, configMap("new"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Get(ctx, "new", metav1.GetOptions{ResourceVersion: cached}); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
	stale.Remove()
	if got := reads(cached); got != "3333" {
		t.Errorf("got %s", got)
	}

	// One of two reads is stale, but never older than a read before it.
	s.Inject(t, Rule{Fault: StaleRead, Behind: 3, Probability: 0.5, Seed: 1})
	older, last := 0, 0
	for i := 4; i < 40; i++ {
		set(strconv.Itoa(i))
		m, err := maps.Get(ctx, "a", metav1.GetOptions{ResourceVersion: cached})
		if err != nil {
			t.Fatal(err)
		}
		got, err := strconv.Atoi(m.Labels["v"])
		if err != nil || got < last {
			t.Fatalf("got %d after %d, %v", got, last, err)
		}
		if last = got; got < i {
			older++
		}
	}
	if older == 0 || older == 36 {
		t.Errorf("%d of 36 reads are stale", older)
	}
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestStopReleases stops a server with a request that is delayed and a watch that is held.
func TestStopReleases(t *testing.T) {
	t.Parallel()
	s := Start(t, WithCRDs("testdata/crds"))
	w, err := trees(t, s.Config()).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	in := s.Inject(t, Rule{Fault: HoldEvents}, Rule{Fault: Delay, Delay: time.Hour, Verbs: []string{"get"}})
	if _, err := trees(t, s.Config()).Create(t.Context(), tree("a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _ = trees(t, s.Config()).Get(t.Context(), "a", metav1.GetOptions{}) // the server may be gone
	}()
	await(t, "the delay", func() bool { return in.Counts()[1].Hits == 1 })
	began := time.Now()
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > patience {
		t.Errorf("the stop took %v", took)
	}
	<-answered
	for range w.ResultChan() { //nolint:revive // until it ends
	}
	if _, err := s.InjectFaults(Rule{Fault: Unavailable}); !errors.Is(err, faults.ErrStopped) {
		t.Errorf("got %v", err)
	}
	r := &recordedTest{TB: t}
	func() {
		defer func() { _ = recover() }()
		s.Inject(r, Rule{Fault: Unavailable})
	}()
	if want := "fatal: inject faults: the server has stopped: install rules while it runs"; r.log.String() != want+"\n" {
		t.Errorf("got %q", &r.log)
	}
}

// recordedTest is a test whose messages and cleanups are kept.
type recordedTest struct {
	testing.TB
	log      bytes.Buffer
	cleanups []func()
}

func (r *recordedTest) Cleanup(f func())             { r.cleanups = append(r.cleanups, f) }
func (r *recordedTest) Logf(format string, a ...any) { fmt.Fprintf(&r.log, "log: "+format+"\n", a...) }
func (r *recordedTest) Errorf(format string, a ...any) {
	fmt.Fprintf(&r.log, "error: "+format+"\n", a...)
}
func (r *recordedTest) Fatalf(format string, a ...any) {
	fmt.Fprintf(&r.log, "fatal: "+format+"\n", a...)
	panic("fatal")
}

// TestUnusedRules checks what is reported about rules that have done nothing.
func TestUnusedRules(t *testing.T) {
	t.Parallel()
	s := Start(t)
	r := &recordedTest{TB: t}
	s.Inject(r,
		Rule{Fault: Conflict, Resource: "configmaps"},
		Rule{Fault: Conflict, Resource: "secrets", Strict: true},
		Rule{Fault: Unavailable, Verbs: []string{"list"}, Resource: "configmaps", Nth: 3},
		Rule{Fault: TooManyRequests, Verbs: []string{"list"}, Nth: 2, Strict: true})
	s.Inject(r, Chaos(1, Profile{Conflicts: 0.5, Resource: "pods"})...)
	s.Inject(r, Chaos(1, Profile{Conflicts: 0.5, Delays: 0.0001})...)
	// client-go repeats the second request because of its Retry-After.
	for range 2 {
		if _, err := protobuf(t, s.Config()).CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := protobuf(t, s.Config()).CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, f := range r.cleanups {
		f()
	}
	got := strings.Split(strings.TrimSpace(r.log.String()), "\n")
	want := []string{
		`log: the rule "Conflict resource=configmaps" has matched no request:`,
		`error: the rule "Conflict resource=secrets" has matched no request:`,
		`log: the rule "Unavailable verbs=list resource=configmaps nth=3" has matched 1 requests, but its fault`,
		`log: none of the 1 rules with a probability has matched a request:`,
	}
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("got\n%s", &r.log)
	}
	// The rules are removed with the test.
	if _, err := protobuf(t, s.Config()).CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}
