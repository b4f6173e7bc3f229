package server_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"espalier.dev/espaliertest"
	"espalier.dev/schema"
	"espalier.dev/server/etcd/etcdtest"
	"espalier.dev/server/servertest"
)

// TestHostile sends malformed and malicious requests. Each must get a response that explains
// the error. The server must not panic, and must not leak resources.
func TestHostile(t *testing.T) {
	if testing.Short() {
		t.Skip("sends hundreds of hostile requests")
	}
	log := &syncBuffer{}
	// Panics are caught and logged. The log is global, so this test is not parallel.
	klog.SetSlogLogger(slog.New(slog.NewTextHandler(log, nil)))
	t.Cleanup(klog.ClearLogger)
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		t.Run(sem.String(), func(t *testing.T) {
			etcd := etcdtest.Start(t)
			// A server that finds an empty etcd knows all events, from the first revision on.
			for range 3 {
				if _, err := etcd.Put(t.Context(), "/other", ""); err != nil {
					t.Fatal(err)
				}
			}
			s := espaliertest.Start(t, espaliertest.WithSemantics(sem), espaliertest.WithFlags("--etcd-servers", etcd.Endpoints()[0]))
			h := newHostile(t, s)
			h.send(hostileRequest{method: http.MethodPost, path: servertest.CRDs, body: hostileDefinition, code: http.StatusCreated})
			h.send(hostileRequest{method: http.MethodPost, path: hostileThings, body: hostileThing("seen", `"spec":{}`), code: http.StatusCreated})
			storm := func() {
				for _, r := range hostileRequests() {
					h.send(r)
				}
				h.expired(etcd)
				h.slow(s)
			}
			storm() // allocate what is allocated once per process
			goroutines, memory := servertest.Settled()
			for range 2 {
				storm()
			}
			h.settle(goroutines, memory)
			// The server still works.
			h.send(hostileRequest{method: http.MethodGet, path: hostileThings + "/seen", code: http.StatusOK})
		})
	}
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "runtime error") || strings.Contains(line, "goroutine ") || strings.Contains(line, "observed a panic") {
			t.Errorf("the log has a panic: %s", line)
		}
	}
}

const (
	hostileThings     = "/apis/hostile.example.com/v1/namespaces/default/things"
	hostileDefinition = `{
	"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.hostile.example.com"},
	"spec": {"group": "hostile.example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
		"versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": {
			"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}]}}`
)

func hostileThing(name, rest string) string {
	return fmt.Sprintf(`{"apiVersion":"hostile.example.com/v1","kind":"Thing","metadata":{"name":%q},%s}`, name, rest)
}

// noContentType is the content type of a request without one.
const noContentType = "none"

// hostileRequest is a request with the expected response.
type hostileRequest struct {
	name, method, path, body string
	contentType, accept      string
	code                     int
	says                     string
}

