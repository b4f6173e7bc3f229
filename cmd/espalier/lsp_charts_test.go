package main

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"testing"

	"espalier.dev/cmd/espalier/internal/input"
)

// TestChartSettings renders a chart again with the flags of other settings, and with other values.
func TestChartSettings(t *testing.T) {
	t.Parallel()
	c := &workspaceCharts{changed: func() {}, log: func(string) {}, start: func(_ string, run func(context.Context)) { go run(t.Context()) }}
	rendered := make(chan string, 10)
	flags := func(name string) map[string]chartInput {
		return map[string]chartInput{"/chart": {outside: []string{"/values.yaml"}, flags: func(ctx context.Context) (input.Flags, *input.Buffers) {
			rendered <- name
			return input.Flags{Git: input.NewRepositories(ctx, "")}, &input.Buffers{}
		}}}
	}
	one, two := &checks{}, &checks{}
	c.keep(flags("one"), one)
	if got := <-rendered; got != "one" {
		t.Errorf("got %q", got)
	}
	c.keep(flags("the same"), one)
	c.keep(flags("two"), two)
	if got := <-rendered; got != "two" {
		t.Errorf("got %q", got)
	}
	c.touch("/values.yaml")
	<-rendered
}

// TestChartInputs finds what a chart needs outside of its directory.
func TestChartInputs(t *testing.T) {
	t.Parallel()
	var buffers input.Buffers
	root := t.TempDir()
	buffers.Set(filepath.Join(root, "app", "Chart.yaml"), []byte("name: app\ndependencies: [{name: a, repository: file://../lib}, {name: b, repository: https://example.com}]\n"))
	values := filepath.Join(root, "prod.yaml")
	if got := outsideOf("", filepath.Join(root, "app"), []string{values}, &buffers); !slices.Equal(got, []string{values, filepath.Join(root, "lib")}) {
		t.Errorf("got %q", got)
	}
	// A chart of apiVersion v1.
	buffers.Set(filepath.Join(root, "old", "Chart.yaml"), []byte("name: old\napiVersion: v1\n"))
	buffers.Set(filepath.Join(root, "old", "requirements.yaml"), []byte("dependencies: [{name: a, repository: file://../lib}]\n"))
	if got := outsideOf("", filepath.Join(root, "old"), nil, &buffers); !slices.Equal(got, []string{filepath.Join(root, "lib")}) {
		t.Errorf("got %q", got)
	}
}

// TestRenderedAfterCancel cancels the run that first sees rendered CRDs: the next one uses them, and one
// that sees the same CRDs compiles none.
func TestRenderedAfterCancel(t *testing.T) {
	t.Parallel()
	root := folder(t, map[string]string{"a.yaml": "", "chart/crd.yaml": widgetCRD, "chart/widget.yaml": widget})
	a := newApp(nil, io.Discard, io.Discard)
	w := newWorkspace(root, false, &input.Buffers{}, nil, func(ctx context.Context, w *workspace) (*checks, error) { return a.newChecks(ctx, w, nil) })
	w.charts = &workspaceCharts{}
	if err := w.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	render := func() (result *renderedChart, object *input.Item) {
		result = &renderedChart{buffers: &input.Buffers{}}
		flags := input.Flags{Paths: []string{filepath.Join(root, "chart")}, Git: input.NewRepositories(t.Context(), "")}
		err := input.Read(t.Context(), emptyInput{}, flags, func(it *input.Item) error {
			if isDefinition(it) {
				result.crds = append(result.crds, it)
			} else {
				object = it
			}
			return nil
		}, func(p input.Problem) { t.Error(p.Message) })
		if err != nil || object == nil || len(result.crds) != 1 {
			t.Fatalf("got %+v, %v", result, err)
		}
		return result, object
	}
	first, object := render()
	w.charts.known.Store(&renderedCharts{charts: []*renderedChart{first}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.refresh(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if err := w.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	found, err := w.definitions.Find(object)
	if err != nil {
		t.Fatal(err)
	}
	second, _ := render()
	second.reuse(first)
	w.charts.known.Store(&renderedCharts{charts: []*renderedChart{second}})
	generation := w.generation
	if err := w.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again, err := w.definitions.Find(object); again != found || err != nil || w.generation != generation {
		t.Errorf("got %p, %v in generation %d, want %p in %d", again, err, w.generation, found, generation)
	}
}
