package explain_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"espalier.dev/analysis/explain"
	"espalier.dev/crd"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

var update = flag.Bool("update", false, "rewrite the expected results in testdata")

// TestText explains the fields that the comments of testdata/*.txtar name, one in each line after the
// version, and compares the whole texts. Options follow a comma: recursive, json, and the width.
func TestText(t *testing.T) {
	t.Parallel()
	testcase.GoldenArchives(t, "testdata/*.txtar", *update, func(t *testing.T, archive *txtar.Archive) {
		var got strings.Builder
		for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
			d := define(t, string(archive.Files[0].Data), sem)
			fmt.Fprintf(&got, "=== %s\n", sem)
			for line := range strings.Lines(string(archive.Comment)) {
				line = strings.TrimSpace(line)
				what, options, _ := strings.Cut(line, ", ")
				version, path, _ := strings.Cut(what, " ")
				if d.Version(version) == nil {
					continue
				}
				fmt.Fprintf(&got, "== %s\n", line)
				got.WriteString(explained(d.Version(version), path, strings.Fields(options)))
			}
		}
		testcase.SetSection(archive, "text", got.String())
	})
}

// explained returns the text about a field.
func explained(v *crd.Version, path string, options []string) string {
	recursive := slices.Contains(options, "recursive")
	doc, err := explain.Describe(v, path, explain.Options{Recursive: recursive})
	if unknown := (*explain.UnknownFieldError)(nil); errors.As(err, &unknown) {
		return fmt.Sprintf("%v (%v)\n", err, unknown.Known)
	} else if err != nil {
		return err.Error() + "\n"
	}
	if slices.Contains(options, "json") {
		data, err := json.MarshalIndent(doc, "", "  ")
		if err != nil {
			return err.Error()
		}
		return string(data) + "\n"
	}
	o := explain.TextOptions{Recursive: recursive}
	for _, option := range options {
		fmt.Sscanf(option, "%d", &o.Width)
	}
	var b strings.Builder
	if err := doc.WriteText(&b, o); err != nil {
		return err.Error()
	}
	return b.String()
}