func hostileRequests() []hostileRequest {
	const (
		post, put, patch, get, del = http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodGet, http.MethodDelete
		mergePatch                 = "application/merge-patch+json"
		jsonPatch                  = "application/json-patch+json"
		applyPatch                 = "application/apply-patch+yaml"
		seen                       = hostileThings + "/seen"
	)
	deep := func(n int) string {
		return `"spec":` + strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n)
	}
	wide := func(n int) string {
		b := &strings.Builder{}
		for i := range n {
			fmt.Fprintf(b, `"f%d":%d,`, i, i)
		}
		return b.String()
	}
	huge := strings.Repeat("x", 4<<20)
	bomb := "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 12; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), ","))
	}
	return []hostileRequest{
		{name: "a body of 4 MB", method: post, path: hostileThings, body: hostileThing("a", `"spec":{"a":"`+huge+`"}`), code: 413},
		{name: "an update of 4 MB", method: put, path: seen, body: hostileThing("seen", `"spec":{"a":"`+huge+`"}`), code: 413},
		{name: "a patch of 4 MB", method: patch, path: seen, contentType: mergePatch, body: `{"spec":{"a":"` + huge + `"}}`, code: 413},
		{name: "a definition of 4 MB", method: post, path: servertest.CRDs, body: huge, code: 413},

		{name: "nothing", method: post, path: hostileThings, code: 400},
		{name: "no JSON", method: post, path: hostileThings, body: "nonsense", code: 400},
		{name: "half an object", method: post, path: hostileThings, body: `{"apiVersion":`, code: 400},
		{name: "a list", method: post, path: hostileThings, body: `[1]`, code: 400},
		{name: "null", method: post, path: hostileThings, body: `null`, code: 400},
		{name: "two objects", method: post, path: hostileThings, body: hostileThing("a", `"spec":{}`) + hostileThing("b", `"spec":{}`), code: 400},
		{name: "bytes", method: post, path: hostileThings, body: "\x00\xff\xfe\x01", code: 400},
		{name: "no kind", method: post, path: hostileThings, body: `{"apiVersion":"hostile.example.com/v1"}`, code: 400},
		{name: "another kind", method: post, path: hostileThings, body: `{"apiVersion":"hostile.example.com/v1","kind":"Other","metadata":{"name":"a"}}`, code: 422, says: "must be Thing"},
		{name: "another group", method: post, path: hostileThings, body: `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"}}`, code: 400},
		{name: "broken YAML", method: post, path: hostileThings, contentType: "application/yaml", body: "a: [1\nb: {", code: 400},
		{name: "a YAML bomb", method: post, path: hostileThings, contentType: "application/yaml", body: bomb, code: 400},
		{name: "a number too large", method: post, path: hostileThings, body: hostileThing("a", `"spec":{"a":1e999}`), code: 400},
		{name: "a definition without sense", method: post, path: servertest.CRDs, body: `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","spec":[]}`, code: 400},
		{name: "a definition without anything", method: post, path: servertest.CRDs, body: `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition"}`, code: 422},
		{name: "a broken patch", method: patch, path: seen, contentType: mergePatch, body: `{`, code: 400},
		{name: "a JSON patch that is none", method: patch, path: seen, contentType: jsonPatch, body: `{"a":1}`, code: 400},
		{name: "a JSON patch of what is not there", method: patch, path: seen, contentType: jsonPatch, body: `[{"op":"replace","path":"/spec/no/where","value":1}]`, code: 422},
		{name: "a JSON patch without end", method: patch, path: seen, contentType: jsonPatch, body: "[" + strings.TrimSuffix(strings.Repeat(`{"op":"copy","from":"/spec","path":"/spec/a"},`, 20_000), ",") + "]", code: 413},
		{name: "an apply without a manager", method: patch, path: seen, contentType: applyPatch, body: hostileThing("seen", `"spec":{}`), code: 422, says: "fieldManager"},
		{name: "a broken apply", method: patch, path: seen + "?fieldManager=m", contentType: applyPatch, body: "{", code: 400},

		{name: "a form", method: post, path: hostileThings, contentType: "application/x-www-form-urlencoded", body: "a=b", code: 415},
		{name: "XML", method: put, path: seen, contentType: "text/xml", body: "<a/>", code: 415},
		{name: "protobuf", method: post, path: hostileThings, contentType: "application/vnd.kubernetes.protobuf", body: "k8s\x00", code: 415},
		{name: "an unknown patch", method: patch, path: seen, contentType: "application/x-patch", body: "{}", code: 415},
		{name: "a strategic patch", method: patch, path: seen, contentType: "application/strategic-merge-patch+json", body: "{}", code: 415},
		{name: "what nobody writes", method: get, path: seen, accept: "text/html", code: 406},
		{name: "a list as what nobody writes", method: get, path: hostileThings, accept: "image/png", code: 406},
		{name: "custom resources as protobuf", method: get, path: seen, accept: "application/vnd.kubernetes.protobuf", code: 406},

		{name: "an unknown resource", method: get, path: "/apis/hostile.example.com/v1/namespaces/default/nothings", code: 404},
		{name: "an unknown version", method: get, path: "/apis/hostile.example.com/v9/namespaces/default/things", code: 404},
		{name: "an unknown group", method: get, path: "/apis/nobody.example.com/v1/things", code: 404},
		{name: "an unknown path", method: get, path: "/nowhere/at/all", code: 404},
		{name: "an unknown subresource", method: get, path: seen + "/nothing", code: 404},
		{name: "scale, which it has not", method: get, path: seen + "/scale", code: 404},
		{name: "an object that is not there", method: get, path: hostileThings + "/unseen", code: 404},
		{name: "delete what is not there", method: del, path: hostileThings + "/unseen", code: 404},
		{name: "create at an object", method: post, path: seen, body: "{}", code: 405},
		{name: "update a collection", method: put, path: hostileThings, body: "{}", code: 400},
		{name: "create without a namespace", method: post, path: "/apis/hostile.example.com/v1/things", body: hostileThing("a", `"spec":{}`), code: 404},
		{name: "a verb nobody knows", method: "BREW", path: seen, code: 405},
		{name: "delete the status", method: del, path: seen + "/status", code: 405},

		{name: "a resourceVersion that is none", method: get, path: hostileThings + "?resourceVersion=x", code: 400},
		{name: "a negative one", method: get, path: hostileThings + "?resourceVersion=-1", code: 400},
		{name: "one that is too large", method: get, path: hostileThings + "?resourceVersion=99999999999999999999999", code: 400},
		{name: "watch from one that is none", method: get, path: hostileThings + "?watch=1&resourceVersion=x", code: 400},
		{name: "a match without a version", method: get, path: hostileThings + "?resourceVersionMatch=Exact", code: 422},
		{name: "an unknown match", method: get, path: hostileThings + "?resourceVersion=1&resourceVersionMatch=Perhaps", code: 422},
		{name: "a continue that is none", method: get, path: hostileThings + "?limit=1&continue=nonsense", code: 400},
		{name: "a selector that is none", method: get, path: hostileThings + "?labelSelector=" + url.QueryEscape("a in ("), code: 400},
		{name: "a field nobody selects by", method: get, path: hostileThings + "?fieldSelector=spec.a%3D1", code: 400},
		{name: "a limit that is none", method: get, path: hostileThings + "?limit=many", code: 400},
		{name: "a stale update", method: put, path: seen, body: strings.Replace(hostileThing("seen", `"spec":{"a":1}`), `"name"`, `"resourceVersion":"1","name"`, 1), code: 409},
		{name: "an update without a version", method: put, path: seen, body: hostileThing("seen", `"spec":{"a":1}`), code: 422},
		{name: "an update with a version that is none", method: put, path: seen, body: strings.Replace(hostileThing("seen", `"spec":{"a":1}`), `"name"`, `"resourceVersion":"x","name"`, 1), code: 400},
		{name: "an update under another name", method: put, path: seen, body: hostileThing("b", `"spec":{}`), code: 400},
		{name: "create twice", method: post, path: hostileThings, body: hostileThing("seen", `"spec":{}`), code: 409},
		{name: "an unknown dryRun", method: post, path: hostileThings + "?dryRun=Perhaps", body: hostileThing("a", `"spec":{}`), code: 422},
		{name: "an unknown propagation", method: del, path: hostileThings + "/unseen", body: `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Perhaps"}`, code: 422},
		{name: "a wrong precondition", method: del, path: seen, body: `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"x"}}`, code: 409},

		{name: "a path as a name", method: post, path: hostileThings, body: hostileThing("../../../etc/passwd", `"spec":{}`), code: 422, says: "metadata.name"},
		{name: "dots as a name", method: post, path: hostileThings, body: hostileThing("..", `"spec":{}`), code: 422, says: "metadata.name"},
		{name: "an escaped path", method: get, path: hostileThings + "/..%2f..%2f..%2fetc%2fpasswd", code: 404},
		{name: "a name with a null", method: get, path: hostileThings + "/a%00b", code: 404},
		{name: "a namespace that is a path", method: get, path: "/apis/hostile.example.com/v1/namespaces/..%2f..%2fsecrets/things/x", code: 404},
		{name: "a long name", method: post, path: hostileThings, body: hostileThing(strings.Repeat("a", 5000), `"spec":{}`), code: 422},
		{name: "an empty name", method: post, path: hostileThings, body: hostileThing("", `"spec":{}`), code: 422},
		{name: "a definition whose name is a path", method: post, path: servertest.CRDs, body: strings.Replace(hostileDefinition, "things.hostile", "../things.hostile", 1), code: 422},

		{name: "a huge label", method: post, path: hostileThings, body: strings.Replace(hostileThing("a", `"spec":{}`), `"name"`, `"labels":{"a":"`+strings.Repeat("x", 100_000)+`"},"name"`, 1), code: 422, says: "metadata.labels"},
		{name: "huge annotations", method: post, path: hostileThings, body: strings.Replace(hostileThing("a", `"spec":{}`), `"name"`, `"annotations":{"a":"`+strings.Repeat("x", 300_000)+`"},"name"`, 1), code: 422, says: "metadata.annotations"},
		{name: "20000 levels", method: post, path: hostileThings, body: hostileThing("a", deep(20_000)), code: 400},
		{name: "500000 levels of lists", method: post, path: hostileThings, body: hostileThing("a", `"spec":{"a":`+strings.Repeat("[", 500_000)+strings.Repeat("]", 500_000)+`}`), code: 400},
		{name: "20000 levels of YAML", method: post, path: hostileThings, contentType: "application/yaml", body: strings.Repeat("{a: ", 20_000) + strings.Repeat("}", 20_000), code: 400},
		{name: "20000 levels in a patch", method: patch, path: seen, contentType: mergePatch, body: "{" + deep(20_000) + "}", code: 400},
		{name: "20000 fields", method: post, path: hostileThings, body: hostileThing("wide", `"spec":{`+wide(20_000)+`"z":1}`), code: 201},
		{name: "delete them", method: del, path: hostileThings + "/wide", code: 200},
		{name: "100000 unknown fields", method: post, path: hostileThings, body: hostileThing("wide", wide(100_000)+`"spec":{}`), code: 201},
		{name: "delete it", method: del, path: hostileThings + "/wide", code: 200},
	}
}

