package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"espalier.dev/espaliertest"
)

// uiClient is the page of espalier ui.
type uiClient struct {
	t           *testing.T
	base, token string
}

// startUI runs espalier ui until the test ends.
func startUI(t *testing.T, args ...string) *uiClient {
	t.Helper()
	in, out := io.Pipe()
	var stderr bytes.Buffer
	a := newApp(strings.NewReader(""), out, &stderr)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan int, 1)
	go func() {
		code := a.run(ctx, append([]string{"ui"}, args...))
		_ = out.CloseWithError(fmt.Errorf("ui exits with %d: %s", code, stderr.String()))
		done <- code
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Error("ui does not end")
		}
	})
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	base, token, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "Open "), "/#token=")
	if !ok {
		t.Fatalf("ui prints %q", line)
	}
	return &uiClient{t, base, token}
}

// send sends a request. An empty body is a GET.
func (c *uiClient) send(ctx context.Context, path string, body any) (*http.Response, error) {
	method, text := http.MethodGet, []byte(nil)
	if body != nil {
		method = http.MethodPost
		var err error
		if text, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+"/api/"+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Espalier-Token", c.token)
	r.Header.Set("Content-Type", "application/json")
	return http.DefaultClient.Do(r)
}

// ask returns the answer to a request as text.
func (c *uiClient) ask(path string, body any) string {
	c.t.Helper()
	resp, err := c.send(c.t.Context(), path, body)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(text)
}

// await asks until the answer has all texts.
func (c *uiClient) await(path string, body any, want ...string) string {
	c.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		text := c.ask(path, body)
		if !slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(text, w) }) {
			return text
		}
		if time.Now().After(end) {
			c.t.Fatalf("%s answers %.2000s\nwant %q", path, text, want)
		}
	}
}

// gadgetCRD has two versions and columns.
const gadgetCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gadgets, kind: Gadget, singular: gadget, listKind: GadgetList}
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size}]
    schema: &schema
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer, minimum: 1}
              color: {type: string, default: red}
  - {name: v1beta1, served: true, storage: false, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}}
