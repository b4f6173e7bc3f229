package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"espalier.dev/cmd/espalier/internal/lsp"
)

// fakeHelm renders a chart with a few substitutions, and fails or hangs if a template says so.
const fakeHelm = `#!/bin/sh
cd chart || exit 1
if grep -q HANG templates/widget.yaml; then echo $$ > "$STARTED"; sleep 600; fi
if grep -q BROKEN templates/widget.yaml; then echo "Error: parse error at (c/templates/widget.yaml:3): unclosed action" >&2; exit 1; fi
echo run >> "$STARTED"
size=$(sed -n 's/^size: //p' values.yaml)
echo "---
# Source: c/templates/widget.yaml"
sed "s/{{ .Values.size }}/$size/; s/{{ .Values.extra }}/bogus: 1/; s/{{ .Release.Name }}/first/" templates/widget.yaml
echo "---
# Source: c/templates/plain.yaml"
cat templates/plain.yaml
`

const widgetTemplate = `apiVersion: example.com/v1
kind: Widget
metadata: {name: "{{ .Release.Name }}"}
spec:
  size: {{ .Values.size }}
`

// chartFolder returns a folder with a chart, and makes a program the only helm, or none.
func chartFolder(t *testing.T, program string) (root, started string) {
	t.Helper()
	root = folder(t, map[string]string{
		"crd.yaml": widgetCRD, "c/Chart.yaml": "apiVersion: v2\nname: c\nversion: 1.0.0\n", "c/values.yaml": "size: 0\n",
		"c/templates/widget.yaml": widgetTemplate, "c/templates/plain.yaml": strings.Replace(widget, "first", "plain", 1),
	})
	bin := t.TempDir()
	if program != "" {
		if err := os.WriteFile(filepath.Join(bin, "helm"), []byte(program), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	started = filepath.Join(t.TempDir(), "started")
	t.Setenv("STARTED", started)
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+"/usr/bin:/bin")
	return root, started
}

// TestLSPHelm edits a template of a chart, and its values.
func TestLSPHelm(t *testing.T) {
	root, started := chartFolder(t, fakeHelm)
	c := startLSP(t, root)
	template, values := lsp.FileURI(filepath.Join(root, "c/templates/widget.yaml")), lsp.FileURI(filepath.Join(root, "c/values.yaml"))
	c.Open(template, widgetTemplate)
	got := c.AwaitDiagnostics(template, func(p *lsp.PublishDiagnosticsParams) bool { return len(p.Diagnostics) > 0 })
	if rules(got) != "validation/minimum" || got.Diagnostics[0].Range != (lsp.Range{Start: lsp.Position{Line: 4, Character: 2}, End: lsp.Position{Line: 4, Character: 26}}) {
		t.Errorf("got %+v", got.Diagnostics)
	}
	// A template without actions has the positions of its file.
	plain := lsp.FileURI(filepath.Join(root, "c/templates/plain.yaml"))
	c.Open(plain, strings.NewReplacer("first", "plain", "size: 3", "size: -1").Replace(widget))
	got = c.AwaitDiagnostics(plain, func(p *lsp.PublishDiagnosticsParams) bool { return strings.Contains(rules(p), "validation/minimum") })
	if at := got.Diagnostics[len(got.Diagnostics)-1].Range.Start; at != (lsp.Position{Line: 4, Character: 8}) {
		t.Errorf("got %+v", got.Diagnostics)
	}
	c.CloseDocument(plain)
	// Values that are not saved count.
	c.Open(values, "size: 5\n")
	c.AwaitDiagnostics(template, func(p *lsp.PublishDiagnosticsParams) bool { return len(p.Diagnostics) == 0 })
	c.Change(template, 2, whole(widgetTemplate+"  {{ .Values.extra }}\n"))
	got = c.AwaitDiagnostics(template, func(p *lsp.PublishDiagnosticsParams) bool { return len(p.Diagnostics) > 0 })
	if d := got.Diagnostics[0]; rules(got) != "unknown-field" || d.Range.Start.Line != 0 || !strings.HasPrefix(d.Message, "in what helm renders") {
		t.Errorf("got %+v", got.Diagnostics)
	}
	c.Change(template, 3, whole(widgetTemplate+"# BROKEN\n"))
	got = c.AwaitDiagnostics(template, func(p *lsp.PublishDiagnosticsParams) bool { return rules(p) == "unrendered" })
	if d := got.Diagnostics[0]; d.Range.Start.Line != 2 || d.Severity != lsp.SeverityWarning || !strings.Contains(d.Message, "unclosed action") {
		t.Errorf("got %+v", d)
	}
	// Many changes are rendered once or twice.
	for i := range 30 {
		c.Change(template, 4+i, whole(widgetTemplate+strings.Repeat("#", i)+"\n"))
		time.Sleep(5 * time.Millisecond)
	}
	c.AwaitDiagnostics(template, func(p *lsp.PublishDiagnosticsParams) bool { return len(p.Diagnostics) == 0 })
	if runs, err := os.ReadFile(started); err != nil || strings.Count(string(runs), "run") > 8 {
		t.Errorf("helm has run %d times, %v", strings.Count(string(runs), "run"), err)
	}
	// A helm that hangs delays nothing, and the end of the session ends it.
	c.Change(template, 40, whole(widgetTemplate+"# HANG\n"))
	await(t, "helm starts", func() error { _, err := os.Stat(started); return err })
	await(t, "helm hangs", func() error {
		text, err := os.ReadFile(started)
		if err == nil && strings.HasSuffix(strings.TrimSpace(string(text)), "run") {
			err = os.ErrNotExist
		}
		return err
	})
	start := time.Now()
	if got := completionLabels(c, template, 1, 6); !strings.Contains(got, "Widget") {
		t.Errorf("completions: %q", got)
	}
	c.Shutdown()
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("the answer and the end take %v", took)
	}
	await(t, "the copy is removed", func() error {
		if entries, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(entries) > 0 {
			return os.ErrExist
		}
		return nil
	})
}

