package main

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"espalier.dev/cmd/espalier/internal/lsp"
)

// editedFiles returns a folder with CRDs, objects and other files that random edits can break.
func editedFiles() map[string]string {
	gadget := strings.NewReplacer("widget", "gadget", "Widget", "Gadget").Replace(widgetCRD)
	return map[string]string{
		"crd/widget.yaml":     widgetCRD,
		"crd/both.yaml":       gadget + "---\n" + widgetCRD,
		"objects/first.yaml":  widget,
		"objects/second.yaml": strings.Replace(widget, "size: 3", "size: 0\n  colour: red # espalier:ignore unknown-field -- kept for old clients", 1),
		"objects/more.yaml": strings.Replace(widget, "first", "third", 1) + "---\n" + strings.Replace(widget, "Widget", "Gadget", 1) +
			"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n",
		"objects/list.yaml": "apiVersion: v1\nkind: List\nitems:\n- apiVersion: example.com/v1\n  kind: Widget\n  metadata: {name: listed}\n  spec: {size: 1}\n",
		"objects/web.json":  `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": "3"}}` + "\n",
		"policy.yaml": "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: sizes}\n" +
			"spec: {policyName: sizes, validationActions: [Deny]}\n",
		fenceName:        fenceText,
		".espalier.yaml": "lint: {disable: [list-type]}\n",
	}
}

// edit replaces a part of a text.
type edit struct {
	start, end int
	insert     string
}

// apply returns the text after the edit.
func (e edit) apply(text string) string { return text[:e.start] + e.insert + text[e.end:] }

// change returns the edit as editors send it.
func (e edit) change(text string) lsp.ContentChange {
	src := []byte(text)
	return lsp.ContentChange{Range: &lsp.Range{Start: utf16Position(src, e.start), End: utf16Position(src, e.end)}, Text: e.insert}
}

// randomEdit returns an edit of a text: a part of it is deleted, repeated, or replaced with a part of
// another one. It does not split characters and line breaks, which editors cannot either.
func randomEdit(random *rand.Rand, text string, others []string) edit {
	whole := func(at int) int {
		for at > 0 && at < len(text) && (!utf8.RuneStart(text[at]) || text[at-1] == '\r' && text[at] == '\n') {
			at--
		}
		return at
	}
	at := whole(random.IntN(len(text) + 1))
	if random.IntN(3) > 0 { // whole lines are edited more often
		at = strings.LastIndexByte(text[:at], '\n') + 1
	}
	end := max(at, whole(min(len(text), at+random.IntN(30))))
	if random.IntN(2) == 0 {
		if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
	}
	e := edit{start: at, end: end}
	switch random.IntN(4) {
	case 0: // deleted
	case 1:
		e.insert = text[at:end] + text[at:end]
	case 2:
		words := []string{"x", ":", "  ", "size: 7\n", "kind: Widget\n", "---\n", "- ", "\"", "{", "}", "é😀", "\r\n", "minimum: 2\n", "type: string\n", "#"}
		e.insert = words[random.IntN(len(words))]
	default:
		lines := strings.SplitAfter(others[random.IntN(len(others))], "\n")
		e.insert, e.end = lines[random.IntN(len(lines))], at
	}
	return e
}

// editedFile is a file of a folder that is edited in an editor.
type editedFile struct {
	name           string
	original, disk string
	// open is set if the editor has the file open, with a text and a version.
	open    bool
	text    string
	version int
}

// now returns the text that counts.
func (f *editedFile) now() string {
	if f.open {
		return f.text
	}
	return f.disk
}

