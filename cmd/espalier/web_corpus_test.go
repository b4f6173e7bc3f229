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
	request, err := json.Marshal(map[string]any{"crds": texts[0], "objects": texts[1], "semantics": semantics})
	if err != nil {
		t.Fatal(err)
	}
	response := e.Answer(context.Background(), "check", request)
	if response.Error != nil {
		t.Errorf("%s: %s", object, response.Error.Message)
		return true
	}
	answer := response.Answer.(*protocol.CheckAnswer)
	var got []string
	var stored []map[string]any
	for _, o := range answer.Objects {
		for _, f := range o.Findings {
			got = append(got, fmt.Sprintln(f.Range.Line, f.Rule, f.Severity, f.Path, f.Message))
		}
		if o.Stored != "" {
			var obj map[string]any
			if err := yaml.Unmarshal([]byte(o.Stored), &obj); err != nil {
				t.Errorf("%s: %v", object, err)
			}
			stored = append(stored, obj)
		}
	}
	out, code := runApp(t, "validate", "--semantics", semantics, "-o", "json", "--no-config", "--crd", crd, "-f", object)
	var report struct {
		Findings []struct {
			Rule, Severity, Path, Message string
			Line                          int
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || code > 1 {
		t.Fatalf("%s: exits with %d: %v: %.300s", object, code, err, out)
	}
	var want []string
	for _, f := range report.Findings {
		// The page has no flags.
		message := strings.Replace(f.Message, lookup.AddCRD, "add it to the CRDs", 1)
		want = append(want, fmt.Sprintln(f.Line, f.Rule, f.Severity, f.Path, message))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s (%s): the page finds\n%svalidate finds\n%s", object, semantics, strings.Join(got, ""), strings.Join(want, ""))
	}
	var printed bytes.Buffer
	a := &app{program: "espalier", stdin: strings.NewReader(""), stdout: &printed, stderr: io.Discard,
		environ: func(string) (string, bool) { return "", false }}
	code = a.run(context.Background(), []string{"prune", "--stored", "--semantics", semantics, "-o", "yaml", "--no-config", "--crd", crd, "-f", object})
	if out = printed.String(); code != 0 {
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
