package input

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTransient reads objects whose memory is used again: each must be right while its work runs, and
// what may be kept must stay right.
func TestTransient(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	count := 0
	object := func(size int) string {
		count++
		return fmt.Sprintf("apiVersion: v1\nkind: Note\nmetadata: {name: n%d}\ntext: %s\n", count, strings.Repeat(fmt.Sprint(count%10), size))
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 60 {
		write(fmt.Sprintf("a%02d.yaml", i), object(100_000))
	}
	for i := range 200 {
		base := fmt.Sprintf("b%03d", i)
		switch i % 5 {
		case 0:
			write(base+".yaml", object(10+i*100))
		case 1:
			count++
			write(base+".json", fmt.Sprintf(`{"apiVersion":"v1","kind":"Note","metadata":{"name":"n%d"},"text":%q}`, count, strings.Repeat("j", i*50)))
		case 2:
			write(base+".yaml", object(100)+"---\n"+object(50_000)+"---\n"+object(10))
		case 3:
			count += 2
			write(base+".yaml", fmt.Sprintf("apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Note, metadata: {name: n%d}, text: %s}\n- apiVersion: v1\n  kind: Note\n  metadata: {name: n%d}\n",
				count-1, strings.Repeat("l", i*10), count))
		case 4:
			write(base+".yaml", "# only a comment\n")
		}
	}
	write("c1.yaml", object(smallFile))
	write("c2.yaml", object(smallFile)+"---\n"+object(1000)+"---\n"+object(smallFile))
	write("c3.yaml", object(wholeFile))
	write("d.yaml", object(5))

	type read struct {
		item  *Item
		json  []byte
		place Place
		ok    bool
	}
	var want []string
	for _, transient := range []bool{false, true} {
		var items []read
		work := func(d *Document) (all []read) {
			found, problem := d.Items()
			if problem != nil {
				t.Error(problem.Error())
			}
			for _, it := range found {
				r := read{item: it, json: bytes.Clone(it.JSON)}
				r.place, r.ok = it.Place(it.Sum())
				all = append(all, r)
			}
			return all
		}
		emit := func(all []read) error {
			items = append(items, all...)
			return nil
		}
		if err := Parallel(t.Context(), nil, Flags{Paths: []string{dir}, Transient: transient}, work, emit, func(p Problem) { t.Error(p.Error()) }); err != nil {
			t.Fatal(err)
		}
		if len(items) != count {
			t.Fatalf("%d objects, want %d", len(items), count)
		}
		reused := 0
		for i, r := range items {
			switch {
			case !transient:
				want = append(want, string(r.json))
			case string(r.json) != want[i]:
				t.Errorf("%s: got %.100s, want %.100s", r.item.File, r.json, want[i])
			}
			if !r.item.Transient() {
				if !bytes.Equal(r.item.JSON, r.json) {
					t.Errorf("%s: the text of an object that can be kept has changed", r.item.File)
				}
				continue
			}
			reused++
			if !r.ok {
				t.Errorf("%s: the text is not kept, but cannot be read again", r.item.File)
			} else if again, err := r.place.Read(); err != nil || !bytes.Equal(again.JSON, r.json) || again.Transient() {
				t.Errorf("%s: cannot be read again: %v", r.item.File, err)
			}
		}
		if !transient && reused > 0 || transient && (reused < count/4 || reused > 3*count/4) {
			t.Errorf("the memory of %d objects of %d is used again", reused, count)
		}
	}
}
