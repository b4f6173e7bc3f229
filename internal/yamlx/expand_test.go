package yamlx

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// bomb is a document of about 370 KB that has 9 GB as JSON.
func bomb() string {
	return "a: &a \"" + strings.Repeat("x", 100_000) + "\"\nb: [" + strings.Repeat("*a,", 90_000) + "]\n"
}

func TestCheckExpanded(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	nested := "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 12; i++ {
		nested += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9))
	}
	kb := strings.Repeat("x", 1000)
	for _, c := range []struct {
		name, text, err string
	}{
		{"no alias", "a: " + strings.Repeat("x", 2*limit), ""},
		{"a star", "a: \"*a\"\nb: 2 * 3\n", ""},
		{"few aliases", "a: &a " + kb + "\nb: [*a, *a]\n", ""},
		{"as many aliases as fit", "a: &a " + kb + "\nb: [" + strings.Repeat("*a,", 1000) + "]\n", ""},
		{"more aliases than fit", "a: &a " + kb + "\nb: [" + strings.Repeat("*a,", 1100) + "]\n", "2:3137: with this alias, the document has more than 1048576 bytes"},
		{"a value of control characters", "a: &a \"" + strings.Repeat(`\x01`, 1000) + "\"\nb: [" + strings.Repeat("*a,", 200) + "]\n", "2:"},
		{"a string", bomb(), "2:32: with this alias"},
		{"nested lists", nested, "6:18: with this alias"},
		{"merge keys", "a: &a {k: " + kb + "}\nb: [" + strings.Repeat("{<<: *a},", 1100) + "]\n", "2:"},
		{"keys", "a: &a " + kb + "\nb: [" + strings.Repeat("{*a : 1},", 1100) + "]\n", "2:"},
		{"anchors of the same name", "a: &a x\nb: [" + strings.Repeat("*a,", 1100) + "]\nc: &a " + kb + "\n", ""},
		{"an anchor in itself", "a: &a [*a]\n", ""},
		{"broken", "a: [*a", ""},
		{"bytes", "*\x00\xff", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := CheckExpanded([]byte(c.text), limit)
			if (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
				t.Errorf("got %v, want %s", err, c.err)
			}
		})
	}
}

// FuzzCheckExpanded compares the check with the text that the library makes.
func FuzzCheckExpanded(f *testing.F) {
	f.Add("a: &a [1, x]\nb: [*a, *a, {<<: *c}]\n")
	f.Add("a: &a {k: \"<\\x01>\"}\nb: {<<: *a, k: *a}\n")
	f.Add("&a a: &b [*a, *a]\nc: [*b, *b]\n")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1000 {
			return
		}
		const limit = 5000
		if CheckExpanded([]byte(text), limit) != nil {
			return
		}
		out, err := yaml.YAMLToJSON([]byte(text))
		// Numbers and dates can be longer in JSON than in YAML.
		if err == nil && len(out) > 30*max(limit, len(text)) {
			t.Errorf("%q has %d bytes as JSON", text, len(out))
		}
	})
}

// TestBombs reads documents that aliases expand to gigabytes.
func TestBombs(t *testing.T) { //nolint:paralleltest // measures the allocations of the process
	for _, text := range []string{bomb(), "a: &a {k: \"" + strings.Repeat("x", 100_000) + "\"}\nb: [" + strings.Repeat("{<<: *a},", 20_000) + "]\n"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		doc, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		_, err = doc.JSON()
		runtime.ReadMemStats(&after)
		bad := &Error{}
		if !errors.As(err, &bad) || bad.Line != 2 || !strings.Contains(bad.Message, "use fewer aliases") {
			t.Errorf("got %v", err)
		}
		// The parser, not the expanded text.
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(200*len(text)); got > most {
			t.Errorf("%d bytes were read with %d bytes of memory, more than %d", len(text), got, most)
		}
	}
}
