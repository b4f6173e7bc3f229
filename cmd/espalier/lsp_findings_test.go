package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
)

// testWorkspace returns a workspace of a directory.
func testWorkspace(root string, flags ...flagValue) *workspace {
	a := &app{program: "espalier", environ: func(string) (string, bool) { return "", false }}
	return newWorkspace(root, true, &input.Buffers{}, func(ctx context.Context, w *workspace) (*checks, error) {
		return a.newChecks(ctx, w, flags)
	})
}

// commandFindings returns what validate and lint report about the files of a directory.
func commandFindings(t *testing.T, root string, flags ...string) map[string][]string {
	t.Helper()
	all := map[string]map[string]bool{}
	for _, command := range []string{"validate", "lint"} {
		out, code := runApp(t, append([]string{command, "-R", "--skip-other-files", "-o", "json", root}, flags...)...)
		var got struct {
			Findings []struct {
				File, Rule, Severity, Message, Pointer string
				Line, Column, EndLine, EndColumn       int
			}
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%s exits with %d: %v: %.500s", command, code, err, out)
		}
		for _, f := range got.Findings {
			if all[f.File] == nil {
				all[f.File] = map[string]bool{}
			}
			all[f.File][fmt.Sprintf("%d:%d-%d:%d %s %s %s %s", f.Line, f.Column, f.EndLine, f.EndColumn, f.Pointer, f.Severity, f.Rule, f.Message)] = true
		}
	}
	sorted := map[string][]string{}
	for file, found := range all {
		sorted[file] = slices.Sorted(maps.Keys(found))
	}
	return sorted
}

// asText returns findings in the form of commandFindings.
func asText(findings []report.Finding) (all []string) {
	for _, f := range findings {
		at := f.Location()
		all = append(all, fmt.Sprintf("%d:%d-%d:%d %s %s %s %s", at.Line, at.Column, at.EndLine, at.EndColumn, f.Pointer, f.Severity, f.Rule, f.Message))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// TestWorkspaceCorpus compares what a workspace finds in every fifth file of the corpus with what the
// commands report. All files are part of the workspace.
func TestWorkspaceCorpus(t *testing.T) {
	if testing.Short() {
		t.Skip("the corpus takes a while")
	}
	root := corpusDir(t)
	want := commandFindings(t, root)
	w := testWorkspace(root)
	if err := w.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	var open []string
	for i, file := range w.order {
		if i%5 == 0 {
			open = append(open, file)
		}
	}
	compareFindings(t, w, want, open)
}

// compareFindings compares what a workspace finds in files with what is wanted.
func compareFindings(t *testing.T, w *workspace, want map[string][]string, files []string) {
	t.Helper()
	different, total := 0, 0
	for batch := range slices.Chunk(files, 200) {
		got, err := w.findings(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range batch {
			have := asText(got[file].reported)
			total += len(have)
			if !slices.Equal(have, want[file]) {
				if different++; different < 5 {
					t.Errorf("%s: differs:\n%s", file, difference(want[file], have))
				}
			}
		}
	}
	t.Logf("%d findings in %d files, %d files differ", total, len(files), different)
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
