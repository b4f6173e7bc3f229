package input

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
)

// TestAhead looks ahead at every object of an input, while it is read with and without
// concurrency. Both must see all documents, in order.
func TestAhead(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	definition := func(name string) string {
		return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " + name + "}\n"
	}
	write(t, dir, map[string]string{
		"first.yaml": "kind: A\n---\n" + definition("first"),
		"last.yaml":  "kind: Z\n---\n" + definition("last"),
		"large.yaml": "kind: L\n---\n" + definition("large") + "---\n# " + strings.Repeat("x", 2*smallFile) + "\n---\nkind: M\n",
	})
	small := "kind: B\n---\n" + definition("one") + "---\nkind: C\n---\n" + definition("two") + "---\nbroken: [\n---\nkind: D\n"
	large := small + strings.Repeat("---\nkind: E\n"+"# "+strings.Repeat("y", 1000)+"\n", 5000) + "---\n" + definition("end") + "---\nkind: F\n"
	for _, text := range []string{small, large} {
		flags := Flags{Paths: []string{"first.yaml", "-", "large.yaml", "last.yaml"}, Git: in(t, dir)}
		var plain []string
		see := func(into *[]string) func(*Item) error {
			return func(it *Item) error {
				*into = append(*into, fmt.Sprint(it.File, it.Doc.Line(), it))
				return nil
			}
		}
		problems := 0
		problem := func(Problem) { problems++ }
		if err := Read(t.Context(), strings.NewReader(text), flags, see(&plain), problem); err != nil || problems != 1 {
			t.Fatalf("%v, %d problems", err, problems)
		}
		definitions := slices.DeleteFunc(slices.Clone(plain), func(s string) bool { return !strings.Contains(s, "CRD ") })
		for n := 1; n <= min(len(plain), 12); n++ {
			var ahead Ahead
			stdin := iotest.OneByteReader(strings.NewReader(text))
			if len(text) > len(small) {
				stdin = strings.NewReader(text)
			}
			var got, found []string
			visit := see(&got)
			err := Read(t.Context(), stdin, ahead.Input(flags), func(it *Item) error {
				if err := visit(it); err != nil || len(got) != n {
					return err
				}
				err := Read(t.Context(), stdin, ahead.Definitions(flags), see(&found), func(Problem) {})
				// The spool must not outlive a process that is killed. Windows cannot remove open files.
				if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 && runtime.GOOS != "windows" {
					t.Errorf("%s can be left", left[0])
				}
				return err
			}, func(Problem) {})
			if err != nil || !slices.Equal(got, plain) || !slices.Equal(found, definitions) {
				t.Errorf("at object %d: %v, got %d objects of %d and CRDs %q", n, err, len(got), len(plain), found)
			}
			if err := ahead.Close(); err != nil {
				t.Error(err)
			}
		}
		var ahead Ahead
		stdin := strings.NewReader(text)
		look := sync.OnceValue(func() (found []string) {
			if err := Read(t.Context(), stdin, ahead.Definitions(flags), see(&found), func(Problem) {}); err != nil {
				t.Error(err)
			}
			return found
		})
		var got []string
		err := Parallel(t.Context(), stdin, ahead.Input(flags), func(d *Document) []*Item {
			if found := look(); !slices.Equal(found, definitions) {
				t.Errorf("got %q", found)
			}
			items, _ := d.Items()
			return items
		}, func(items []*Item) error {
			for _, it := range items {
				_ = see(&got)(it)
			}
			return nil
		}, func(Problem) {})
		if err != nil || !slices.Equal(got, plain) {
			t.Errorf("%v, got %d objects of %d", err, len(got), len(plain))
		}
		if err := ahead.Close(); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("%d files are left, %v", len(left), err)
	}
}

// TestAheadFails looks ahead in a stream that fails, and in one that is interrupted.
func TestAheadFails(t *testing.T) {
	t.Parallel()
	for _, failed := range []error{errors.New("broken pipe"), context.Canceled} {
		var ahead Ahead
		flags := Flags{Paths: []string{"-"}}
		stdin := io.MultiReader(strings.NewReader("kind: A\n---\nkind: B\n---\nkind: C\n"), iotest.ErrReader(failed))
		var kinds, problems []string
		err := Read(t.Context(), stdin, ahead.Input(flags), func(it *Item) error {
			kinds = append(kinds, it.Kind())
			return Read(t.Context(), stdin, ahead.Definitions(flags), nil, func(Problem) {})
		}, func(p Problem) { problems = append(problems, p.Error()) })
		if err != nil || strings.Join(kinds, "") != "AB" || len(problems) != 1 || !strings.Contains(problems[0], failed.Error()) {
			t.Errorf("got %v, %q, %q", err, kinds, problems)
		}
	}
}
