package sample_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"espalier.dev/analysis/explain/sample"
	"espalier.dev/crd"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

var update = flag.Bool("update", false, "rewrite the expected results in testdata")

// TestGolden generates samples for the schemas in testdata, one in each line: those of a spec in samples.txt, those
// of whole objects in roots.txt. It expects the results there: the minimal and the full sample, and those in the
// kubernetes semantics if they differ.
func TestGolden(t *testing.T) {
	t.Parallel()
	for file, generated := range map[string]func(line string, sem schema.Semantics) (*crd.Version, func(schema.Object) any){
		"testdata/samples.txt": func(line string, sem schema.Semantics) (*crd.Version, func(schema.Object) any) {
			return versionOf(t, line, sem), func(obj schema.Object) any { return obj["spec"] }
		},
		"testdata/roots.txt": func(line string, sem schema.Semantics) (*crd.Version, func(schema.Object) any) {
			return rootOf(t, line, sem), func(obj schema.Object) any { return obj }
		},
	} {
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
				v, part := generated(strings.TrimSpace(line), sem)
				results[sem] = both(t, v, part)
			}
			got.WriteString(results[schema.KEP])
			if results[schema.Kubernetes] != results[schema.KEP] {
				got.WriteString("> in kubernetes:\n" + results[schema.Kubernetes])
			}
			got.WriteString("\n")
		}
		testcase.Golden(t, file, got.String(), *update)
	}
}

// both returns a part of the minimal and the full sample, and their violations.
func both(t *testing.T, v *crd.Version, part func(schema.Object) any) string {
	t.Helper()
	var b strings.Builder
	for _, size := range []sample.Size{sample.Minimal, sample.Full} {
		s, err := sample.New(t.Context(), v, size)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(part(s.Object))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "> %s: %s\n", size, text)
		for _, e := range s.Violations.FieldErrors() {
			fmt.Fprintf(&b, ">   %v\n", e)
		}
		if s.Problem != nil {
			fmt.Fprintf(&b, ">   %v\n", s.Problem)
		}
		if s.Valid() != (len(s.Violations) == 0 && s.Problem == nil) {
			t.Errorf("the sample %s is valid: %t", text, s.Valid())
		}
	}
	return b.String()
}
