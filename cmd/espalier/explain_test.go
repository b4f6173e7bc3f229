package main

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/internal/testcase"
)

// TestExplainCorpus explains all fields of resources of the corpus.
func TestExplainCorpus(t *testing.T) {
	if testing.Short() {
		t.Skip("the corpus takes a while")
	}
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(corpusDir(t), "v1*", "*", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	files = testcase.Part(files)
	for _, file := range files {
		var stderr strings.Builder
		a := newApp(strings.NewReader(""), io.Discard, &stderr)
		resource := strings.TrimSuffix(filepath.Base(file), ".yaml")
		if code := a.run(context.Background(), []string{"explain", "--crd", file, resource, "--recursive"}); code != report.Clean {
			t.Errorf("%s: exit code %d: %s", file, code, stderr.String())
		}
	}
	t.Logf("%d CRDs", len(files))
}
