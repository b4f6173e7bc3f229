package jsonx

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"testing"
)

// isCanonical is the definition of IsCanonical.
func isCanonical(src []byte) bool {
	v, err := Parse(src)
	if err != nil {
		return false
	}
	text, err := json.Marshal(v)
	return err == nil && (bytes.Equal(text, src) || bytes.Equal(append(text, '\n'), src))
}

func TestIsCanonical(t *testing.T) {
	for _, text := range canonicalTexts() {
		if got, want := IsCanonical([]byte(text)), isCanonical([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	// Both answers must occur.
	for text, want := range map[string]bool{
		`{"a":1,"b":[true,null,"x"]}`: true, `{"b":1,"a":1}`: false, `{"a":1,"a":1}`: false, `[1, 2]`: false, `1.0`: false, `-0`: false,
		`"<"`: false, `"\u003c"`: true, `"\u003C"`: false, `"é"`: true, `"\u00e9"`: false, `{"a\n":1,"a!":2}`: true, `{"a!":1,"a":2}`: false,
	} {
		if got := IsCanonical([]byte(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func canonicalTexts() []string {
	texts := []string{
		``, ` `, `null`, `nul`, `true`, `truex`, `false`, `0`, `-0`, `00`, `01`, `-1`, `-`, `1.5`, `1.50`, `1e5`, `100000`, `1e21`, `1E21`, `1e+21`, `1e-7`, `0.0000001`, `1.`, `.5`, `1-1`,
		`999999999999999999`, `1234567890123456789`, `9223372036854775807`, `9223372036854775808`, `9223372036854775808e0`, `-9223372036854775808`, `1e400`,
		`""`, `"a"`, `"a`, `"\"\\\n\r\t\b\f"`, `"\/"`, `"\u0000\u001f\u0008\u000a"`, `"\u0000\u001f"`, `"\u001F"`, `"\u0020"`, `"\ud800"`, `"\ud83d\ude00"`, `"😀"`, "\"\xff\"", "\"\u2028\"", `"\u2028\u2029"`, `"\u2030"`,
		"\"\ufffd\"", `"\ufffd"`, "\"\x7f\"", "\"\x01\"", `"<>&"`, `"\u003c\u003e\u0026"`, `"\u00"`, `"\`,
		`{}`, `[]`, `{ }`, `[ ]`, `[1,2]`, `[1,]`, `[,1]`, `[1 ]`, `{"a":1}`, `{"a" :1}`, `{"a": 1}`, `{"a":1,}`, `{"a":1,"b":2}`, `{"b":1,"a":2}`, `{"a":1,"a":2}`, `{"":1,"a":2}`, `{"a":1,"a!":2}`, `{"a!":1,"a":2}`,
		`{"a\"":1,"ab":2}`, `{"a\u003c":1,"a=":2}`, `{"a=":1,"a\u003c":2}`, `{"é":1,"z":1}`, `{"z":1,"é":1}`, `{"a":{"b":[{"c":null}]}}`, "{}\n", "{}\n\n", "{}\r\n", `{"a"}`, `{a:1}`, `{"a":1]`, `[1}`,
	}
	return texts
}

// TestIsCanonicalMutated compares IsCanonical with its definition on texts with random changes.
func TestIsCanonicalMutated(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	base := []byte(`{"apiVersion":"a/v1","kind":"B","metadata":{"annotations":{"k":"{\"x\":\"\\u003c\",\n\"y\":1.5}","é":"ü😀"},"managedFields":[{"f:x":{"k:{\"name\":\"b\"}":{}}}]},"spec":{"a":-10,"b":[1,2.25,true,null],"c":1e+21}}`)
	const bytesUsed = "{}[]\",:\\ntu0123456789.eE+-abc<>& \n\x00\x7f\xff\xc3\xa9"
	canonical := 0
	for range 50_000 {
		text := bytes.Clone(base)
		for range random.IntN(3) {
			i := random.IntN(len(text))
			b := bytesUsed[random.IntN(len(bytesUsed))]
			switch random.IntN(3) {
			case 0:
				text[i] = b
			case 1:
				text = append(text[:i], text[i+1:]...)
			default:
				text = append(text[:i], append([]byte{b}, text[i:]...)...)
			}
		}
		want := isCanonical(text)
		if want {
			canonical++
		}
		if got := IsCanonical(text); got != want {
			t.Fatalf("seed %d: %q: %v", seed, text, got)
		}
	}
	if canonical < 1000 {
		t.Error("only", canonical, "texts are canonical")
	}
}
