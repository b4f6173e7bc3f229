package jsonx

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

// sameText compares Append with encoding/json on one value.
func sameText(t *testing.T, v any) {
	t.Helper()
	want, wantErr := json.Marshal(v)
	got, err := Append([]byte("before"), v)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%#v: error %v, want %v", v, err, wantErr)
	}
	if err == nil && string(got) != "before"+string(want) {
		t.Fatalf("%#v:\ngot  %s\nwant before%s", v, got, want)
	}
	text, canonical, err := AppendCanonical([]byte("before"), v)
	if string(text) != string(got) || (err == nil) != (wantErr == nil) || canonical && (err != nil || !IsCanonical(want)) {
		t.Fatalf("%#v: got %s, canonical %t, %v", v, text, canonical, err)
	}
}

func TestAppend(t *testing.T) {
	for _, v := range []any{
		nil, true, false, "", "a", int64(0), int64(-1), int64(math.MaxInt64), int64(math.MinInt64), 5, uint8(3), json.Number("12"), []string{"x"},
		map[string]any(nil), []any(nil), map[string]any{}, []any{}, map[string]any{"b": int64(1), "a": []any{nil, map[string]any{"z": "z", "y": 1.5}}, "": "", "<": "&"},
		0.0, math.Copysign(0, -1), 1.0, -1.5, 1e20, 1e21, 123456789012345678901234.0, 1e-6, 9.9e-7, 1e-9, 5e-324, math.MaxFloat64, math.Inf(1), math.NaN(),
		map[string]any{"a": math.NaN()}, []any{math.Inf(-1)}, func() {},
		"\u2028\u2029\u2027", "\xff", "a\xc3\x28b", "\xed\xa0\x80", "\ufffd", "é😀", "<script>&amp;</script>", strings.Repeat("é\n", 100),
	} {
		sameText(t, v)
	}
	for c := range 0x300 {
		sameText(t, string(rune(c)))
	}
	for _, text := range texts {
		if v, err := Parse([]byte(text)); err == nil {
			sameText(t, v)
		}
	}
}

// TestAppendCanonical checks which texts are known to be canonical.
func TestAppendCanonical(t *testing.T) {
	deep := func(n int) (v any) {
		for range n {
			v = []any{v}
		}
		return map[string]any{"a": v}
	}
	for _, test := range []struct {
		v    any
		want bool
	}{
		{nil, true}, {true, true}, {"<é\u2028", true}, {int64(math.MinInt64), true}, {1.5, true}, {1e20, true}, {1e21, true}, {[]any{}, true}, {map[string]any(nil), true},
		{map[string]any{"b": []any{int64(1), "x"}, "a": map[string]any{"": nil}}, true}, {deep(MaxDepth - 1), true},
		{deep(MaxDepth), false}, {"a\xff", false}, {map[string]any{"\xff": nil}, false}, {math.Copysign(0, -1), false}, {json.Number("1.0"), false}, {[]any{json.Number("1")}, false},
		{math.NaN(), false}, {[]any{"\xff", "a"}, false},
	} {
		if _, canonical, _ := AppendCanonical(nil, test.v); canonical != test.want {
			text, _ := Append(nil, test.v)
			t.Errorf("%.100s: got %t, want %t", text, canonical, test.want)
		}
	}
}

func FuzzAppend(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if v, err := Parse(text); err == nil {
			sameText(t, v)
		}
		sameText(t, string(text))
	})
}