type hostile struct {
	*testing.T
	client *http.Client
	url    string
}

func newHostile(t *testing.T, s *espaliertest.Server) *hostile {
	config, err := rest.TLSConfigFor(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: config}
	t.Cleanup(transport.CloseIdleConnections)
	return &hostile{T: t, client: &http.Client{Transport: transport, Timeout: time.Minute}, url: s.URL()}
}

func (h *hostile) send(r hostileRequest) string {
	h.Helper()
	code, body := h.answer(r)
	if code != r.code || !strings.Contains(body, r.says) {
		h.Errorf("%s: %s %.200s: the answer is %d, not %d: %.600s", r.name, r.method, r.path, code, r.code, body)
	}
	return body
}

// answer returns the answer of a request, and its code.
func (h *hostile) answer(r hostileRequest) (code int, _ string) {
	h.Helper()
	req, err := http.NewRequestWithContext(h.Context(), r.method, h.url+r.path, strings.NewReader(r.body))
	if err != nil {
		h.Fatal(err)
	}
	if r.contentType == "" && r.body != "" {
		r.contentType = "application/json"
	}
	if r.contentType != noContentType {
		req.Header.Set("Content-Type", r.contentType)
	}
	req.Header.Set("Accept", r.accept)
	resp, err := h.client.Do(req)
	if err != nil {
		h.Errorf("%s: %v", r.name, err)
		return 0, ""
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		h.Errorf("%s: %v", r.name, err)
	}
	return resp.StatusCode, string(body)
}