`

// TestUICluster looks into a server with the requests of the page, while objects and CRDs change, and
// when the server is gone.
func TestUICluster(t *testing.T) {
	t.Parallel()
	server := espaliertest.Start(t)
	server.InstallCRDs(t, []byte(gadgetCRD))
	client := newClient(t, server.Config())
	gadgets := client.Resource(runtimeschema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}).Namespace("default")
	for i := range 3 {
		text := fmt.Sprintf("apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: g%d}\nspec: {size: %d}\n", i, i+1)
		if _, err := gadgets.Create(t.Context(), asObject(t, text), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text, err := os.ReadFile(server.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, kubeconfig, text) // the server removes its own
	c := startUI(t, "--kubeconfig", kubeconfig, "--semantics", "kubernetes", "--request-timeout", "5s")
	gadget := func(more ...any) map[string]any {
		m := map[string]any{"crd": "gadgets.example.com", "semantics": "kubernetes"}
		for i := 0; i < len(more); i += 2 {
			m[more[i].(string)] = more[i+1]
		}
		return m
	}

	state := c.await("cluster", nil, `"connected":true`, `"name":"gadgets.example.com"`, `"type":"Established","status":"True"`, `"stored":["v1"]`)
	if strings.Contains(state, "managedFields") || strings.Contains(state, "problem") {
		t.Errorf("the state is %s", state)
	}
	if got := c.ask("cluster/count", map[string]any{"crds": []string{"gadgets.example.com", "none.example.com"}}); !strings.Contains(got, `"gadgets.example.com":3`) ||
		!strings.Contains(got, `no CRD \"none.example.com\"`) {
		t.Errorf("counts %s", got)
	}
	if got := c.ask("cluster/objects", gadget("limit", 2)); !strings.Contains(got, `"name":"Size"`) || !strings.Contains(got, `"name":"g1","cells":["g1","2"`) ||
		strings.Contains(got, `"g2"`) || !strings.Contains(got, `"remaining":1`) || strings.Contains(got, "findings") {
		t.Errorf("the first page is %s", got)
	}
	var first struct {
		Answer struct{ Continue, ResourceVersion string }
	}
	if err := json.Unmarshal([]byte(c.ask("cluster/objects", gadget("limit", 2))), &first); err != nil {
		t.Fatal(err)
	}
	if got := c.ask("cluster/objects", gadget("limit", 2, "continue", first.Answer.Continue)); !strings.Contains(got, `"g2"`) || strings.Contains(got, `"g1"`) {
		t.Errorf("the second page is %s", got)
	}
	for _, bad := range []map[string]any{gadget("namespace", "../../.."), gadget("namespace", "a/b"), gadget("name", "a,metadata.name=b"), gadget("version", "v7"), {"crd": "x"}, {"x": 1}} {
		if got := c.ask("cluster/objects", bad); !strings.Contains(got, `"error"`) {
			t.Errorf("%v is answered with %s", bad, got)
		}
	}
	if got := c.ask("cluster/count", map[string]any{"crds": make([]string, 51)}); !strings.Contains(got, "too-large") {
		t.Errorf("51 counts: %s", got)
	}

	// The table and one object are watched.
	table := c.watch(gadget("resourceVersion", first.Answer.ResourceVersion))
	object := c.watch(gadget("namespace", "default", "name", "g0"))
	patch := func(name, text string) {
		t.Helper()
		if _, err := gadgets.Patch(t.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	patch("g1", `{"spec": {"size": 7}}`)
	table.await(`"type":"MODIFIED"`, `"name":"g1","cells":["g1","7"`)
	patch("g0", `{"spec": {"color": "blue"}}`)
	object.await(`"type":"MODIFIED"`, `{"op":"-","text":"  color: red"},{"op":"+","text":"  color: blue"}`)

	// The schema gets stricter: what is stored stays, and does not comply anymore.
	crds := client.Resource(crdResource)
	stricter := `[{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/minimum", "value": 3}]`
	if _, err := crds.Patch(t.Context(), "gadgets.example.com", types.JSONPatchType, []byte(stricter), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	c.await("cluster/objects", gadget(), `"name":"g0"`, `"rule":"stored-invalid"`)
	c.await("cluster/audit", gadget(), `"failing":1`, `"objects":3`, `"rule":"stored-invalid"`, `"failures":[{"namespace":"default","name":"g0","problems":1}]`)
	c.await("cluster/object", gadget("namespace", "default", "name", "g0"), `"name":"v1","storage":true`, `"name":"v1beta1"`, `{"text":"  color: blue","pointer":"/spec/color"}`,
		`"rule":"stored-invalid"`)
	c.await("cluster/why", gadget("namespace", "default", "name", "g0", "path", "/spec/color"), `"decision":"specified"`, `"decision":"pruned"`, `"value":"blue"`)
	c.await("cluster/crd", gadget(), `apiVersion: apiextensions.k8s.io/v1\n`, `minimum: 3`)

	// There are only so many watches, and those of closed tabs do not count.
	var all []*uiWatch
	for range 2 {
		all = append(all, c.watch(gadget("resourceVersion", first.Answer.ResourceVersion)))
	}
	if got := c.ask("cluster/watch", gadget()); !strings.Contains(got, "there are 4 watches already") {
		t.Errorf("the fifth watch: %s", got)
	}
	for _, w := range all {
		w.close()
	}
	await(t, "a watch", func() error {
		resp, err := c.send(t.Context(), "cluster/watch", gadget())
		if err == nil {
			defer resp.Body.Close()
			if resp.Header.Get("Content-Type") != "application/x-ndjson" {
				return fmt.Errorf("%s", resp.Header)
			}
		}
		return err
	})

	// The server dies.
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	table.await(`"type":"failed"`)
	c.await("cluster", nil, `"connected":false`, `"problem":`, `"name":"gadgets.example.com"`)
	if got := c.ask("cluster/objects", gadget()); !strings.Contains(got, `"error"`) {
		t.Errorf("without a server: %s", got)
	}
	if got := c.ask("check", map[string]any{"objects": "a: 1"}); !strings.Contains(got, `"answer"`) {
		t.Errorf("the playground of a dead cluster: %s", got)
	}
}

// uiWatch is a watch of the page.
type uiWatch struct {
	t     *testing.T
	lines chan string
	close func()
}

// watch starts a watch.
func (c *uiClient) watch(body any) *uiWatch {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	c.t.Cleanup(cancel)
	resp, err := c.send(ctx, "cluster/watch", body)
	if err != nil {
		c.t.Fatal(err)
	}
	w := &uiWatch{c.t, make(chan string, 1000), cancel}
	go func() { // ends with the context
		defer close(w.lines)
		defer resp.Body.Close()
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			w.lines <- s.Text()
		}
	}()
	w.await(`"type":"started"`)
	return w
}

// await waits for a line with all texts.
func (w *uiWatch) await(want ...string) {
	w.t.Helper()
	timeout := time.After(30 * time.Second)
	var seen []string
	for {
		select {
		case line, ok := <-w.lines:
			if seen = append(seen, line); !ok {
				w.t.Fatalf("the watch has ended after %s, want %q", strings.Join(seen, "\n"), want)
			}
			if !slices.ContainsFunc(want, func(s string) bool { return !strings.Contains(line, s) }) {
				return
			}
		case <-timeout:
			w.t.Fatalf("got %s, want %q", strings.Join(seen, "\n"), want)
		}
	}
}

// TestUIClusterHangs uses a cluster that accepts connections and never answers: the page works, and says
// what it waits for.
func TestUIClusterHangs(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
		}
	}()
	c := startUI(t, "--kubeconfig", kubeconfigFor(t, "http://"+l.Addr().String()), "--request-timeout", "1s")
	c.await("cluster", nil, `"connected":false,"known":false`, l.Addr().String())
	if got := c.ask("check", map[string]any{"objects": "a: 1"}); !strings.Contains(got, `"answer"`) {
		t.Errorf("the playground: %s", got)
	}
	if got := c.ask("cluster/objects", map[string]any{"crd": "a.b"}); !strings.Contains(got, "not known yet") {
		t.Errorf("objects: %s", got)
	}
	c.await("cluster", nil, "no answer in time")
}
