package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"espalier.dev/cmd/espalier/internal/lsp"
	"espalier.dev/cmd/espalier/internal/lsp/lsptest"
)

// sessionLSP starts a session of the language server in a folder, or in none. The client watches files
// if that is set.
func sessionLSP(t *testing.T, root string, watches bool) (*lsptest.Client, *lspSession) {
	t.Helper()
	ours, theirs := newPipes()
	a := &app{program: "espalier", environ: func(string) (string, bool) { return "", false }}
	made := make(chan *lspSession, 1)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- lsp.Serve(ctx, lsp.Stdio(theirs.Reader.(io.ReadCloser), theirs.Writer.(io.WriteCloser)), lsp.Options{}, func(client *lsp.Client) lsp.Session {
			s := a.newLSPSession(client, lspOptions{look: time.Nanosecond})
			made <- s
			return s
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	c := lsptest.New(t, ours)
	params := map[string]any{"processId": os.Getpid(), "rootUri": nil, "capabilities": map[string]any{"workspace": map[string]any{
		"didChangeWatchedFiles": map[string]any{"dynamicRegistration": watches}}}}
	if root != "" {
		params["rootUri"] = lsp.FileURI(root)
	}
	c.Initialize(params)
	return c, <-made
}

// notifyFiles tells the server about changed files.
func notifyFiles(c *lsptest.Client, kind int, paths ...string) {
	var all []lsp.FileEvent
	for _, path := range paths {
		all = append(all, lsp.FileEvent{URI: lsp.FileURI(path), Type: kind})
	}
	c.Notify("workspace/didChangeWatchedFiles", lsp.DidChangeWatchedFilesParams{Changes: all})
}

// has returns a condition on the rules of diagnostics.
func has(rule string) func(*lsp.PublishDiagnosticsParams) bool {
	return func(p *lsp.PublishDiagnosticsParams) bool { return strings.Contains(rules(p), rule) }
}

func hasNot(rule string) func(*lsp.PublishDiagnosticsParams) bool {
	return func(p *lsp.PublishDiagnosticsParams) bool { return !strings.Contains(rules(p), rule) }
}

// indexedFiles returns the files of the first folder of a session.
func indexedFiles(s *lspSession) (names []string) {
	w := s.workspaces()[0]
	if view := w.viewed.Load(); view != nil {
		for _, f := range view.files {
			names = append(names, filepath.Base(f.path))
		}
	}
	return names
}

// TestLSPConfigurationError breaks the configuration, at the start and later.
func TestLSPConfigurationError(t *testing.T) {
	t.Parallel()
	bad := strings.Replace(widget, "size: 3", "size: 0\n  colour: red", 1)
	root := folder(t, map[string]string{".espalier.yaml": "validate: [\n", "crd.yaml": widgetCRD, "first.yaml": bad})
	c, _ := sessionLSP(t, root, true)
	uri, file := lsp.FileURI(filepath.Join(root, "first.yaml")), filepath.Join(root, ".espalier.yaml")
	c.Open(uri, bad)
	c.AwaitDiagnostics(uri, has("validation/minimum"))
	if got := completionLabels(c, uri, 4, 2); !strings.Contains(got, "size") {
		t.Errorf("completions: %q", got)
	}
	told := func(m *lsptest.Message) bool {
		var p lsp.MessageParams
		return m.Method == "window/showMessage" && json.Unmarshal(m.Params, &p) == nil && strings.Contains(p.Message, "is not used") &&
			strings.Contains(p.Message, ".espalier.yaml")
	}
	c.Await("a message", told)
	strict := func(p *lsp.PublishDiagnosticsParams) bool {
		return len(p.Diagnostics) == 2 && p.Diagnostics[1].Severity == lsp.SeverityError
	}
	writeFile(t, file, []byte("validate: {fieldValidation: strict}\n"))
	notifyFiles(c, lsp.FileChanged, file)
	c.AwaitDiagnostics(uri, strict)
	// The last one that was valid stays.
	writeFile(t, file, []byte("validate: {fieldValidation: wrong}\n"))
	notifyFiles(c, lsp.FileChanged, file)
	await(t, "a second message", func() error {
		n := 0
		for _, m := range c.Received("window/showMessage") {
			if told(m) {
				n++
			}
		}
		if n < 2 {
			return fmt.Errorf("%d messages", n)
		}
		return nil
	})
	c.Change(uri, 2, whole(bad+"\n"))
	c.AwaitDiagnostics(uri, func(p *lsp.PublishDiagnosticsParams) bool { return *p.Version == 2 && strict(p) })
	c.Shutdown()
}

// TestLSPLoose opens files that are in no folder, and documents that are no files.
func TestLSPLoose(t *testing.T) {
	t.Parallel()
	root := folder(t, map[string]string{"crd.yaml": widgetCRD, "below/other.yaml": widget})
	c, s := sessionLSP(t, "", true)
	uri := lsp.FileURI(filepath.Join(root, "first.yaml"))
	c.Open(uri, strings.Replace(widget, "size: 3", "size: 0", 1))
	c.AwaitDiagnostics(uri, has("validation/minimum"))
	loose := func() (dirs []string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.Collect(maps.Keys(s.loose))
	}
	// A file that has changed and is not open needs no workspace.
	notifyFiles(c, lsp.FileChanged, filepath.Join(root, "below/other.yaml"))
	c.Change(uri, 2, whole(widget))
	c.AwaitDiagnostics(uri, hasNot("validation/minimum"))
	if got := loose(); !slices.Equal(got, []string{root}) {
		t.Errorf("the workspaces are %q", got)
	}
	c.CloseDocument(uri)
	await(t, "the workspace is dropped", func() error {
		if got := loose(); len(got) > 0 {
			return fmt.Errorf("there are %q", got)
		}
		return nil
	})

	untitled := lsp.URI("untitled:Untitled-1")
	c.Open(untitled, "apiVersion: v1\nkind: ConfigMap\nda\n")
	if got := completionLabels(c, untitled, 2, 2); !strings.Contains(got, "binaryData") {
		t.Errorf("completions: %q", got)
	}
	s.mu.Lock()
	w := s.untitled
	s.mu.Unlock()
	if got := loose(); len(got) > 0 || w == nil || len(w.viewed.Load().files) > 0 {
		t.Errorf("the workspaces are %q, and the files of the untitled document %+v", got, w)
	}
	c.Shutdown()
}

// TestLSPUnread changes the file of a CRD before it is needed, without a notification.
func TestLSPUnread(t *testing.T) {
	t.Parallel()
	root := folder(t, map[string]string{"crd.yaml": widgetCRD})
	c, s := sessionLSP(t, root, true)
	await(t, "the folder is read", func() error {
		if len(indexedFiles(s)) == 0 {
			return os.ErrNotExist
		}
		return nil
	})
	writeFile(t, filepath.Join(root, "crd.yaml"), []byte("# changed\n"+strings.Replace(widgetCRD, "minimum: 1", "minimum: 4", 1)))
	for range 3 {
		runtime.GC() // the text in memory is garbage
	}
	uri := lsp.FileURI(filepath.Join(root, "first.yaml"))
	c.Open(uri, widget)
	got := c.AwaitDiagnostics(uri, func(p *lsp.PublishDiagnosticsParams) bool { return len(p.Diagnostics) > 0 })
	if rules(got) != "validation/minimum" {
		t.Errorf("got %+v", got.Diagnostics)
	}
	c.Shutdown()
}

// TestLSPLinks edits files that links lead to, and links.
func TestLSPLinks(t *testing.T) {
	t.Parallel()
	root := folder(t, map[string]string{"crds/widget.yaml": widgetCRD, "first.yaml": strings.Replace(widget, "size: 3", "size: 2", 1)})
	for link, target := range map[string]string{"a-link.yaml": "crds/widget.yaml", "z-link.yaml": "crds/widget.yaml", "linked": "crds"} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Skipf("no links: %v", err)
		}
	}
	c, s := sessionLSP(t, root, true)
	uri := lsp.FileURI(filepath.Join(root, "first.yaml"))
	c.Open(uri, strings.Replace(widget, "size: 3", "size: 2", 1))
	once := func(when string) {
		t.Helper()
		if n := len(indexedFiles(s)); n != 2 {
			t.Errorf("%s: the files are %q", when, indexedFiles(s))
		}
	}
	changed := strings.Replace(widgetCRD, "minimum: 1", "minimum: 3", 1)
	writeFile(t, filepath.Join(root, "crds/widget.yaml"), []byte(changed))
	notifyFiles(c, lsp.FileChanged, filepath.Join(root, "crds/widget.yaml"))
	c.AwaitDiagnostics(uri, has("validation/minimum"))
	once("after a change of the target")
	for _, name := range []string{"z-link.yaml", "linked/widget.yaml", "crds/widget.yaml"} {
		open := lsp.FileURI(filepath.Join(root, name))
		c.Open(open, widgetCRD)
		c.AwaitDiagnostics(uri, hasNot("validation/minimum"))
		once("while " + name + " is open")
		c.CloseDocument(open)
		c.AwaitDiagnostics(uri, has("validation/minimum"))
		once("after " + name + " is closed")
	}
	if err := os.Remove(filepath.Join(root, "a-link.yaml")); err != nil {
		t.Fatal(err)
	}
	notifyFiles(c, lsp.FileDeleted, filepath.Join(root, "a-link.yaml"))
	c.Change(uri, 2, whole(widget))
	c.AwaitDiagnostics(uri, hasNot("validation/minimum"))
	once("after a link was removed")
	c.Shutdown()
}

