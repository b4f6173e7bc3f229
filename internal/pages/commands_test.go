package pages

import (
	"slices"
	"testing"
)

func TestCodeLines(t *testing.T) {
	p, err := Parse("a.md", "Use `espalier lint` or `--crd`.\n```sh skip=\"slow\"\nmake\nespalier diff a \\\n  b\n```\n")
	if err != nil {
		t.Fatal(err)
	}
	if want := []CodeLine{{3, "make", false}, {4, "espalier diff a   b", false}, {1, "espalier lint", true}, {1, "--crd", true}}; !slices.Equal(p.CodeLines(), want) {
		t.Errorf("got %v, expected %v", p.CodeLines(), want)
	}
}

func TestCommandsOf(t *testing.T) {
	for line, want := range map[string][]string{
		"espalier lint a.yaml > out 2>&1":            {"espalier lint a.yaml"},
		"$ cat a | espalier prune -f - | wc":         {"espalier prune -f -"},
		"- run: espalier diff a b # comment":         {"espalier diff a b"},
		"run: |":                                     nil,
		"  A=\"$(espalier envtest)\" go test --race": {"espalier envtest"},
		"runuser -u espalier -- espalier restore b":  {"espalier restore b"},
		"kubectl exec -n espalier espalier-0 -- /usr/bin/espalier kubeconfig --user=a": {"espalier kubeconfig --user=a"},
		"espalier lint a && espalier --semantics kep diff 'a|b' c":                     {"espalier lint a", "espalier --semantics kep diff 'a|b' c"},
		"espalier: the file does not exist":                                            nil,
		"go install espalier.dev/cmd/espalier@latest":                                  nil,
		"my-espalier lint":                             nil,
		"use espalier v2.0.0 or later":                 nil,
		"as in espalier diff, and the object":          {"espalier diff"},
		"--data-dir /var/lib/espalier --semantics kep": nil,
		`{"command": "espalier lsp --stdio"}`:          {"espalier lsp --stdio"},
	} {
		if got := CommandsOf(line, "espalier"); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, expected %q", line, got, want)
		}
	}
}
