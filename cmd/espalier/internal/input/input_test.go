package input

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
)

// read reads text as standard input and returns the objects and problems.
func read(t *testing.T, text string) (items []*Item, problems []string) {
	t.Helper()
	err := Read(context.Background(), strings.NewReader(text), Flags{Paths: []string{"-"}}, func(it *Item) error {
		items = append(items, it)
		return nil
	}, func(p Problem) { problems = append(problems, p.Error()) })
	if err != nil {
		t.Fatal(err)
	}
	return items, problems
}

// TestItems reads documents of all kinds.
func TestItems(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       []string
		problems   int
	}{
		{"YAML", "kind: A\nmetadata: {name: a, namespace: ns}\n---\nkind: B\nmetadata: {generateName: b-}\n", []string{"A ns/a ", "B b-* "}, 0},
		{"JSON, one after the other", "{\"kind\":\"A\"}\n{\"kind\":\"B\"}{\"kind\":\"C\"}", []string{"A ", "B ", "C "}, 0},
		{"list", "apiVersion: v1\nkind: List\nitems:\n- {kind: A}\n- {kind: B}\n", []string{"A /items/0", "B /items/1"}, 0},
		{"list of lists", "kind: List\nitems:\n- {kind: List, items: [{kind: A}]}\n", []string{"A /items/0/items/0"}, 0},
		{"empty list", "kind: List\nitems: []\n", nil, 0},
		{"list without items", "kind: List\n", nil, 0},
		{"typed list", "apiVersion: g/v1\nkind: AList\nitems:\n- metadata: {name: x}\n- {}\n", []string{"A x /items/0", "A /items/1"}, 0},
		{"kind that only sounds like a list", "kind: AllowList\nspec: {}\n", []string{"AllowList "}, 0},
		{"nothing", "# comment\n---\n---\n", nil, 1},
		{"no object", "- kind: A\n---\nkind: B\n", []string{"B "}, 1},
		{"bad item", "kind: List\nitems: [1, {kind: A}, null]\n", []string{"A /items/1"}, 1},
		{"kind that is no string", "kind: {a: 1}\n", []string{" "}, 0},
		{"bottomless lists", strings.Repeat(`{"kind":"List","items":[`, 40) + `{"kind":"A"}` + strings.Repeat("]}", 40), nil, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			items, problems := read(t, test.text)
			var got []string
			for _, it := range items {
				got = append(got, it.String()+" "+it.Base)
			}
			if !reflect.DeepEqual(got, test.want) || len(problems) != test.problems {
				t.Errorf("got %q and problems %q, want %q", got, problems, test.want)
			}
		})
	}
}

// TestTypedItem makes sure that items of a typed list inherit apiVersion and kind.
func TestTypedItem(t *testing.T) {
	t.Parallel()
	items, _ := read(t, "apiVersion: g/v1\nkind: AList\nitems:\n- metadata: {name: x}\n- {}\n")
	for i, want := range []string{`{"kind":"A","apiVersion":"g/v1","metadata":{"name":"x"}}`, `{"kind":"A","apiVersion":"g/v1"}`} {
		if got := string(items[i].JSON); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if items[0].APIVersion() != "g/v1" {
		t.Errorf("got %q", items[0].APIVersion())
	}
}

// TestPosition makes sure that positions of list items refer to the file.
func TestPosition(t *testing.T) {
	t.Parallel()
	items, _ := read(t, "kind: A\n---\nkind: List\nitems:\n- kind: B\n  spec: {x: 1}\n")
	if at := items[1].Position("/spec/x"); at.Value.Line != 6 || at.Value.Column != 13 || !at.Exact {
		t.Errorf("got %+v", at)
	}
}

// TestParallel makes sure that small files, large files and problems stay in order.
func TestParallel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var paths, want []string
	n := 0
	document := func() string {
		n++
		want = append(want, fmt.Sprint("K", n))
		return fmt.Sprintf("kind: K%d\n---\n", n)
	}
	add := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	for i := range 300 {
		add(fmt.Sprintf("%03d.yaml", i), document()+document())
	}
	large := strings.Builder{}
	for large.Len() < 2*smallFile {
		large.WriteString(document() + "# " + strings.Repeat("x", 1000) + "\n---\n")
	}
	add("large.yaml", large.String())
	paths = append(paths, filepath.Join(dir, "none.yaml"))
	want = append(want, "problem")
	add("last.yaml", document())
	var got []string
	err := Parallel(context.Background(), nil, Flags{Paths: paths}, func(d *Document) string {
		items, _ := d.Items()
		return items[0].Kind()
	}, func(kind string) error {
		got = append(got, kind)
		return nil
	}, func(Problem) { got = append(got, "problem") })
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %d results of %d, %v", len(got), len(want), err)
	}
	enough := errors.New("enough")
	for _, stop := range []int{1, 70, n} {
		seen := 0
		err := Parallel(context.Background(), nil, Flags{Paths: paths}, func(*Document) int { return 0 }, func(int) error {
			if seen++; seen == stop {
				return enough
			}
			return nil
		}, func(Problem) {})
		if !errors.Is(err, enough) {
			t.Errorf("stopped after %d: %v", stop, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Parallel(ctx, nil, Flags{Paths: paths}, func(*Document) int { return 0 }, func(int) error { return nil }, func(Problem) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("continues after the context is done: %v", err)
	}
}

// endless is an endless stream of documents.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return copy(p, "a: 1\n---\n"), nil }

// TestParallelStops cancels the context while reading an endless stream.
func TestParallelStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var worked atomic.Int32
	err := Parallel(ctx, endless{}, Flags{Paths: []string{"-"}}, func(*Document) int {
		worked.Add(1)
		cancel()
		return 0
	}, func(int) error { return nil }, func(Problem) {})
	if n := worked.Load(); n == 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("worked on %d documents: %v", n, err)
	}
}