// TestLSPWatched deletes a directory, and changes files that decide about others.
func TestLSPWatched(t *testing.T) {
	t.Parallel()
	above := folder(t, map[string]string{"w/crds/widget.yaml": widgetCRD, "w/c/templates/x.yaml": ""})
	root := filepath.Join(above, "w")
	c, _ := sessionLSP(t, root, true)
	registered := c.Await("the registration", func(m *lsptest.Message) bool { return m.Method == "client/registerCapability" })
	for _, want := range []string{"[Kk]ustomization", `{"globPattern":"**/*","kind":4}`, "**/.espalier*"} {
		if !strings.Contains(string(registered.Params), want) {
			t.Errorf("%s is not watched: %s", want, registered.Params)
		}
	}
	uri := lsp.FileURI(filepath.Join(root, "first.yaml"))
	bad := strings.Replace(widget, "size: 3", "size: 0\n  colour: red", 1)
	c.Open(uri, bad)
	c.AwaitDiagnostics(uri, has("validation/minimum"))

	// A configuration above the folder is found at the next change.
	writeFile(t, filepath.Join(above, ".espalier.yaml"), []byte("validate: {fieldValidation: strict}\n"))
	c.Change(uri, 2, whole(bad+"\n"))
	c.AwaitDiagnostics(uri, func(p *lsp.PublishDiagnosticsParams) bool {
		return len(p.Diagnostics) == 2 && p.Diagnostics[1].Severity == lsp.SeverityError
	})

	template := lsp.FileURI(filepath.Join(root, "c/templates/x.yaml"))
	c.Open(template, strings.Replace(widget, "size: 3", `size: "{{ x }}"`, 1))
	c.AwaitDiagnostics(template, has("decode"))
	chart := filepath.Join(root, "c/Chart.yaml")
	writeFile(t, chart, []byte("apiVersion: v2\nname: c\nversion: 1.0.0\n"))
	notifyFiles(c, lsp.FileCreated, chart)
	c.AwaitDiagnostics(template, hasNot("decode"))

	if err := os.RemoveAll(filepath.Join(root, "crds")); err != nil {
		t.Fatal(err)
	}
	notifyFiles(c, lsp.FileDeleted, filepath.Join(root, "crds"))
	c.AwaitDiagnostics(uri, has("missing-definition"))
	c.Shutdown()
}

