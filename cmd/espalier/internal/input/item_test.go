package input

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPlace reads objects again.
func TestPlace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	const one, two = "# first\nkind: A\napiVersion: v1\nmetadata: {name: one}\n", "kind: B\napiVersion: v1\nmetadata: {name: two}\n"
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list := "---\nkind: List\napiVersion: v1\nitems:\n- {kind: C, apiVersion: v1}\n"
	// A file above and one below the size that is read at once.
	for _, padding := range []string{"", "---\nkind: Z\napiVersion: v1\ntext: " + strings.Repeat("z", smallFile) + "\n"} {
		text := one + "---\n: broken: [\n---\n" + two + list + padding
		write(text)
		var places []Place
		var kept []string
		visit := func(it *Item) error {
			if place, ok := it.Place(it.Sum()); ok && it.Kind() != "Z" {
				places = append(places, place)
			} else {
				kept = append(kept, it.Kind())
			}
			return nil
		}
		if err := Read(t.Context(), strings.NewReader("kind: S\napiVersion: v1"), Flags{Paths: []string{file, "-"}}, visit, func(Problem) {}); err != nil {
			t.Fatal(err)
		}
		if len(places) != 2 || strings.Trim(strings.Join(kept, ""), "Z") != "CS" && strings.Join(kept, "") != "CZS" {
			t.Fatalf("%d objects can be read again, but not %v", len(places), kept)
		}
		for i, want := range []string{"A one", "B two"} {
			it, err := places[i].Read()
			if err != nil {
				t.Fatal(err)
			}
			if it.String() != want || places[i].Identity() != it.Identity() || it.Position("/metadata/name").Value.Line == 0 {
				t.Errorf("read %s, want %s", it, want)
			}
		}
		line := func(p Place) int { return p.Missing().Doc.Line() }
		it, err := places[1].Read()
		if err != nil || line(places[1]) != it.Doc.Line() {
			t.Errorf("the missing object is in line %d: %v", line(places[1]), err)
		}
		for _, changed := range []string{"name: other}", "name: two, labels: {a: b}}"} {
			write(strings.Replace(text, "name: two}", changed, 1))
			if _, err := places[1].Read(); err == nil || !strings.Contains(err.Error(), "has changed since it was read") {
				t.Errorf("%s: another object is read without an error: %v", changed, err)
			}
		}
		write(one)
		if _, err := places[1].Read(); err == nil {
			t.Error("an object that is gone is read without an error")
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if _, err := places[0].Read(); err == nil || !strings.Contains(err.Error(), "again") {
			t.Errorf("a file that is gone is read without an error: %v", err)
		}
	}
}
