package server_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"espalier.dev/espaliertest"
	"espalier.dev/schema"
)

// memoryMultiple is how much of the heap a request may need, as a multiple of the size of its
// body and its URL, garbage that is not collected yet included. docs/explanation/security.md has it too.
const memoryMultiple = 600

// shape is a body that consists of one item many times. In it, % is a number.
type shape struct {
	path, before, item, after string
}

const (
	memoryConfigMaps = "/api/v1/namespaces/default/configmaps"
	memoryPods       = "/api/v1/namespaces/default/pods"
	memoryMeta       = `"metadata":{"name":"a"`
	memoryConfigMap  = `{"apiVersion":"v1","kind":"ConfigMap",` + memoryMeta
	memoryPod        = `{"apiVersion":"v1","kind":"Pod",` + memoryMeta + `},"spec":{`
	memoryContainer  = memoryPod + `"containers":[{"name":"a","image":"a",`
	memoryThing      = `{"apiVersion":"hostile.example.com/v1","kind":"Thing",` + memoryMeta
)

// shapes have many small values: these need the most memory for their size.
func shapes() []shape {
	return []shape{
		{memoryConfigMaps, memoryConfigMap + `,"labels":{`, `"%":""`, `}}}`},
		{memoryConfigMaps, memoryConfigMap + `,"labels":{`, `"-%":""`, `}}}`},
		{memoryConfigMaps, memoryConfigMap + `},"data":{`, `"%":""`, `}}`},
		{memoryConfigMaps, memoryConfigMap + `,"finalizers":[`, `"a/%"`, `]}}`},
		{memoryConfigMaps, memoryConfigMap + `,"ownerReferences":[`, `{}`, `]}}`},
		{memoryConfigMaps, memoryConfigMap + `,"managedFields":[`, `{}`, `]}}`},
		{memoryConfigMaps, memoryConfigMap + `},"unknown":[`, `[]`, `]}`},
		{memoryConfigMaps, memoryConfigMap + `},`, `"%":1`, `}`},
		{memoryPods, memoryPod + `"containers":[`, `{}`, `]}}`},
		{memoryPods, memoryPod + `"containers":[`, `null`, `]}}`},
		{memoryPods, memoryContainer + `"env":[`, `{"name":"%"}`, `]}]}}`},
		{memoryPods, memoryContainer + `"ports":[`, `{"containerPort":80}`, `]}]}}`},
		{memoryPods, memoryContainer + `"command":[`, `""`, `]}]}}`},
		{hostileThings, memoryThing + `},"spec":{"a":[`, `[]`, `]}}`},
		{hostileThings, memoryThing + `},"spec":{"a":[`, `{}`, `]}}`},
		{hostileThings, memoryThing + `},"spec":{"a":[`, `1`, `]}}`},
		{hostileThings, memoryThing + `},"spec":{`, `"%":{}`, `}}`},
		{hostileThings, memoryThing + `},"spec":{},`, `"%":1`, `}`},
		{hostileThings, memoryThing + `,"labels":{`, `"-%":""`, `}}}`},
		{hostileThings, memoryThing + `,"finalizers":[`, `"a/%"`, `]}}`},
		{hostileThings, memoryThing + `,"finalizers":[`, `"-"`, `]}}`},
		{hostileThings, memoryThing + `,"ownerReferences":[`, `{}`, `]}}`},
		{hostileThings, memoryThing + `,"ownerReferences":[`, `{"uid":"%"}`, `]}}`},
		{hostileThings, memoryThing + `,"annotations":{`, `"-%":""`, `}}}`},
	}
}

// text returns a body of about a size.
func (s shape) text(size int) string {
	b := strings.Builder{}
	b.WriteString(s.before)
	for i := 0; b.Len() < size-len(s.after)-len(s.item)-8; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strings.ReplaceAll(s.item, "%", strconv.FormatInt(int64(i), 36)))
	}
	b.WriteString(s.after)
	return b.String()
}

// costly are requests that need much memory for their encoding, one of them the most of all.
var costly = []string{
	"application/json " + memoryThing + `,"labels":{"-%":""`,
	"application/merge-patch+json " + memoryThing + `,"ownerReferences":[{}`,
	"application/apply-patch+yaml " + memoryThing + `,"ownerReferences":[{}`,
	"application/json-patch+json " + memoryThing + `},"spec":{"a":[[]`,
}

// memoryRequest is a request that is built when it is sent.
type memoryRequest struct {
	name  string
	build func() hostileRequest
}

