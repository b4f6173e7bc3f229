package goapi

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/api.txt")

// stable are the packages whose API docs/reference/compatibility.md promises.
var stable = []string{"", "espaliertest", "server/faults", "analysis/timeline"}

const golden = "testdata/api.txt"

// TestReleased compares the API of the stable packages with the list of what has been released.
func TestReleased(t *testing.T) {
	var have []string
	for _, name := range stable {
		lines, err := List(filepath.Join("..", "..", "..", name), strings.TrimSuffix("espalier.dev/"+name, "/"))
		if err != nil {
			t.Fatal(err)
		}
		if len(lines) < 10 {
			t.Errorf("%q has only %d names", name, len(lines))
		}
		have = append(have, lines...)
	}
	if *update {
		if err := os.WriteFile(golden, []byte(strings.Join(have, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	released := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, line := range without(released, have) {
		t.Errorf("removed or changed: %s\nPrograms that use it do not compile any more: see docs/reference/compatibility.md. Before the first release, or in a new major version: -update", line)
	}
	for _, line := range without(have, released) {
		t.Errorf("added: %s\nTo promise it, add it with -update", line)
	}
}

// without returns the lines of a that b does not have.
func without(a, b []string) (lines []string) {
	for _, line := range a {
		if !slices.Contains(b, line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// TestList lists all forms of declarations.
func TestList(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte(`package a

import "io"

const (
	One Number = iota
	Two
	three
)

const Name, other = "x", 1

// Number is a type.
type Number int

type Alias = io.Reader

var Err, hidden error

type Pair[K comparable, V any] struct {
	io.Reader
	Key    K `+"`json:\"key\"`"+`
	A, B   []V
	secret int
}

type Doer interface {
	Do(n int,
		m int) error
	done()
}

type private struct{ A int }

func New(n int) (*Number, error) { return nil, nil }
func (n *Number) String() string { return "" }
func (n Number) private()        {}
func (p private) Public()        {}
func (p *Pair[K, V]) Get() V     { panic(1) }
func unexported()                {}
`), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a_test.go"), []byte("package a\n\nfunc Helper() {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := List(dir, "example.com/a")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`const Name = "x"`, "const One Number", "const Two Number",
		"func New(n int) (*Number, error)",
		"method (*Number) String() string", "method (*Pair[K, V]) Get() V",
		"type Alias = io.Reader",
		"type Doer interface", "type Doer, Do(n int, m int) error", "type Doer, unexported methods",
		"type Number int",
		"type Pair[K comparable, V any] struct", "type Pair[K comparable, V any], A []V", "type Pair[K comparable, V any], B []V",
		"type Pair[K comparable, V any], Key K `json:\"key\"`", "type Pair[K comparable, V any], embedded io.Reader",
		"var Err error",
	}
	for i := range want {
		want[i] = "pkg example.com/a, " + want[i]
	}
	for _, line := range without(want, got) {
		t.Errorf("missing: %s", line)
	}
	for _, line := range without(got, want) {
		t.Errorf("not expected: %s", line)
	}
}
