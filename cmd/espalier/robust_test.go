package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRobust validates hostile input together with a valid object, which must be
// validated in any case.
func TestRobust(t *testing.T) {
	t.Parallel()
	good, err := os.ReadFile("testdata/examples/crontab.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd, err := filepath.Abs("testdata/examples/crontab-crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c <= 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat("*"+string(c-1)+",", 9), ","))
	}
	tests := []struct {
		name string
		data []byte
		want []string
		code int
	}{{
		name: "alias bomb",
		data: []byte(bomb),
		want: []string{"input.yaml:", "error:", "[syntax]"},
		code: 2,
	}, {
		name: "deep nesting",
		data: []byte("apiVersion: stable.example.com/v1\nkind: CronTab\nspec: " + strings.Repeat("[", 20000) + strings.Repeat("]", 20000)),
		want: []string{"input.yaml:", "error:"},
		code: 2,
	}, {
		name: "50 MB in one string",
		data: []byte("apiVersion: stable.example.com/v1\nkind: CronTab\nmetadata: {name: big}\nspec:\n  cronSpec: '* * * * *'\n  image: " + strings.Repeat("x", 50<<20) + "\n"),
		want: []string{"input.yaml:6:10: error: spec.image", "[validation/max-length]"},
		code: 1,
	}, {
		name: "document that is too large",
		data: bytes.Repeat([]byte("a: b\n"), 14<<20),
		want: []string{"input.yaml:1:1: error: the document that starts here is larger than 64 MiB: raise the limit with --max-document-size [syntax]"},
		code: 2,
	}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if testing.Short() && len(test.data) > 1<<20 {
				t.Skip("large input in short mode")
			}
			p := newPlace(t)
			writeFile(t, p.path("good.yaml"), good)
			writeFile(t, p.path("input.yaml"), test.data)
			out, code := p.run("validate", "--crd", crd, "-f", "input.yaml", "-f", "good.yaml")
			if code != test.code {
				t.Errorf("exits with %d, want %d", code, test.code)
			}
			for _, want := range test.want {
				if !strings.Contains(out, want) {
					t.Errorf("lacks %q", want)
				}
			}
			if t.Failed() {
				t.Logf("%.3000s", out)
			}
			if len(test.data) > 1<<20 {
				return
			}
			// Other commands must handle the input too.
			for _, args := range [][]string{
				{"prune", "--crd", crd, "-f", "input.yaml", "-f", "good.yaml"},
				{"prune", "--why", "--crd", crd, "-f", "input.yaml", "-f", "good.yaml"},
				{"prune", "-o", "diff", "--crd", crd, "-f", "input.yaml", "-f", "good.yaml"},
				{"show", "skeleton", "-f", "input.yaml", "-f", crd},
				{"lint", "-f", "input.yaml", "-f", crd},
			} {
				out, code := p.run(args...)
				if code < 0 || code > 2 || !strings.Contains(out, "nightly") && args[0] == "prune" && args[1] == "--crd" || !strings.Contains(out, "crontabs") && args[0] == "show" {
					t.Errorf("$ espalier %s\nexits with %d:\n%.2000s", strings.Join(args, " "), code, out)
				}
			}
		})
	}
}