// memoryRequests returns requests with bodies of about a size, in all encodings and patches.
func memoryRequests(size int) (all []memoryRequest) {
	add := func(s shape, method, contentType string, change func(text string) string) {
		name := contentType + " " + s.before + s.item
		all = append(all, memoryRequest{name, func() hostileRequest {
			r := hostileRequest{name: name, method: method, path: s.path, contentType: contentType, body: change(s.text(size))}
			if method == http.MethodPatch {
				r.path += "/seen?fieldManager=m"
			}
			return r
		}})
	}
	same := func(text string) string { return text }
	seen := func(text string) string { return strings.Replace(text, `"name":"a"`, `"name":"seen"`, 1) }
	for _, s := range shapes() {
		add(s, http.MethodPost, "application/json", same)
		add(s, http.MethodPost, noContentType, same)
		// YAML that is sent as JSON is not read as YAML.
		add(s, http.MethodPost, "application/json", func(text string) string { return "# YAML\n" + text })
		add(s, http.MethodPost, "application/yaml", same)
		// An alias makes the library read the whole document.
		add(s, http.MethodPost, "application/yaml", func(text string) string { return strings.Replace(text, "{", `{"x":&a "",y: *a,`, 1) })
		add(s, http.MethodPatch, "application/merge-patch+json", seen)
		add(s, http.MethodPatch, "application/strategic-merge-patch+json", seen)
		add(s, http.MethodPatch, "application/apply-patch+yaml", seen)
		add(s, http.MethodPatch, "application/json-patch+json", func(text string) string { return `[{"op":"add","path":"/x","value":` + text + `}]` })
	}
	add(shape{path: memoryPods}, http.MethodPost, "application/vnd.kubernetes.protobuf", func(string) string { return protobufPod(size) })
	operations := shape{hostileThings, `[{"op":"add","path":"/spec/a","value":[]}`, `,{"op":"copy","from":"/spec","path":"/spec/a/-"}`, `]`}
	add(operations, http.MethodPatch, "application/json-patch+json", func(text string) string { return strings.ReplaceAll(text, ",,", ",") })
	other := func(r hostileRequest) { all = append(all, memoryRequest{r.name, func() hostileRequest { return r }}) }
	for _, s := range []shape{shapes()[2], shapes()[17]} {
		for _, accept := range []string{"application/yaml", "application/json;as=Table;g=meta.k8s.io;v=v1", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"} {
			// Small enough to be stored.
			text := s.text(size / 5)
			other(hostileRequest{name: "accept " + accept, method: http.MethodPost, path: s.path, contentType: "application/json", accept: accept, body: text})
		}
		other(hostileRequest{name: "CBOR", method: http.MethodPost, path: s.path, contentType: "application/cbor", body: "\xd9\xd9\xf7\x9a\x00\x20\x00\x00" + strings.Repeat("\x80", size), code: http.StatusUnsupportedMediaType})
		for _, selector := range []shape{{before: "?labelSelector=a+in+(", item: "%", after: ")"}, {before: "?labelSelector=", item: "a!=%"}, {before: "?fieldSelector=", item: "metadata.name!=%"}} {
			// The limit of the headers of a request is 1 MB.
			other(hostileRequest{name: selector.before, method: http.MethodGet, path: s.path + selector.text(900_000)})
		}
	}
	for _, path := range []string{memoryConfigMaps, hostileThings} {
		for _, contentType := range []string{"application/json", "application/yaml", noContentType, "application/merge-patch+json", "application/apply-patch+yaml"} {
			name := "gzip " + path + " " + contentType
			all = append(all, memoryRequest{name, func() hostileRequest {
				// The expanded size is much more than a body may have.
				body := gzipped(memoryConfigMap + `}}` + strings.Repeat(" ", 30*size))
				r := hostileRequest{name: name, method: http.MethodPost, path: path, contentType: contentType, body: body, code: http.StatusBadRequest}
				if strings.Contains(contentType, "patch") {
					r.method, r.path = http.MethodPatch, path+"/seen?fieldManager=m"
				}
				return r
			}})
		}
	}
	return all
}

// gzipPrefix is the start of a body that is compressed.
const gzipPrefix = "\x1f\x8b"

func gzipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

