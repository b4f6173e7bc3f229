package helm

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/textproto"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// editor is a client of the language server.
type editor struct {
	t  *testing.T
	to io.Writer
	in *bufio.Reader
	// version counts changes.
	version int
}

// send sends a message.
func (e *editor) send(message string) {
	e.t.Helper()
	if _, err := fmt.Fprintf(e.to, "Content-Length: %d\r\n\r\n%s", len(message), message); err != nil {
		e.t.Fatal(err)
	}
}

// open opens a file with a text.
func (e *editor) open(file, text string) {
	e.t.Helper()
	quoted, _ := json.Marshal(text) // a string never fails
	e.send(fmt.Sprintf(`{"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {"textDocument": {"uri": "file://%s", "languageId": "yaml", "version": 1, "text": %s}}}`,
		file, quoted))
}

// change changes the text of an open file.
func (e *editor) change(file, text string) {
	e.t.Helper()
	e.version++
	quoted, _ := json.Marshal(text) // a string never fails
	e.send(fmt.Sprintf(`{"jsonrpc": "2.0", "method": "textDocument/didChange", "params": {"textDocument": {"uri": "file://%s", "version": %d}, "contentChanges": [{"text": %s}]}}`,
		file, 1+e.version, quoted))
}

// await waits until the diagnostics of a file are these, each as line, severity, rule and message.
func (e *editor) await(file string, want ...string) {
	e.t.Helper()
	for {
		header, err := textproto.NewReader(e.in).ReadMIMEHeader()
		if err != nil {
			e.t.Fatalf("waiting for %q: %v", want, err)
		}
		length, err := strconv.Atoi(header.Get("Content-Length"))
		if err != nil {
			e.t.Fatal(err)
		}
		body := make([]byte, length)
		if _, err := io.ReadFull(e.in, body); err != nil {
			e.t.Fatal(err)
		}
		var message struct {
			Method string
			Params struct {
				URI         string
				Diagnostics []struct {
					Range    struct{ Start struct{ Line int } }
					Severity int
					Code     string
					Message  string
				}
			}
		}
		if err := json.Unmarshal(body, &message); err != nil {
			e.t.Fatal(err)
		}
		if message.Method != "textDocument/publishDiagnostics" || message.Params.URI != "file://"+file {
			continue
		}
		var got []string
		for _, d := range message.Params.Diagnostics {
			got = append(got, fmt.Sprintf("%d %d %s %s", d.Range.Start.Line+1, d.Severity, d.Code, d.Message))
		}
		e.t.Logf("%s: %q", filepath.Base(file), got)
		matches := len(got) == len(want)
		for i := 0; matches && i < len(got); i++ {
			matches = strings.Contains(got[i], want[i])
		}
		if matches {
			return
		}
	}
}

// TestEditor opens templates in the language server, which renders their charts with the real helm.
func TestEditor(t *testing.T) {
	c := newCommandLine(t)
	const template = `{{- if .Values.enabled }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
  namespace: {{ .Release.Namespace }}
data:
  {{- range $key, $value := .Values.data }}
  {{ $key }}: {{ $value }}
  {{- end }}
{{- end }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ include "name" . }}
spec:
  ports:
  - port: {{ .Values.port }}
`
	c.write(t, map[string]string{
		"chart/Chart.yaml":             "apiVersion: v2\nname: edited\nversion: 1.0.0\n",
		"chart/values.yaml":            "enabled: true\nport: 80\ndata: {a: b}\n",
		"chart/templates/_helpers.tpl": `{{ define "name" }}name{{ end }}`,
		"chart/templates/all.yaml":     template,
	})
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.program, "lsp", "--helm-namespace", "prod")
	cmd.Dir = c.dir
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	e := &editor{t: t, to: in, in: bufio.NewReader(out)}
	e.send(fmt.Sprintf(`{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"processId": null, "rootUri": "file://%s", "capabilities": {}}}`, c.dir))
	e.send(`{"jsonrpc": "2.0", "method": "initialized", "params": {}}`)
	file, values := filepath.Join(c.dir, "chart/templates/all.yaml"), filepath.Join(c.dir, "chart/values.yaml")
	e.open(file, template)
	e.open(values, "enabled: true\nport: 0\ndata: {a: 1}\n")
	// The line of the port is known, that of the value is not.
	e.await(file, "in what helm renders of this template: must be a string, is 1", "19 1 validation/invalid Invalid value: 0", "19 1 validation/invalid Invalid value: 0")
	e.change(values, "enabled: false\nport: 80\ndata: {a: 1}\n")
	e.await(file)
	e.change(file, strings.Replace(template, "{{ .Values.port }}", "{{ .Values.port | nothing }}", 1))
	e.await(file, `19 2 unrendered cannot render the chart`)
	e.change(file, strings.Replace(template, "{{ .Values.port }}", `{{ required "a port is required" .Values.ports }}`, 1))
	e.await(file, `a port is required: set values with --helm-values or --helm-set`)
	e.send(`{"jsonrpc": "2.0", "id": 2, "method": "shutdown"}`)
	e.send(`{"jsonrpc": "2.0", "method": "exit"}`)
	if _, err := io.Copy(io.Discard, e.in); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