// TestLSPEdits edits files in the language server at random: files that are open, and files on disk.
// After each edit it compares the diagnostics of the open files with what validate and lint report
// about a folder with the same texts. ESPALIER_LSP_EDITS sets the number of edits.
func TestLSPEdits(t *testing.T) {
	t.Parallel()
	edits := 100
	if testing.Short() {
		edits = 20
	}
	if value := os.Getenv("ESPALIER_LSP_EDITS"); value != "" {
		var err error
		if edits, err = strconv.Atoi(value); err != nil {
			t.Fatal(err)
		}
	}
	texts := editedFiles()
	// The commands read other files than the server, which has to know the texts of open ones.
	root, mirror := folder(t, texts), folder(t, texts)
	var files []*editedFile
	var originals []string
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if name != ".espalier.yaml" && name != fenceName {
			files = append(files, &editedFile{name: name, original: texts[name], disk: texts[name]})
			originals = append(originals, texts[name])
		}
	}
	p := startLSPProcess(t)
	p.open(root)
	fence := newFence(p, root)
	random := rand.New(rand.NewPCG(35, 1))
	var early float64
	compared := 0
	for i := range edits {
		edited := files[random.IntN(len(files))]
		editRandomly(t, p, random, edited, root, originals)
		writeFile(t, filepath.Join(mirror, edited.name), []byte(edited.now()))
		fence.wait()
		want := commandFindings(t, mirror, "--config", filepath.Join(mirror, ".espalier.yaml"))
		for _, f := range files {
			var expected []string
			if f.open {
				findings := want[filepath.Join(mirror, f.name)]
				for i := range findings {
					findings[i].Message = strings.ReplaceAll(findings[i].Message, mirror, root)
				}
				expected = expectedTexts([]byte(f.text), findings)
			}
			compared++
			uri := lsp.FileURI(filepath.Join(root, f.name))
			last := p.Diagnostics(uri)
			if !f.open && last != nil { // those of closed documents are removed after the fence
				last = p.AwaitDiagnostics(uri, func(d *lsp.PublishDiagnosticsParams) bool { return len(d.Diagnostics) == 0 })
			}
			have := diagnosticTexts(t, last)
			if !slices.Equal(have, expected) {
				t.Fatalf("edit %d of %s: %s differs:\n%s\n%s", i, edited.name, f.name, difference(expected, have), f.now())
			}
		}
		p.Forget()
		if (i+1)%1000 == 0 {
			t.Logf("%d edits", i+1)
		}
		if rss, _, _, ok := p.memory(); ok && i == edits/10 {
			early = rss
		}
	}
	if rss, _, open, ok := p.memory(); ok {
		t.Logf("%d edits, %d comparisons; %.0f MB after a tenth of the edits, %.0f MB at the end, %d open files", edits, compared, early, rss, open)
		if rss > 1.5*early+50 {
			t.Errorf("the process has %.0f MB after %d edits, and had %.0f MB after %d", rss, edits, early, edits/10)
		}
		if open > 30 {
			t.Errorf("the process has %d open files", open)
		}
	}
	if children := p.children(); len(children) > 0 {
		t.Errorf("the process has started %v, which run", children)
	}
	if n := p.goroutines(t); n > 30 {
		t.Errorf("the process has %d goroutines: %s", n, &p.stderr)
	}
}

// editRandomly changes a file in the editor or on disk.
func editRandomly(t *testing.T, p *lspProcess, random *rand.Rand, f *editedFile, root string, originals []string) {
	t.Helper()
	path := filepath.Join(root, f.name)
	uri := lsp.FileURI(path)
	write := func(text string) {
		f.disk = text
		writeFile(t, path, []byte(text))
	}
	broken := random.IntN(8) == 0 || len(f.now()) > 8<<10 // for long enough
	e := randomEdit(random, f.now(), originals)
	switch how := random.IntN(16); {
	case !f.open && how < 8:
		f.open, f.text, f.version = true, f.disk, 1
		p.Open(uri, f.text)
	case !f.open:
		write(e.apply(f.disk))
		if broken {
			write(f.original)
		}
		p.Notify("workspace/didChangeWatchedFiles", lsp.DidChangeWatchedFilesParams{Changes: []lsp.FileEvent{{URI: uri, Type: lsp.FileChanged}}})
	case how == 0: // what is on disk counts again
		f.open = false
		p.CloseDocument(uri)
	case how == 1: // saved, and closed
		write(f.text)
		f.open = false
		p.Notify("textDocument/didSave", lsp.DidSaveParams{TextDocument: lsp.TextDocumentIdentifier{URI: uri}})
		p.CloseDocument(uri)
	case broken:
		f.text = f.original
		f.version++
		p.Change(uri, f.version, whole(f.text))
	default:
		change := e.change(f.text)
		f.text = e.apply(f.text)
		f.version++
		if how < 12 {
			p.Change(uri, f.version, change)
			return
		}
		// Two edits at once.
		second := randomEdit(random, f.text, originals)
		p.Change(uri, f.version, change, second.change(f.text))
		f.text = second.apply(f.text)
	}
}
