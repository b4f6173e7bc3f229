package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/analysis/lookup"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/testcase"
	kindscel "espalier.dev/kinds/cel"
	"espalier.dev/web/protocol"
)

// TestWebCorpus asks the web page's protocol about objects of the corpus. The answers have the
// findings of validate and the objects of prune --stored.
func TestWebCorpus(t *testing.T) {
	if testing.Short() {
		t.Skip("the corpus takes a while")
	}
	t.Parallel()
	dir := corpusDir(t)
	index, err := os.ReadFile(filepath.Join(dir, "CR_INDEX.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	e := protocol.New(protocol.Options{Rules: cel.Checker{}, CEL: kindscel.New()})
	compared := 0
	for _, line := range testcase.Part(strings.Split(strings.TrimSpace(string(index)), "\n")[1:]) {
		fields := strings.Split(line, "\t")
		object, crd := filepath.Join(dir, fields[0]), filepath.Join(dir, fields[1])
		for _, semantics := range []string{"kep", "kubernetes"} {
			if compareWithPage(t, e, crd, object, semantics) {
				compared++
			}
		}
		if t.Failed() {
			return
		}
	}
	if compared < 100 {
		t.Errorf("only %d objects were compared", compared)
	}
	t.Logf("%d answers compared", compared)
}

// TestWebCorpusCRDs compares the findings of the web page about the CRDs of the corpus with those of lint, and its
// verdicts on a change with those of diff.
func TestWebCorpusCRDs(t *testing.T) {
	if testing.Short() {
		t.Skip("the corpus takes a while")
	}
	t.Parallel()
	dir := corpusDir(t)
	var files []string
	for _, pattern := range []string{"v1/*.yaml", "v1/*/*.yaml", "v1beta1/*.yaml", "v1beta1/*/*.yaml"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	e := protocol.New(protocol.Options{Rules: cel.Checker{}, CEL: kindscel.New()})
	compared := 0
	for _, file := range testcase.Part(files) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > protocol.MaxText {
			continue
		}
		changed := filepath.Join(t.TempDir(), filepath.Base(file))
		if err := os.WriteFile(changed, bytes.Replace(text, []byte("type: string"), []byte("type: integer"), 3), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, semantics := range []string{"kep", "kubernetes"} {
			asked := map[string]any{"crds": string(text), "semantics": semantics}
			pageSays(t, e, "lint", asked, "lint", "--semantics", semantics, "-o", "json", "--no-config", "-f", file)
			now, err := os.ReadFile(changed)
			if err != nil {
				t.Fatal(err)
			}
			asked = map[string]any{"old": string(text), "new": string(now), "semantics": semantics}
			pageSays(t, e, "compare", asked, "diff", "--semantics", semantics, "-o", "json", "--no-config", file, changed)
			compared += 2
		}
		if t.Failed() {
			return
		}
	}
	if compared < 100 {
		t.Errorf("only %d answers were compared", compared)
	}
	t.Logf("%d answers compared", compared)
}

// pageSays compares the findings of an answer of the page with those that a command prints, and returns the answer.
func pageSays(t *testing.T, e *protocol.Engine, name string, asked map[string]any, args ...string) any {
	t.Helper()
	request, err := json.Marshal(asked)
	if err != nil {
		t.Fatal(err)
	}
	response := e.Answer(context.Background(), name, request)
	if response.Error != nil {
		t.Errorf("%v: %s", args, response.Error.Message)
		return nil
	}
	var got, want []string
	line := 0
	add := func(f protocol.Finding) {
		got = append(got, fmt.Sprintln(line, f.Rule, f.Severity, f.Path, f.Message))
	}
	more, lines := false, false
	switch a := response.Answer.(type) {
	case *protocol.CheckAnswer:
		lines = true
		for _, o := range a.Objects {
			for _, f := range o.Findings {
				line = f.Range.Line
				add(f)
			}
		}
	case *protocol.LintAnswer:
		more = a.More
		for _, f := range append(a.Problems, a.Findings...) {
			add(f)
		}
	case *protocol.CompareAnswer:
		more = a.More
		for _, f := range a.Problems {
			add(f)
		}
		for _, c := range a.Changes {
			add(c.Finding)
		}
	}
	out, code := runApp(t, args...)
	var report struct {
		Findings []struct {
			Rule, Severity, Path, Message string
			Line                          int
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || code > 1 {
		t.Fatalf("%v: exits with %d: %v: %.300s", args, code, err, out)
	}
	for _, f := range report.Findings {
		if !lines {
			f.Line = 0
		}
		// The page has no flags.
		want = append(want, fmt.Sprintln(f.Line, f.Rule, f.Severity, f.Path, strings.Replace(f.Message, lookup.AddCRD, "add it to the CRDs", 1)))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) && !more {
		t.Errorf("%v: the page says\n%sthe command says\n%s", args, strings.Join(got, ""), strings.Join(want, ""))
	}
	return response.Answer
}

// compareWithPage compares the answers about a file. It reports false if the page does not accept its
// size.
func compareWithPage(t *testing.T, e *protocol.Engine, crd, object, semantics string) bool {
	t.Helper()
	var texts [2]string
	for i, file := range []string{crd, object} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if texts[i] = string(text); len(text) > protocol.MaxText {
			return false
		}
	}
	answer, _ := pageSays(t, e, "check", map[string]any{"crds": texts[0], "objects": texts[1], "semantics": semantics},
		"validate", "--semantics", semantics, "-o", "json", "--no-config", "--crd", crd, "-f", object).(*protocol.CheckAnswer)
	if answer == nil {
		return true
	}
	var stored []map[string]any
	for _, o := range answer.Objects {
		if o.Stored != "" {
			var obj map[string]any
			if err := yaml.Unmarshal([]byte(o.Stored), &obj); err != nil {
				t.Errorf("%s: %v", object, err)
			}
			stored = append(stored, obj)
		}
	}
	var printed bytes.Buffer
	a := newApp(strings.NewReader(""), &printed, io.Discard)
	code := a.run(context.Background(), []string{"prune", "--stored", "--semantics", semantics, "-o", "yaml", "--no-config", "--crd", crd, "-f", object})
	out := printed.String()
	if code != 0 {
		if len(stored) > 0 {
			t.Errorf("%s (%s): the page has a stored form, prune exits with %d: %.300s", object, semantics, code, out)
		}
		return true
	}
	for i, text := range strings.Split(out, "\n---\n") {
		var want map[string]any
		if err := yaml.Unmarshal([]byte(text), &want); err != nil || i >= len(stored) {
			t.Errorf("%s (%s): prune prints %.300s", object, semantics, out)
			break
		}
		// The page shows what a request of a client stores, which leaves the status out.
		for _, obj := range []map[string]any{want, stored[i]} {
			delete(obj, "status")
		}
		if !reflect.DeepEqual(stored[i], want) {
			t.Errorf("%s (%s): the page stores\n%v\nprune stores\n%v", object, semantics, stored[i], want)
		}
	}
	return true
}
