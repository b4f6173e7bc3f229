//go:build !js

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"espalier.dev/crd/cel"
	"espalier.dev/internal/testcase"
	kindscel "espalier.dev/kinds/cel"
	"espalier.dev/web/protocol"
)

// build compiles the engine to WebAssembly, unless ESPALIER_WASM names the file.
func build(t *testing.T) string {
	t.Helper()
	if file := os.Getenv("ESPALIER_WASM"); file != "" {
		return file
	}
	file := filepath.Join(t.TempDir(), "espalier.wasm")
	if out, err := exec.Command("./build.sh", file, filepath.Join("dist", "work-of-tests")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return file
}

// engine is the engine as WebAssembly, in Node.
type engine struct {
	in  io.WriteCloser
	out *bufio.Reader
}

// start starts the engine, or skips the test if there is no Node.
func start(t *testing.T) *engine {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("SKIPPED: no node: install Node.js to compare WebAssembly with the native engine")
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(node, "--stack-size=8192", "testdata/answer.js", filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm", "wasm_exec.js"), build(t))
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = c.Wait()
	})
	return &engine{in, bufio.NewReaderSize(out, 1<<20)}
}

// answer returns the answer of WebAssembly as JSON.
func (e *engine) answer(name string, request []byte) (string, error) {
	line, err := json.Marshal([]string{name, string(request)})
	if err != nil {
		return "", err
	}
	if _, err := e.in.Write(append(line, '\n')); err != nil {
		return "", err
	}
	text, err := e.out.ReadString('\n')
	return strings.TrimSuffix(text, "\n"), err
}

// TestCorpus asks the engine as WebAssembly and the native one about objects and CRDs of the corpus. All
// answers must be the same: stored objects, findings and verdicts, in both semantics.
func TestCorpus(t *testing.T) {
	if testing.Short() {
		t.Skip("the corpus takes a while")
	}
	dir := testcase.Corpus(t)
	index, err := os.ReadFile(filepath.Join(dir, "CR_INDEX.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	wasm := start(t)
	native := protocol.New(protocol.Options{Rules: cel.Checker{}, CEL: kindscel.New()})
	counts := map[string]int{}
	compare := func(t *testing.T, where, name string, request any) {
		t.Helper()
		text, err := json.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		// Both work at the same time.
		want := make(chan []byte, 1)
		go func() {
			answer, err := json.Marshal(native.Answer(context.Background(), name, text))
			if err != nil {
				answer = []byte(err.Error())
			}
			want <- answer
		}()
		got, err := wasm.answer(name, text)
		if err != nil {
			t.Fatalf("%s: %s: %v", where, name, err)
		}
		got = withoutNow(got)
		if want := withoutNow(string(<-want)); got != want {
			t.Errorf("%s: %s differs: %s", where, name, firstDifference(got, want))
		}
		counts[name]++
		if strings.HasPrefix(got, `{"error"`) {
			counts["errors"]++
		}
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	// A test for each project: they can be run one after the other, and take a while.
	projects := map[string][][]string{}
	for i, line := range testcase.Part(strings.Split(strings.TrimSpace(string(index)), "\n")[1:]) {
		if i%20 != 0 && !testcase.WholeCorpus() {
			continue // WebAssembly is slow
		}
		fields := strings.Split(line, "\t")
		project := strings.Split(fields[0], "/")[1]
		projects[project] = append(projects[project], fields)
	}
	// Both engines keep the CRDs that they used last.
	for _, all := range projects {
		slices.SortStableFunc(all, func(a, b []string) int { return strings.Compare(a[1], b[1]) })
	}
	for _, project := range slices.Sorted(maps.Keys(projects)) {
		t.Run(project, func(t *testing.T) {
			before := ""
			for _, fields := range projects[project] {
				crds, object := read(fields[1]), read(fields[0])
				compare(t, fields[0], "check", protocol.CheckRequest{CRDs: crds, Objects: object, Both: true})
				if crds == before {
					continue
				}
				compare(t, fields[1], "lint", protocol.LintRequest{CRDs: crds})
				compare(t, fields[1], "rules", protocol.VersionRequest{CRDs: crds})
				if before != "" {
					compare(t, fields[1], "compare", protocol.CompareRequest{Old: before, New: crds, Objects: object})
				}
				before = crds
			}
		})
	}
	t.Run("Kubernetes' own kinds", func(t *testing.T) {
		for where, objects := range ownKinds(t) {
			compare(t, where, "check", protocol.CheckRequest{Objects: objects})
		}
	})
	if counts["check"] == 0 || 2*counts["errors"] > counts["check"] {
		t.Errorf("only %d answers, %d errors", counts["check"], counts["errors"])
	}
	t.Logf("%v answers compared", counts)
}

// instant is a time in an answer.
var instant = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// withoutNow replaces the current time, which is the default of some fields: both engines need it a moment apart.
func withoutNow(answer string) string {
	return instant.ReplaceAllStringFunc(answer, func(text string) string {
		if at, err := time.Parse(time.RFC3339, text); err == nil && time.Since(at).Abs() < time.Hour {
			return "now"
		}
		return text
	})
}

// scalar is a line of a manifest with a value.
var scalar = regexp.MustCompile(`(?m)^( *(?:- )?[\w./-]+: )[^|>{\[\n].*$`)

// ownKinds returns manifests of Kubernetes' own kinds. In each, some values are wrong: messages print Go
// values, of which the WebAssembly lacks the generated methods.
func ownKinds(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "test", "oracle", "builtin", "seeds", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	all := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[file] = string(text)
		for first := range 6 {
			i := 0
			all[fmt.Sprintf("%s with wrong values %d", file, first)] = scalar.ReplaceAllStringFunc(string(text), func(line string) string {
				value := []string{"-7", `"A b!"`, "{a: -1}", "[x, x]", `""`}[i%5]
				i++
				if (i+first)%6 != 0 || strings.Contains(line, "kind: ") || strings.Contains(line, "apiVersion: ") {
					return line
				}
				return scalar.FindStringSubmatch(line)[1] + value
			})
		}
	}
	return all
}

// firstDifference returns where two texts differ.
func firstDifference(got, want string) string {
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	from := max(0, i-100)
	return fmt.Sprintf("got …%s…, want …%s…", got[from:min(len(got), i+200)], want[from:min(len(want), i+200)])
}

// TestSmall checks that the engine that a page starts with compiles, and that it is small: it has neither CEL nor
// the types of Kubernetes' own kinds.
func TestSmall(t *testing.T) {
	run := func(args ...string) []byte {
		t.Helper()
		c := exec.Command("go", append(args, "-tags", "small,grpcnotrace", ".")...)
		c.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "GOFLAGS=")
		var stderr strings.Builder
		c.Stderr = &stderr
		out, err := c.Output()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
		}
		return out
	}
	// The test is compiled without the files of the small engine: go test repeats it after a change of them only if it reads them.
	if _, err := os.ReadDir("."); err != nil {
		t.Fatal(err)
	}
	out := run("list", "-deps")
	if !testing.Short() { // minutes of CPU time if nothing is compiled yet
		run("build", "-o", os.DevNull)
	}
	for _, path := range strings.Fields(string(out)) {
		for _, large := range []string{"k8s.io/api/", "k8s.io/apiserver/", "k8s.io/client-go/", "github.com/google/cel-go/", "google.golang.org/protobuf/reflect/protodesc"} {
			if strings.HasPrefix(path+"/", large) {
				t.Errorf("it depends on %s", path)
			}
		}
	}
}
