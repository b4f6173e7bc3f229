package jsonx

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	kjson "sigs.k8s.io/json"
)

var texts = []string{
	``, ` `, `{}`, `[]`, ` { } `, `null`, `true`, `false`, `nul`, `truex`, `tru`, `"a"`, `"`, `"\`, `"\u12"`, `"\x"`, "\"\x01\"", "\"\x7f\"",
	`0`, `-0`, `01`, `-`, `-a`, `1.`, `.5`, `1.5`, `1.50`, `1e5`, `1E+5`, `1e`, `1e+`, `1e999`, `-1e999`, `1e-999`, `9223372036854775807`, `9223372036854775808`,
	`-9223372036854775808`, `-9223372036854775809`, `123456789012345678`, `1234567890123456789`, `0.1e1`, `1.0`, `-0.0`, `1e0`,
	`{"a":1,"a":2}`, `{"a":1,}`, `{,}`, `[1,]`, `[,]`, `[1 2]`, `{"a" 1}`, `{"a":}`, `{1:2}`, `{"a":1}x`, `[1]]`, `{"a":[{"b":[]}]}`,
	`"\ud83d\ude00"`, `"\ud83d"`, `"\ude00"`, `"\ud83dx"`, `"\ud83d\u0041"`, `"\u0000"`, `"\"\\\/\b\f\n\r\t"`, "\"\xff\"", "\"a\xc3\x28b\"", "\"\xed\xa0\x80\"",
	`"é"`, `"é\n"`, "\"\xff\\n\"", `{"\u0061":1,"a":2}`, "\ufeff{}", "{\"a\"\t:\r\n1}", `[null,true,"x",1,1.5,{}]`, strings.Repeat("[", 10000) + strings.Repeat("]", 10000),
	strings.Repeat("[", 10001) + strings.Repeat("]", 10001), strings.Repeat(`{"a":`, 10001) + "1" + strings.Repeat("}", 10001), strings.Repeat("[", 100),
	strings.Repeat("9", 400), "1" + strings.Repeat("0", 308), `[1e400]`, `{"x":1e400}`,
}

// agree compares the reader with Kubernetes' decoder on one text.
func agree(t *testing.T, text []byte) {
	t.Helper()
	var want any
	wantErr := kjson.UnmarshalCaseSensitivePreserveInts(text, &want)
	got, err := Parse(text)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%.100q: error %v, want %v", text, err, wantErr)
	}
	if err != nil {
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || syntax.Offset > len(text) {
			t.Fatalf("%.100q: error without a place: %v", text, err)
		}
	} else if !equal(got, want) {
		t.Fatalf("%.100q: got %#v, want %#v", text, got, want)
	}
	var r, noting, building Reader
	for name, skip := range map[string]func() error{
		"Skip":       func() error { r.Reset(text); return errors.Join(r.Skip(), r.End()) },
		"SkipNoting": func() error { noting.Reset(text); return errors.Join(noting.SkipNoting(), noting.End()) },
	} {
		if skipErr := skip(); (skipErr == nil) != (wantErr == nil) {
			t.Fatalf("%.100q: %s gives %v, want %v", text, name, skipErr, wantErr)
		}
	}
	building.Reset(text)
	if _, err := building.Value(); err == nil && building.Duplicates != noting.Duplicates {
		t.Fatalf("%.100q: SkipNoting finds duplicates: %v, Value: %v", text, noting.Duplicates, building.Duplicates)
	}
}

// equal is reflect.DeepEqual, but distinguishes -0.0 from 0.0.
func equal(a, b any) bool {
	if x, ok := a.(float64); ok {
		y, ok := b.(float64)
		return ok && math.Float64bits(x) == math.Float64bits(y)
	}
	return reflect.DeepEqual(a, b)
}

func TestAgreesWithKubernetesDecoder(t *testing.T) {
	for _, text := range texts {
		agree(t, []byte(text))
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range texts {
		if len(text) < 1000 {
			f.Add([]byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) { agree(t, text) })
}

func TestDuplicates(t *testing.T) {
	var r Reader
	r.Reset([]byte(`{"a":1,"b":[{"c":1,"c":2}],"a":3}`))
	if _, err := r.Value(); err != nil || !r.Duplicates {
		t.Errorf("err %v, duplicates %v", err, r.Duplicates)
	}
	var got [][]Step
	for way := range Duplicates([]byte(`{"a":1,"b":[{"c":1,"c":2}],"a":3}`)) {
		got = append(got, slices.Clone(way))
	}
	want := [][]Step{{{Key: "b"}, {Index: 0, IsIndex: true}, {Key: "c"}}, {{Key: "a"}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestMembersAndItems(t *testing.T) {
	src := ` {"a": [1, {"b\u0063" : 1e999}], "d":null} `
	var r Reader
	r.Reset([]byte(src))
	var got []string
	var visit func(at string) error
	visit = func(at string) error {
		switch r.Peek() {
		case '{':
			return r.Members(func(name string) error {
				start, end := r.Name()
				return visit(at + "/" + name + "=" + src[start:end])
			})
		case '[':
			return r.Items(func(i int) error { return visit(at + "/" + strconv.Itoa(i)) })
		}
		start := r.Offset()
		err := r.SkipRaw()
		got = append(got, at+":"+src[start:r.Offset()])
		return err
	}
	if err := errors.Join(visit(""), r.End()); err != nil {
		t.Fatal(err)
	}
	want := []string{`/a="a"/0:1`, `/a="a"/1/bc="b\u0063":1e999`, `/d="d":null`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	stop := errors.New("stop")
	r.Reset([]byte(`[{"a":1}]`))
	err := r.Items(func(int) error { return r.Members(func(string) error { return stop }) })
	if !errors.Is(err, stop) {
		t.Errorf("got %v, want the visitor's error", err)
	}
}

func TestUnquoteAndAppendString(t *testing.T) {
	for _, s := range []string{"", "a", "\"\\/", "\x00\x1f\n\r\t", "é\u2028😀"} {
		text := AppendString(nil, s)
		if got, err := Unquote(text); err != nil || got != s {
			t.Errorf("Unquote(%s) = %q, %v", text, got, err)
		}
		var std string
		if err := json.Unmarshal(text, &std); err != nil || std != s {
			t.Errorf("encoding/json reads %s as %q, %v", text, std, err)
		}
	}
	for _, text := range []string{"", "1", `"a`, `"a"b`, `"\x"`} {
		if s, err := Unquote([]byte(text)); err == nil {
			t.Errorf("Unquote(%s) = %q", text, s)
		}
	}
}
