package custom

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"espalier.dev/internal/jsonx"
)

// randomValue returns a JSON value with few different names.
func randomValue(r *rand.Rand, depth int) any {
	switch n := r.IntN(8); {
	case n < 3 && depth > 0:
		m := map[string]any{}
		for range r.IntN(4) {
			m[string(rune('a'+r.IntN(3)))] = randomValue(r, depth-1)
		}
		return m
	case n == 3 && depth > 0:
		list := []any{}
		for range r.IntN(3) {
			list = append(list, randomValue(r, depth-1))
		}
		return list
	case n == 4:
		return nil
	}
	return int64(r.IntN(3))
}

// TestMergePatch compares merge patches with the library of kube-apiserver.
func TestMergePatch(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		doc, err := jsonx.Append(nil, map[string]any{"a": randomValue(r, 3), "b": randomValue(r, 3)})
		if err != nil {
			t.Fatal(err)
		}
		patch, err := jsonx.Append(nil, randomValue(r, 4))
		if err != nil {
			t.Fatal(err)
		}
		got, err := mergePatch(doc, patch)
		want, wantErr := jsonpatch.MergePatch(doc, patch)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%s with %s: got error %v, want %v", doc, patch, err, wantErr)
		}
		if err != nil {
			continue
		}
		x, err := jsonx.Parse(got)
		if err != nil {
			t.Fatal(err)
		}
		y, err := jsonx.Parse(want)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(x, y) {
			t.Fatalf("%s with %s: got %s, want %s", doc, patch, got, want)
		}
	}
}

// TestMergePatchDeep checks that a large value that is nested deeply is copied a few times, not
// once for each level.
func TestMergePatchDeep(t *testing.T) { //nolint:paralleltest // counts allocations
	const levels, size = 2000, 100_000
	patch := []byte(strings.Repeat(`{"a":`, levels) + `"` + strings.Repeat("x", size) + `"` + strings.Repeat("}", levels))
	result := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			if out, err := mergePatch([]byte(`{}`), patch); err != nil || !bytes.Contains(out, []byte("xxx")) {
				b.Fatal(err)
			}
		}
	})
	if got := result.AllocedBytesPerOp(); got > 50*size {
		t.Errorf("%d bytes were allocated for a patch of %d", got, len(patch))
	}
}
