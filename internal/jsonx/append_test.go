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