// expired requests revisions that etcd has compacted.
func (h *hostile) expired(etcd *clientv3.Client) {
	now, err := etcd.Put(h.Context(), "/other", "")
	if err == nil {
		_, err = etcd.Compact(h.Context(), now.Header.Revision)
	}
	if err != nil {
		h.Fatal(err)
	}
	token := base64.RawURLEncoding.EncodeToString([]byte(`{"v":"meta.k8s.io/v1","rv":1,"start":"default/a"}`))
	h.send(hostileRequest{name: "a continue of long ago", method: http.MethodGet, path: hostileThings + "?limit=1&continue=" + token, code: http.StatusGone, says: "Expired"})
	h.send(hostileRequest{name: "a version of long ago", method: http.MethodGet, path: hostileThings + "?resourceVersion=1&resourceVersionMatch=Exact", code: http.StatusGone, says: "Expired"})
	if answer := h.send(hostileRequest{name: "a watch from long ago", method: http.MethodGet, path: hostileThings + "?watch=1&resourceVersion=1&timeoutSeconds=1", code: http.StatusOK}); !strings.Contains(answer, `"code":410`) {
		h.Errorf("a watch from long ago: %s", answer)
	}
}

// slow opens connections, sends little, and closes them.
func (h *hostile) slow(s *espaliertest.Server) {
	config, err := rest.TLSConfigFor(s.Config())
	if err != nil {
		h.Fatal(err)
	}
	config.NextProtos = []string{"http/1.1"}
	address := strings.TrimPrefix(h.url, "https://")
	for _, text := range []string{
		"", "GET", "POST " + hostileThings + " HTTP/1.1\r\nHost: x\r\n",
		"POST " + hostileThings + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
		"GET " + hostileThings + "?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n",
		"NONSENSE\r\n\r\n",
	} {
		c, err := tls.Dial("tcp", address, config)
		if err != nil {
			h.Error(err)
			continue
		}
		_, _ = io.WriteString(c, text)
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		_, _ = c.Read(make([]byte, 100))
		_ = c.Close()
	}
	// One connection does not even use TLS.
	if c, err := net.Dial("tcp", address); err != nil {
		h.Error(err)
	} else {
		_, _ = c.Write([]byte("\x16\x03\x01\xff\xff"))
		_ = c.Close()
	}
	// A watch is cancelled without being read.
	ctx, cancel := context.WithTimeout(h.Context(), 50*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url+hostileThings+"?watch=1", nil)
	if err != nil {
		h.Fatal(err)
	}
	if resp, err := h.client.Do(req); err == nil {
		<-ctx.Done()
		_ = resp.Body.Close()
	}
}

// settle waits until the resources of a storm are released.
func (h *hostile) settle(goroutines int, memory uint64) {
	var n int
	var m uint64
	for range 20 {
		// Some goroutines come and go.
		if n, m = servertest.Settled(); n <= goroutines+10 && m < memory+memory/2+32<<20 {
			return
		}
	}
	stacks := make([]byte, 1<<20)
	h.Errorf("%d goroutines and %d MB, %d and %d before: %s", n, m>>20, goroutines, memory>>20, stacks[:runtime.Stack(stacks, true)])
}

// syncBuffer is a log that can be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