// TestLSPLook changes files for a client that watches none. Excluded directories are not searched.
func TestLSPLook(t *testing.T) {
	t.Parallel()
	root := folder(t, map[string]string{".espalier.yaml": "exclude: [vendor/]\n", "crd.yaml": widgetCRD, "vendor/x.yaml": widget})
	c, s := sessionLSP(t, root, false)
	uri := lsp.FileURI(filepath.Join(root, "first.yaml"))
	c.Open(uri, widget)
	w := s.workspaces()[0]
	await(t, "the files are known", func() error {
		w.marks.Lock()
		defer w.marks.Unlock()
		if w.seen == nil {
			c.Change(uri, 2, whole(widget))
			return os.ErrNotExist
		}
		for path := range w.seen {
			if strings.Contains(path, "vendor") {
				t.Errorf("%s is looked at", path)
			}
		}
		return nil
	})
	writeFile(t, filepath.Join(root, "crd.yaml"), []byte(strings.Replace(widgetCRD, "minimum: 1", "minimum: 44", 1)))
	c.Change(uri, 3, whole(widget+"\n"))
	c.AwaitDiagnostics(uri, has("validation/minimum"))
	c.Shutdown()
}

// TestLSPClosedOutput starts the server for a client that reads nothing: it ends, and is not killed.
func TestLSPClosedOutput(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := programCommand(t, "lsp")
	cmd.Stdout = w
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	w.Close()
	const message = `{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"processId": null, "rootUri": null, "capabilities": {}}}`
	for range 3 {
		_, _ = fmt.Fprintf(in, "Content-Length: %d\r\n\r\n%s", len(message), message) // it may have ended
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		_ = cmd.Process.Kill()
		t.Fatal("the server does not end")
	}
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("the server ends with %v", cmd.ProcessState)
	}
}
