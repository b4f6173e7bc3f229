package replay_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"espalier.dev/analysis/internal/analysistest"
	"espalier.dev/analysis/object"
	"espalier.dev/analysis/replay"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata")

// TestLogs replays the logs in testdata, and compares what is known of each request: why it is
// skipped, the judged object, the object before it, and the findings. A line of a log is a comment,
// or VERB NAME CODE and further fields of the event.
func TestLogs(t *testing.T) {
	t.Parallel()
	testcase.GoldenArchives(t, "testdata/*.txtar", *update, func(t *testing.T, archive *txtar.Archive) {
		testcase.SetSection(archive, "want", play(t, testcase.Section(archive, "crd.yaml"), testcase.Section(archive, "log")))
	})
}

// play replays a log, and describes the result.
func play(t *testing.T, definition, log string) string {
	t.Helper()
	d := analysistest.Define(t, definition, crd.Options{Semantics: schema.Kubernetes, Rules: cel.Checker{}})
	checker := object.New(d, object.Options{})
	var out strings.Builder
	var history replay.History
	for line := range strings.Lines(log) {
		out.WriteString(line)
		words := strings.SplitN(strings.TrimSpace(line), " ", 4)
		if words[0] == "" || words[0] == "#" {
			continue
		}
		more := ""
		if len(words) == 4 {
			more = "," + words[3]
		}
		event := fmt.Sprintf(`{"apiVersion":"audit.k8s.io/v1","kind":"Event","stage":"ResponseComplete","verb":%q,"requestURI":"/apis/example.com/v1/things",`+
			`"objectRef":{"resource":"things","apiGroup":"example.com","name":%q,"namespace":"n"},"responseStatus":{"code":%s}%s}`, words[0], strings.Trim(words[1], "-"), words[2], more)
		err := replay.Parse([]byte(event), func(r *replay.Request) {
			old, err := history.Old(r)
			if err != nil {
				fmt.Fprintf(&out, "\tthe object before it: %v\n", err)
			}
			if r.Skip != "" {
				fmt.Fprintf(&out, "\tskipped: %s\n", r.Skip)
			} else {
				what := "creates"
				if r.Update {
					what = "updates"
				}
				fmt.Fprintf(&out, "\t%s %s, fields %v\n", what, r.Object, r.Fields)
			}
			if old != nil {
				text, err := json.Marshal(old)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&out, "\tbefore: %s\n", text)
			}
			if r.Skip == "" {
				for _, f := range replay.Judge(t.Context(), checker, r, old) {
					fmt.Fprintf(&out, "\t%s %s %s%s: %s\n", f.Severity, f.Rule, f.Path, f.Pointer, f.Message)
					for _, detail := range f.Detail {
						fmt.Fprintf(&out, "\t\t%s\n", detail)
					}
				}
			}
			history.Add(r)
		})
		if err != nil {
			fmt.Fprintf(&out, "\t%v\n", err)
		}
	}
	return out.String()
}