// protobufPod returns a pod with as many empty containers as there is room for.
func protobufPod(size int) string {
	message := func(out []byte, number protowire.Number, value string) []byte {
		return protowire.AppendString(protowire.AppendTag(out, number, protowire.BytesType), value)
	}
	spec := strings.Repeat(string(message(nil, 2, "")), size/2)
	pod := message(message(nil, 1, string(message(nil, 1, "a"))), 2, spec)
	typ := message(message(nil, 1, "v1"), 2, "Pod")
	return "k8s\x00" + string(message(message(nil, 1, string(typ)), 2, string(pod)))
}

// heap returns the bytes of objects on the heap.
func heap() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// peak returns how much the heap grows during f.
func peak(f func()) uint64 {
	runtime.GC()
	before := heap()
	stop, most := make(chan struct{}), make(chan uint64)
	go func() {
		n := before
		for {
			select {
			case <-stop:
				most <- n - before
				return
			case <-time.After(time.Millisecond):
				n = max(n, heap())
			}
		}
	}()
	f()
	close(stop)
	return <-most
}

// TestRequestMemory measures the heap for costly requests, or, if the variable
// ESPALIER_MEMORY_REQUESTS is set, for as many random ones of the largest size, which
// ESPALIER_MEMORY_SEED chooses.
func TestRequestMemory(t *testing.T) { //nolint:paralleltest // measures the heap of the process
	if testing.Short() {
		t.Skip("sends large requests")
	}
	number := func(name string, or int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n
		}
		return or
	}
	// In kubernetes semantics, some of these patches are answered with an internal error.
	s := espaliertest.Start(t, espaliertest.WithEtcd(), espaliertest.WithSemantics(schema.KEP), espaliertest.WithCRDs([]byte(hostileDefinition)))
	h := newHostile(t, s)
	h.send(hostileRequest{method: http.MethodPost, path: hostileThings, body: hostileThing("seen", `"spec":{}`), code: http.StatusCreated})
	h.send(hostileRequest{method: http.MethodPost, path: memoryConfigMaps, body: strings.Replace(memoryConfigMap, `"a"`, `"seen","finalizers":["a/b"],"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"a","uid":"a"}]`, 1) + `}}`, code: http.StatusCreated})
	h.send(hostileRequest{method: http.MethodPost, path: memoryPods, body: strings.Replace(memoryContainer, `"metadata":{"name":"a"`, `"metadata":{"name":"seen"`, 1) + `"command":["a"]}]}}`, code: http.StatusCreated})
	requests := memoryRequests(1 << 20)
	if n := number("ESPALIER_MEMORY_REQUESTS", 0); n > 0 {
		requests = memoryRequests(3<<20 - 1000)
		seed := number("ESPALIER_MEMORY_SEED", rand.IntN(1_000_000))
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		r.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
		requests = requests[:min(len(requests), n)]
	} else {
		requests = slices.DeleteFunc(requests, func(r memoryRequest) bool { return !slices.Contains(costly, r.name) })
		if len(requests) < len(costly) {
			t.Fatalf("%d of %d costly requests are not among the requests", len(costly)-len(requests), len(costly))
		}
	}
	for _, request := range requests {
		q := request.build()
		code, start, answer := 0, time.Now(), bytes.Buffer{}
		grown := peak(func() {
			req, err := http.NewRequestWithContext(t.Context(), q.method, h.url+q.path, strings.NewReader(q.body))
			if err != nil {
				t.Fatal(err)
			}
			if q.contentType != noContentType {
				req.Header.Set("Content-Type", q.contentType)
			}
			req.Header.Set("Accept", q.accept)
			if strings.HasPrefix(q.body, gzipPrefix) {
				req.Header.Set("Content-Encoding", "gzip")
			}
			resp, err := h.client.Do(req)
			if err != nil {
				t.Errorf("%.120s: %v", q.name, err)
				return
			}
			code = resp.StatusCode
			_, _ = io.CopyN(&answer, resp.Body, 1000)
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		})
		size := uint64(len(q.path) + len(q.body))
		t.Logf("%3d times, %d, %v: %.120s", grown/size, code, time.Since(start).Round(time.Millisecond), q.name)
		if code >= http.StatusInternalServerError || q.code != 0 && code != q.code {
			t.Errorf("%.120s: got status %d: %s", q.name, code, answer.String())
		}
		if grown > memoryMultiple*size {
			t.Errorf("%.120s: %d bytes needed %d bytes of memory, more than %d times as much", q.name, size, grown, memoryMultiple)
		}
		if code == http.StatusCreated {
			// An object with finalizers stays; later creates then find it.
			h.send(hostileRequest{method: http.MethodDelete, path: q.path + "/a?gracePeriodSeconds=0", code: http.StatusOK})
		}
	}
}
