package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"espalier.dev/cmd/espalier/internal/lsp"
)

// BenchmarkLSP measures what a user of an editor waits for, and the memory of the language server. It
// needs the corpus. make bench-lsp runs it with the program as it is released.
func BenchmarkLSP(b *testing.B) {
	b.Run("completion", benchmarkCompletion)
	b.Run("keystroke", benchmarkKeystroke)
	b.Run("workspace", benchmarkWorkspace)
}

// percentile returns a percentile of times in milliseconds.
func percentile(times []time.Duration, percent int) float64 {
	slices.Sort(times)
	return float64(times[(len(times)-1)*percent/100]) / float64(time.Millisecond)
}

// largestCRD returns the largest CRD of the corpus.
func largestCRD(b *testing.B) string {
	b.Helper()
	var largest string
	var size int64
	files, err := filepath.Glob(filepath.Join(corpusDir(b), "v1", "*", "*.yaml"))
	if err != nil {
		b.Fatal(err)
	}
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && info.Size() > size {
			largest, size = file, info.Size()
		}
	}
	return largest
}

// benchmarkCompletion asks for completions in each document of a file with three, two of which are
// objects of the largest CRD of the corpus, while the user types.
func benchmarkCompletion(b *testing.B) {
	crd, err := os.ReadFile(largestCRD(b))
	if err != nil {
		b.Fatal(err)
	}
	const workflow = "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nmetadata:\n  name: one\nspec:\n  templates:\n  - name: first\n" +
		"    container:\n      image: alpine\n      \n    \n  \n"
	const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: two\nspec:\n  template:\n    spec:\n      containers:\n      - name: a\n        \n"
	text := workflow + "---\n" + deployment + "---\n" + strings.Replace(workflow, "one", "three", 1)
	root := folder(b, map[string]string{"crd.yaml": string(crd), "objects.yaml": text})
	p := startLSPProcess(b)
	p.open(root)
	uri := lsp.FileURI(filepath.Join(root, "objects.yaml"))
	p.Open(uri, text)
	p.AwaitDiagnostics(uri, func(*lsp.PublishDiagnosticsParams) bool { return true })
	lines := strings.Split(text, "\n")
	// The blank lines are the places of new fields.
	var places [3][]lsp.Position
	document := 0
	for i, line := range lines {
		if line == "---" {
			document++
		} else if strings.TrimSpace(line) == "" && line != "" {
			places[document] = append(places[document], lsp.Position{Line: i, Character: len(line)})
		}
	}
	version := 1
	for b.Loop() {
		for document, places := range places {
			var times []time.Duration
			items, used := 0, p.cpu()
			for i := range 100 {
				at := places[i%len(places)]
				// Half of the completions follow a keystroke at once, as in editors.
				for _, typed := range []string{"a", ""} {
					version++
					end := at
					if typed == "" {
						end.Character++
					}
					p.Change(uri, version, lsp.ContentChange{Range: &lsp.Range{Start: at, End: end}, Text: typed})
					begin := time.Now()
					var list lsp.CompletionList
					p.Call("textDocument/completion", lsp.CompletionParams{TextDocumentPositionParams: lsp.TextDocumentPositionParams{
						TextDocument: lsp.TextDocumentIdentifier{URI: uri}, Position: lsp.Position{Line: at.Line, Character: at.Character + len(typed)}}}, &list)
					times = append(times, time.Since(begin))
					items += len(list.Items)
				}
				time.Sleep(10 * time.Millisecond) // a user types no faster
			}
			if items < 100 {
				b.Errorf("document %d has %d completions", document+1, items)
			}
			b.ReportMetric(float64(p.cpu()-used)/float64(len(times))/float64(time.Millisecond), fmt.Sprintf("cpu-ms-doc%d", document+1))
			b.ReportMetric(percentile(times, 50), fmt.Sprintf("p50-ms-doc%d", document+1))
			b.ReportMetric(percentile(times, 95), fmt.Sprintf("p95-ms-doc%d", document+1))
		}
	}
	reportMemory(b, p)
	p.stop(b)
}

// reportMemory reports the memory of a process.
func reportMemory(b *testing.B, p *lspProcess) {
	if rss, pss, _, ok := p.memory(); ok {
		b.ReportMetric(rss, "rss-MB")
		b.ReportMetric(pss, "pss-MB")
	}
	b.ReportMetric(0, "ns/op") // it says nothing
}

// benchmarkKeystroke types in a file of 1 MB with thousands of objects, and waits for diagnostics.
func benchmarkKeystroke(b *testing.B) {
	var text strings.Builder
	for i := 0; text.Len() < 1e6; i++ {
		fmt.Fprintf(&text, "---\napiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: widget-%d\n  labels: {app: widgets}\nspec:\n  size: %d\n  color: green\n", i, i+1)
		fmt.Fprintf(&text, "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings-%d\ndata:\n  some: text\n  other: more text\n", i)
	}
	root := folder(b, map[string]string{"crd.yaml": widgetCRD, "objects.yaml": text.String()})
	p := startLSPProcess(b)
	p.open(root)
	uri := lsp.FileURI(filepath.Join(root, "objects.yaml"))
	p.Open(uri, text.String())
	line := strings.Count(text.String()[:text.Len()/2], "\n")
	for !strings.HasPrefix(strings.Split(text.String(), "\n")[line], "  size: ") {
		line++
	}
	at := lsp.Position{Line: line, Character: len("  size: ")}
	version := 1
	keystroke := func(typed string) time.Duration {
		end := at
		if typed == "" {
			end.Character++
		}
		version++
		begin := time.Now()
		p.Change(uri, version, lsp.ContentChange{Range: &lsp.Range{Start: at, End: end}, Text: typed})
		want := 0
		if typed != "" {
			want = 1
		}
		p.AwaitDiagnostics(uri, func(d *lsp.PublishDiagnosticsParams) bool {
			return d.Version != nil && *d.Version == version && len(d.Diagnostics) == want
		})
		return time.Since(begin)
	}
	keystroke("-") // the first time, everything is read
	keystroke("")
	for b.Loop() {
		var times []time.Duration
		used := p.cpu()
		for range 20 {
			times = append(times, keystroke("-"), keystroke(""))
		}
		b.ReportMetric(float64(p.cpu()-used)/float64(len(times))/float64(time.Millisecond), "cpu-ms")
		b.ReportMetric(percentile(times, 50), "p50-ms")
		b.ReportMetric(percentile(times, 95), "p95-ms")
	}
	reportMemory(b, p)
	p.stop(b)
}

// benchmarkWorkspace opens the whole corpus as a workspace, and one file in it.
func benchmarkWorkspace(b *testing.B) {
	corpus := corpusDir(b)
	for b.Loop() {
		p := startLSPProcess(b)
		begin := time.Now()
		p.open(corpus)
		fence := newFence(p, corpus)
		fence.wait()
		b.ReportMetric(float64(time.Since(begin))/float64(time.Millisecond), "first-ms")
		rss, _, _, _ := p.memory()
		b.ReportMetric(rss, "first-rss-MB")
		var times []time.Duration
		used := p.cpu()
		for range 20 {
			begin := time.Now()
			fence.wait()
			times = append(times, time.Since(begin))
		}
		b.ReportMetric(float64(p.cpu()-used)/float64(len(times))/float64(time.Millisecond), "change-cpu-ms")
		b.ReportMetric(percentile(times, 50), "change-p50-ms")
		b.ReportMetric(percentile(times, 95), "change-p95-ms")
		reportMemory(b, p)
		p.stop(b)
	}
}
