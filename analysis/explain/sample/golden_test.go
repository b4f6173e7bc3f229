package sample_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"espalier.dev/analysis/explain/sample"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

var update = flag.Bool("update", false, "rewrite the expected results in testdata")

// TestGolden generates samples for the schemas of a spec in testdata/samples.txt, one in each line, and
// expects the results there: the minimal and the full one, and those in the kubernetes semantics if they
// differ.
func TestGolden(t *testing.T) {
	t.Parallel()
	const file = "testdata/samples.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		got.WriteString(line)
		results := map[schema.Semantics]string{}
		for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
			v := versionOf(t, strings.TrimSpace(line), sem)
			for _, size := range []sample.Size{sample.Minimal, sample.Full} {
				s, err := sample.New(t.Context(), v, size)
				if err != nil {
					t.Fatalf("%v in %s", err, line)
				}
				spec, err := json.Marshal(s.Object["spec"])
				if err != nil {
					t.Fatal(err)
				}
				results[sem] += fmt.Sprintf("> %s: %s\n", size, spec)
				for _, e := range s.Violations.FieldErrors() {
					results[sem] += fmt.Sprintf(">   %v\n", e)
				}
				if s.Problem != nil {
					results[sem] += fmt.Sprintf(">   %v\n", s.Problem)
				}
			}
		}
		got.WriteString(results[schema.KEP])
		if results[schema.Kubernetes] != results[schema.KEP] {
			got.WriteString("> in kubernetes:\n" + results[schema.Kubernetes])
		}
		got.WriteString("\n")
	}
	testcase.Golden(t, file, got.String(), *update)
}
