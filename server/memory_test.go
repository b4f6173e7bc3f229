package server_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
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
	"espalier.dev/server/servertest"
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
	s := espaliertest.Start(t, servertest.Store(), espaliertest.WithSemantics(schema.KEP), espaliertest.WithCRDs([]byte(hostileDefinition)))
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

const (
	defaultedThings     = "/apis/defaulted.example.com/v1/namespaces/default/things"
	defaultedDefinition = `{
	"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.defaulted.example.com"},
	"spec": {"group": "defaulted.example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
		"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
			"list": {"type": "array", "items": {"type": "object", "properties": {%[1]s}}},
			"map": {"type": "object", "additionalProperties": {"type": "object", "properties": {%[1]s}}}}}}}}}]}}`
	// defaultedFields is the number of fields that have defaults.
	defaultedFields = 20
)

// TestDefaultedMemory measures the heap for objects that are much larger with their defaults.
func TestDefaultedMemory(t *testing.T) { //nolint:paralleltest // measures the heap of the process
	if testing.Short() {
		t.Skip("sends large requests")
	}
	fields, filled := []string{}, 0
	for i := range defaultedFields {
		fields = append(fields, fmt.Sprintf(`"f%02d":{"type":"boolean","default":false}`, i))
		filled += len(`"f00":false`)
	}
	definition := fmt.Sprintf(defaultedDefinition, strings.Join(fields, ","))
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} { //nolint:paralleltest // as above
		t.Run(sem.String(), func(t *testing.T) { testDefaultedMemory(t, sem, definition, filled) })
	}
}

func testDefaultedMemory(t *testing.T, sem schema.Semantics, definition string, filled int) {
	s := espaliertest.Start(t, servertest.Store(), espaliertest.WithSemantics(sem), espaliertest.WithCRDs([]byte(definition)))
	h := newHostile(t, s)
	body := func(name, field string, n int) string {
		all := shape{before: `{"apiVersion":"defaulted.example.com/v1","kind":"Thing","metadata":{"name":"` + name + `"},"spec":{"` + field + `":`}
		items := make([]string, n)
		for i := range items {
			if items[i] = "{}"; field == "map" {
				items[i] = strconv.Quote(strconv.Itoa(i)) + ":{}"
			}
		}
		text := strings.Join(items, ",")
		if field == "map" {
			return all.before + "{" + text + "}}}"
		}
		return all.before + "[" + text + "]}}"
	}
	h.send(hostileRequest{method: http.MethodPost, path: defaultedThings, body: body("seen", "list", 0), code: http.StatusCreated})
	for _, field := range []string{"list", "map"} {
		// Too many defaults, too many to be stored, and neither.
		for _, n := range []int{100_000, (3 << 20) * 9 / 10 / filled, (1 << 20) / 4 / filled} {
			for _, contentType := range []string{"application/json", "application/yaml", "application/merge-patch+json", "application/apply-patch+yaml", "application/json-patch+json"} {
				r := hostileRequest{method: http.MethodPost, path: defaultedThings, contentType: contentType, body: body("a", field, n), code: http.StatusCreated}
				if strings.Contains(contentType, "patch") {
					r.method, r.path, r.body, r.code = http.MethodPatch, defaultedThings+"/seen?fieldManager=m", body("seen", field, n), http.StatusOK
				}
				if strings.Contains(contentType, "apply") {
					r.path += "&force=true"
				}
				if strings.Contains(contentType, "json-patch") {
					r.body = `[{"op":"replace","path":"/spec","value":` + strings.SplitN(strings.TrimSuffix(r.body, "}"), `"spec":`, 2)[1] + `}]`
				}
				if n*filled > 1<<20 {
					r.code = http.StatusRequestEntityTooLarge
				}
				r.name = fmt.Sprintf("%s, %s, %d items, %s", sem, field, n, contentType)
				grown := peak(func() { h.send(r) })
				size := uint64(len(r.body) + min(n*filled, schema.MaxDefaultBytes))
				t.Logf("%3d times: %s", grown/size, r.name)
				if grown > memoryMultiple*size {
					t.Errorf("%s: %d bytes with the defaults needed %d bytes of memory", r.name, size, grown)
				}
				if r.code == http.StatusCreated {
					h.send(hostileRequest{method: http.MethodDelete, path: defaultedThings + "/a", code: http.StatusOK})
				}
			}
		}
	}
	h.send(hostileRequest{method: http.MethodPost, path: defaultedThings, body: body("a", "list", 100_000), code: http.StatusRequestEntityTooLarge,
		says: "the defaults of the object have more than 3145728 bytes"})
}