// TestLSPHelmLint lints policies and CRDs that a template renders together with those of other files.
func TestLSPHelmLint(t *testing.T) {
	root, _ := chartFolder(t, fakeHelm)
	const binding = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\n" +
		"metadata: {name: \"{{ .Release.Name }}\"}\nspec: {policyName: sizes, validationActions: [Deny]}\n"
	const policy = "---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: sizes}\nspec:\n" +
		"  failurePolicy: Fail\n  matchConstraints:\n    resourceRules:\n    - {apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [widgets]}\n" +
		"  validations:\n  - expression: object.spec.size < 5\n"
	template := filepath.Join(root, "c/templates/widget.yaml")
	uri := lsp.FileURI(template)
	if err := os.WriteFile(template, []byte(binding), 0o600); err != nil {
		t.Fatal(err)
	}
	c := startLSP(t, root)
	c.Open(uri, binding)
	got := c.AwaitDiagnostics(uri, func(p *lsp.PublishDiagnosticsParams) bool { return len(p.Diagnostics) > 0 })
	if rules(got) != "policy-binding" || got.Diagnostics[0].Range.Start.Line != 3 {
		t.Errorf("got %+v", got.Diagnostics)
	}
	c.Change(uri, 2, whole(binding+policy))
	c.AwaitDiagnostics(uri, func(p *lsp.PublishDiagnosticsParams) bool { return !strings.Contains(rules(p), "policy-binding") })
	// A CRD that claims the kind of one in an earlier file.
	if err := os.WriteFile(filepath.Join(root, "a.yaml"), []byte(widgetCRD), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Notify("workspace/didChangeWatchedFiles", lsp.DidChangeWatchedFilesParams{Changes: []lsp.FileEvent{{URI: lsp.FileURI(filepath.Join(root, "a.yaml")), Type: lsp.FileCreated}}})
	c.Change(uri, 3, whole(strings.ReplaceAll(widgetCRD, "widgets", "gadgets")+"# {{ .Release.Name }}\n"))
	c.AwaitDiagnostics(uri, func(p *lsp.PublishDiagnosticsParams) bool { return strings.Contains(rules(p), "name-collision") })
}

// TestLSPHelmDeletedLines deletes the lines of a template that a finding is about, while helm hangs: the
// finding of the rendering before is not published.
func TestLSPHelmDeletedLines(t *testing.T) {
	root, _ := chartFolder(t, fakeHelm)
	c := startLSP(t, root)
	template := lsp.FileURI(filepath.Join(root, "c/templates/widget.yaml"))
	c.Open(template, widgetTemplate)
	c.AwaitDiagnostics(template, func(p *lsp.PublishDiagnosticsParams) bool { return rules(p) == "validation/minimum" })
	c.Change(template, 2, whole("# {{ HANG }}\n"))
	c.AwaitDiagnostics(template, func(p *lsp.PublishDiagnosticsParams) bool { return len(p.Diagnostics) == 0 })
	c.Shutdown()
}

// TestLSPNoHelm opens a template where there is no helm: nothing is said about it.
func TestLSPNoHelm(t *testing.T) {
	root, _ := chartFolder(t, "")
	c := startLSP(t, root)
	template, other := lsp.FileURI(filepath.Join(root, "c/templates/widget.yaml")), lsp.FileURI(filepath.Join(root, "other.yaml"))
	c.Open(template, widgetTemplate+"  {{- range .Values.x }}\n  colour: {{ . }}\n  {{- end }}\n")
	c.Open(other, strings.Replace(widget, "size: 3", "size: 0", 1))
	c.AwaitDiagnostics(other, func(p *lsp.PublishDiagnosticsParams) bool { return rules(p) == "validation/minimum" })
	if got := c.Diagnostics(template); got != nil && len(got.Diagnostics) > 0 {
		t.Errorf("got %+v", got.Diagnostics)
	}
	c.Shutdown()
}
