package yamledit

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"espalier.dev/internal/yamlx"
	"espalier.dev/internal/yamlx/yamltest"
)

// FuzzEdit applies random edits. Apply itself checks the resulting values.
func FuzzEdit(f *testing.F) {
	for i, s := range yamltest.Seeds() {
		f.Add([]byte(s), uint64(i), "text")
	}
	f.Fuzz(func(t *testing.T, src []byte, seed uint64, text string) {
		d, err := yamlx.Parse(src)
		if err != nil || !utf8.ValidString(text) {
			return
		}
		rnd := rand.New(rand.NewPCG(seed, 0))
		all := append(pointers(t, d), "/new", "/new/-/x", "/-")
		pick := func() string { return all[rnd.IntN(len(all))] }
		values := []any{text, seed, nil, map[string]any{text: []any{text, map[string]any{"a": text, "b": []any{1}}}}, []any{}, []any{text, []any{text}}, true, 1.5}
		var edits []Edit
		for range 1 + rnd.IntN(2) {
			e := Edit{Op: []Op{Set, Remove, Rename, Move, Copy}[rnd.IntN(5)], Pointer: pick(), Value: values[rnd.IntN(len(values))]}
			switch e.Op {
			case Rename:
				e.To = text
			case Move, Copy:
				e.To = pick() + []string{"", "/-", "/x"}[rnd.IntN(3)]
			}
			edits = append(edits, e)
		}
		got, err := Apply(d, edits...)
		if err != nil {
			if strings.Contains(err.Error(), "the result") && !tolerated(err) && !bytes.ContainsAny(src, "&*!") {
				t.Errorf("%q: %+v: %v", src, edits, err)
			}
			return
		}
		if _, err := yamlx.Parse(got); err != nil {
			t.Fatalf("%q: %+v: %q: %v", src, edits, got, err)
		}
	})
}
