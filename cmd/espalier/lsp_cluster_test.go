package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"espalier.dev/cmd/espalier/internal/lsp"
	"espalier.dev/cmd/espalier/internal/lsp/lsptest"
	"espalier.dev/espaliertest"
)

// clusterLSP starts the language server with the CRDs of a cluster. end ends it, and waits for it.
func clusterLSP(t *testing.T, root, cache, kubeconfig string) (c *lsptest.Client, end func()) {
	t.Helper()
	ours, theirs := newPipes()
	environ := func(name string) (string, bool) {
		if name == "XDG_CACHE_HOME" {
			return cache, true
		}
		return "", false
	}
	a := &app{program: "espalier", stdin: theirs.Reader, stdout: theirs.Writer, stderr: io.Discard, environ: environ}
	done := make(chan int, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { done <- a.run(ctx, []string{"lsp", "--kubeconfig", kubeconfig}) }()
	ended := false
	end = func() {
		if !ended {
			ended = true
			cancel()
			<-done
		}
	}
	t.Cleanup(end)
	c = lsptest.New(t, ours)
	c.Initialize(map[string]any{"processId": os.Getpid(), "rootUri": lsp.FileURI(root), "capabilities": map[string]any{}})
	return c, end
}

// completionLabels returns the labels of the completions at a position.
func completionLabels(c *lsptest.Client, uri lsp.URI, line, character int) string {
	var list lsp.CompletionList
	c.Call("textDocument/completion", lsp.CompletionParams{TextDocumentPositionParams: lsp.TextDocumentPositionParams{
		TextDocument: lsp.TextDocumentIdentifier{URI: uri}, Position: lsp.Position{Line: line, Character: character}}}, &list)
	var all []string
	for _, item := range list.Items {
		all = append(all, item.Label)
	}
	return strings.Join(all, " ")
}

func asObject(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestLSPCluster edits an object whose CRD only a cluster has, while the CRD changes, and again when
// the cluster is gone.
func TestLSPCluster(t *testing.T) {
	t.Parallel()
	server := espaliertest.Start(t)
	crds := newClient(t, server.Config()).Resource(crdResource)
	if _, err := crds.Create(t.Context(), asObject(t, widgetCRD), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text, err := os.ReadFile(server.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, kubeconfig, text) // the server removes its own
	cache := t.TempDir()
	bad := strings.Replace(widget, "size: 3", "size: 0\n  color: ", 1)
	root := folder(t, map[string]string{"first.yaml": bad})
	uri := lsp.FileURI(filepath.Join(root, "first.yaml"))

	c, end := clusterLSP(t, root, cache, kubeconfig)
	c.Open(uri, bad)
	c.AwaitDiagnostics(uri, func(p *lsp.PublishDiagnosticsParams) bool { return strings.Contains(rules(p), "validation/minimum") })
	if got := completionLabels(c, uri, 5, 9); !strings.Contains(got, "green") {
		t.Errorf("values of color: %q", got)
	}
	kinds := "apiVersion: example.com/v1\nkind: \n"
	c.Open(lsp.FileURI(filepath.Join(root, "new.yaml")), kinds)
	if got := completionLabels(c, lsp.FileURI(filepath.Join(root, "new.yaml")), 1, 6); !strings.Contains(got, "Widget") {
		t.Errorf("kinds: %q", got)
	}
	// The definition of the field is in the cached file.
	var found []lsp.Location
	c.Call("textDocument/definition", lsp.TextDocumentPositionParams{TextDocument: lsp.TextDocumentIdentifier{URI: uri},
		Position: lsp.Position{Line: 4, Character: 3}}, &found)
	if len(found) != 1 || !strings.HasSuffix(string(found[0].URI), "/widgets.example.com.json") {
		t.Errorf("the definition of size is %+v", found)
	}

	// The CRD changes in the cluster, and another one is created and deleted.
	patch := `[{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/minimum", "value": 0}]`
	if _, err := crds.Patch(t.Context(), "widgets.example.com", types.JSONPatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	c.AwaitDiagnostics(uri, func(p *lsp.PublishDiagnosticsParams) bool { return !strings.Contains(rules(p), "validation/minimum") })
	thing := "apiVersion: g1.example.com/v1\nkind: Thing\nmetadata: {name: a}\n"
	other := lsp.FileURI(filepath.Join(root, "thing.yaml"))
	c.Open(other, thing)
	c.AwaitDiagnostics(other, func(p *lsp.PublishDiagnosticsParams) bool { return strings.Contains(rules(p), "missing-definition") })
	if _, err := crds.Create(t.Context(), thingsCRD("g1.example.com"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.AwaitDiagnostics(other, func(p *lsp.PublishDiagnosticsParams) bool { return len(p.Diagnostics) == 0 })
	if err := crds.Delete(t.Context(), "things.g1.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.AwaitDiagnostics(other, func(p *lsp.PublishDiagnosticsParams) bool { return strings.Contains(rules(p), "missing-definition") })

	// A CRD of the workspace takes precedence, also when it is not saved.
	own := lsp.FileURI(filepath.Join(root, "crd.yaml"))
	c.Open(own, strings.Replace(widgetCRD, "minimum: 1", "minimum: 7", 1))
	c.AwaitDiagnostics(uri, func(p *lsp.PublishDiagnosticsParams) bool { return strings.Contains(rules(p), "validation/minimum") })
	c.CloseDocument(own)
	c.AwaitDiagnostics(uri, func(p *lsp.PublishDiagnosticsParams) bool { return !strings.Contains(rules(p), "validation/minimum") })
	c.Shutdown()
	end()
	checkCache(t, cache)

	// The cluster is gone.
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	c, _ = clusterLSP(t, root, cache, kubeconfig)
	c.Open(uri, strings.Replace(widget, "size: 3", "size: -1", 1))
	c.AwaitDiagnostics(uri, func(p *lsp.PublishDiagnosticsParams) bool { return strings.Contains(rules(p), "validation/minimum") })
	c.Await("a warning", func(m *lsptest.Message) bool {
		var p lsp.MessageParams
		return m.Method == "window/showMessage" && json.Unmarshal(m.Params, &p) == nil && p.Type == lsp.MessageWarning &&
			strings.Contains(p.Message, "cannot read the CRDs of the cluster") && strings.Contains(p.Message, "the 1 that were read before are used")
	})
	c.Shutdown()
}

// checkCache checks that a cache has one CRD, which only the user can read.
func checkCache(t *testing.T, cache string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(cache, "espalier", "clusters", "*", "*"))
	if err != nil || len(files) != 1 || filepath.Base(files[0]) != "widgets.example.com.json" {
		t.Fatalf("the cache has %q, %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil || strings.Contains(string(text), "managedFields") || strings.Contains(string(text), `"status"`) {
		t.Errorf("the CRD is cached as %.300s, %v", text, err)
	}
	for path, want := range map[string]os.FileMode{files[0]: 0o600, filepath.Dir(files[0]): 0o700 | os.ModeDir} {
		if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode() != want {
			t.Errorf("%s has the mode %v, %v", path, info.Mode(), err)
		}
	}
}

// TestLSPClusterHangs uses a cluster that accepts connections and never answers: nothing waits for it,
// unknown kinds are not reported, and the end of the session leaves no goroutine.
func TestLSPClusterHangs(t *testing.T) {
	// Package signal has a goroutine as soon as it is used.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGPIPE)
	signal.Stop(signals)
	before := runtime.NumGoroutine()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn, 100)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- conn
		}
	}()
	root := folder(t, map[string]string{"first.yaml": widget})
	uri := lsp.FileURI(filepath.Join(root, "first.yaml"))
	c, end := clusterLSP(t, root, t.TempDir(), kubeconfigFor(t, "http://"+l.Addr().String()))
	c.Open(uri, widget+"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: 1}\n")
	got := c.AwaitDiagnostics(uri, func(p *lsp.PublishDiagnosticsParams) bool { return len(p.Diagnostics) > 0 })
	if strings.Contains(rules(got), "missing-definition") {
		t.Errorf("got %s", rules(got))
	}
	conn := <-accepted // it is asked
	start := time.Now()
	if got := completionLabels(c, uri, 6, 0); !strings.Contains(got, "apiVersion") && !strings.Contains(got, "binaryData") {
		t.Errorf("completions: %q", got)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("the completion takes %v", took)
	}
	start = time.Now()
	c.Shutdown()
	end()
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("the end takes %v", took)
	}
	l.Close()
	conn.Close()
	for conn := range accepted {
		conn.Close()
	}
	for range 100 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	stacks := make([]byte, 1<<20)
	t.Errorf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
}
