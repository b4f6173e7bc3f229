package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"espalier.dev/cmd/espalier/internal/lsp"
	"espalier.dev/internal/testcase"
)

// commandFinding is a finding in the output of a command.
type commandFinding struct {
	File, Rule, Severity, Message, Pointer string
	Line, Column, EndLine, EndColumn       int
}

// commandFindings returns what validate and lint report about the files of a directory.
func commandFindings(t testing.TB, root string, flags ...string) map[string][]commandFinding {
	t.Helper()
	all := map[string][]commandFinding{}
	for _, command := range []string{"validate", "lint"} {
		out, code := runApp(t, append([]string{command, "-R", "--skip-other-files", "-o", "json", root}, flags...)...)
		var got struct{ Findings []commandFinding }
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%s exits with %d: %v: %.500s", command, code, err, out)
		}
		for _, f := range got.Findings {
			all[f.File] = append(all[f.File], f)
		}
	}
	return all
}

// expectedTexts returns the findings about a text as its diagnostics in UTF-16, sorted. Validate and
// lint report some findings both, which are shown once.
func expectedTexts(text []byte, findings []commandFinding) []string {
	all := map[string]bool{}
	offset := func(line, column int) int {
		at := 0
		for range line - 1 {
			next := bytes.IndexByte(text[at:], '\n')
			if next < 0 {
				return len(text)
			}
			at += next + 1
		}
		if at == 0 && bytes.HasPrefix(text, []byte("\ufeff")) {
			at = len("\ufeff")
		}
		for ; column > 1 && at < len(text) && text[at] != '\n'; column-- {
			_, n := utf8.DecodeRune(text[at:])
			at += n
		}
		return at
	}
	for _, f := range findings {
		start, end := offset(f.Line, f.Column), 0
		if f.EndLine > 0 {
			end = offset(f.EndLine, f.EndColumn)
		}
		if f.Line == 0 || end <= start { // up to the end of the line
			end = len(text)
			if i := bytes.IndexAny(text[start:], "\r\n"); i >= 0 {
				end = start + i
			}
		}
		r := lsp.Range{Start: utf16Position(text, start), End: utf16Position(text, end)}
		all[fmt.Sprintf("%v %s %s %s %s", r, f.Pointer, f.Severity, f.Rule, f.Message)] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// diagnosticTexts returns diagnostics in the form of expectedTexts, without those that no command
// reports.
func diagnosticTexts(t testing.TB, d *lsp.PublishDiagnosticsParams) (all []string) {
	t.Helper()
	if d == nil {
		return nil
	}
	for _, d := range d.Diagnostics {
		var data diagnosticData
		if err := json.Unmarshal(d.Data, &data); err != nil {
			t.Errorf("data of a diagnostic: %v: %s", err, d.Data)
		}
		severity := map[lsp.DiagnosticSeverity]string{lsp.SeverityError: "error", lsp.SeverityWarning: "warning", lsp.SeverityInformation: "info"}[d.Severity]
		if !data.Recovered {
			all = append(all, fmt.Sprintf("%v %s %s %s %s", d.Range, data.Pointer, severity, d.Code, d.Message))
		}
	}
	slices.Sort(all)
	return all
}

// utf16Position returns the position of an offset. Lines end with LF, CR LF or CR.
func utf16Position(text []byte, offset int) lsp.Position {
	var p lsp.Position
	start := 0
	for i := range offset {
		if text[i] == '\n' || text[i] == '\r' && (i+1 == len(text) || text[i+1] != '\n') {
			p.Line, start = p.Line+1, i+1
		}
	}
	p.Character = len(utf16.Encode([]rune(string(text[start:offset]))))
	return p
}

// TestLSPCorpus opens the files of a part of the corpus, or of all of it with make corpus, or of the
// folder in ESPALIER_LSP_FOLDER, in the language server, and compares the diagnostics with what validate
// and lint report.
func TestLSPCorpus(t *testing.T) {
	if testing.Short() {
		t.Skip("the corpus takes a while")
	}
	t.Parallel()
	root, files := os.Getenv("ESPALIER_LSP_FOLDER"), []string(nil)
	if root == "" {
		root, files = corpusFolder(t)
	} else {
		files = filesIn(t, root)
	}
	want := commandFindings(t, root)
	p := startLSPProcess(t)
	p.open(root)
	fence := newFence(p, root)
	different, total := 0, 0
	for batch := range slices.Chunk(files, 100) {
		texts := map[string][]byte{}
		for _, file := range batch {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts[file] = text
			p.Open(lsp.FileURI(file), string(text))
		}
		fence.wait()
		for _, file := range batch {
			have, want := diagnosticTexts(t, p.Diagnostics(lsp.FileURI(file))), expectedTexts(texts[file], want[file])
			total += len(have)
			if !slices.Equal(have, want) {
				if different++; different < 5 {
					t.Errorf("%s: differs:\n%s", file, difference(want, have))
				}
			}
			p.CloseDocument(lsp.FileURI(file))
		}
		p.Forget()
	}
	rss, _, open, _ := p.memory()
	t.Logf("%d diagnostics in %d files, %d files differ; %.0f MB, %d open files", total, len(files), different, rss, open)
	p.stop(t)
}

// filesIn returns the YAML and JSON files of a folder.
func filesIn(t testing.TB, root string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if ext := filepath.Ext(path); err == nil && d.Type().IsRegular() && (ext == ".yaml" || ext == ".yml" || ext == ".json") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// corpusFolder returns a folder with a part of the files of the corpus, or all of them, and the CRDs of
// the objects in them, and the paths of the files.
func corpusFolder(t testing.TB) (root string, files []string) {
	t.Helper()
	corpus := corpusDir(t)
	all, err := filepath.Glob(filepath.Join(corpus, "*", "*", "*.*"))
	if err != nil {
		t.Fatal(err)
	}
	uses := map[string]string{}
	index, err := os.ReadFile(filepath.Join(corpus, "CR_INDEX.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(index)) {
		fields := strings.Split(line, "\t")
		uses[filepath.Join(corpus, fields[0])] = filepath.Join(corpus, fields[1])
	}
	root = t.TempDir()
	add := func(file string) {
		name, err := filepath.Rel(corpus, file)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(root, name)
		if !slices.Contains(files, to) {
			writeFile(t, to, text)
			files = append(files, to)
		}
	}
	for _, file := range testcase.Part(all) {
		add(file)
		if crd := uses[file]; crd != "" {
			add(crd)
		}
	}
	slices.Sort(files)
	return root, files
}

// difference returns the lines that only one of two sorted lists has.
func difference(want, have []string) string {
	var b strings.Builder
	for len(want)+len(have) > 0 {
		order := 0
		switch {
		case len(want) == 0:
			order = 1
		case len(have) == 0:
			order = -1
		default:
			order = cmp.Compare(want[0], have[0])
		}
		if order < 0 {
			fmt.Fprintf(&b, "- %s\n", want[0])
		}
		if order > 0 {
			fmt.Fprintf(&b, "+ %s\n", have[0])
		}
		if order <= 0 {
			want = want[1:]
		}
		if order >= 0 {
			have = have[1:]
		}
	}
	return b.String()
}
