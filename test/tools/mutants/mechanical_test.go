package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"espalier.dev/test/tools/internal/ledger"
)

// A small module, its tests, and mutants of all kinds.
var small = map[string]string{
	"go.mod": "module example.com/m\n\ngo 1.26\n",
	"m/m.go": `package m

import "errors"

type kind string

const two = 1 + 1

var first = 7

func (k *kind) Grade(n int, names []string) (string, error) {
	if n < 0 || n > 100 && len(names) == 0 {
		return "", errors.New("out of range")
	}
	switch n {
	case two:
		first = n
	}
	for _, s := range names {
		if s == string(*k) {
			return "named", nil
		}
	}
	return "", nil
}

func Positive(n int) bool {
	switch {
	case n > 0:
		return true
	default:
		return false
	}
}

func Unused(n int) int { return n }

type bits uint8

func bit(n int) bits { return 1 << n }
`,
	"m/m_test.go": `package m

import "testing"

func TestPositive(t *testing.T) {
	if Positive(0) || !Positive(1) {
		t.Error("wrong")
	}
}

func TestGrade(t *testing.T) {
	k := kind("a")
	if _, err := k.Grade(-1, nil); err == nil {
		t.Error("no error")
	}
	if s, err := k.Grade(101, []string{"b", "a"}); s != "named" || err != nil {
		t.Error(s, err)
	}
}
`,
	// A proof in another package.
	"p/p_test.go": `package p

import (
	"testing"

	"example.com/m/m"
)

func TestOther(t *testing.T) { m.Unused(1) }

func TestProof(t *testing.T) {
	t.Run("V-01", func(t *testing.T) {
		if m.Unused(1) != 1 {
			t.Error("wrong")
		}
	})
}
`,
	"m/mtest/mtest.go": `package mtest

import "testing"

func Skip(t *testing.T, n int) {
	if n > 0 {
		t.Skip()
	}
}
`,
}

// TestMechanical checks all mutants of a small package: what they change, and which of them
// survive.
func TestMechanical(t *testing.T) {
	dir := t.TempDir()
	for name, text := range small {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	loaded, err := load(dir, []string{"m/..."})
	if err != nil {
		t.Fatal(err)
	}
	all, _, err := find(dir, loaded)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range all {
		got = append(got, m.function+": "+strings.TrimSpace(m.new[0]))
	}
	want := []string{
		"first: var first = 7+1",
		"first: var first = 7-1",
		"kind.Grade: if !(n < 0 || n > 100 && len(names) == 0) {",
		"kind.Grade: if false {",
		"kind.Grade: if n > 100 && len(names) == 0 {",
		"kind.Grade: if n < 0 {",
		"kind.Grade: if n <= 0 || n > 100 && len(names) == 0 {",
		"kind.Grade: if n < 0+1 || n > 100 && len(names) == 0 {",
		"kind.Grade: if n < 0-1 || n > 100 && len(names) == 0 {",
		"kind.Grade: if n < 0 || len(names) == 0 {",
		"kind.Grade: if n < 0 || n > 100 {",
		"kind.Grade: if n < 0 || n >= 100 && len(names) == 0 {",
		"kind.Grade: if n < 0 || n > 100+1 && len(names) == 0 {",
		"kind.Grade: if n < 0 || n > 100-1 && len(names) == 0 {",
		"kind.Grade: if n < 0 || n > 100 && len(names) == 0+1 {",
		"kind.Grade: if n < 0 || n > 100 && len(names) == 0-1 {",
		"kind.Grade: return \"\", nil",
		"kind.Grade: case two: break",
		"kind.Grade: for _, s := range names { break",
		"kind.Grade: if !(s == string(*k)) {",
		"kind.Grade: if false {",
		"kind.Grade: return \"\", nil",
		"Positive: case !(n > 0):",
		"Positive: case false:",
		"Positive: case n >= 0:",
		"Positive: case n > 0+1:",
		"Positive: case n > 0-1:",
		"Positive: return false",
		"Positive: return true",
		"Unused: func Unused(n int) int { return 0 }",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got mutants\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	skip, in, few := "", "", []string(nil)
	run := func(equivalent string, proofs []ledger.Proof) (string, error) {
		t.Helper()
		list, err := parseEquivalent(equivalent)
		if err != nil {
			t.Fatal(err)
		}
		r := &mechanical{lab: &lab{root: dir, dir: t.TempDir()}, parallel: 2, size: 100, seed: 1, skip: skip, in: in, equivalent: list, proofs: proofs, few: few, provers: []prover{{"p", []string{"m"}}}}
		var out bytes.Buffer
		err = r.run(context.Background(), &out, []string{"m"})
		return out.String(), err
	}
	out, err := run("", nil)
	for _, want := range []string{
		"m: 14 of 30 mutants survived (46.7%)\n",
		"m/m.go:12 (kind.Grade)\n-\tif n < 0 || n > 100 && len(names) == 0 {\n+\tif n <= 0 || n > 100 && len(names) == 0 {\n",
		"m/m.go:16 (kind.Grade): no test executes it\n-\tcase two:\n+\tcase two: break\n",
		"m/m.go:36 (Unused): no test executes it\n",
		"16 of 30 mutants killed\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the report lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "(Positive)") || err != nil {
		t.Errorf("got %v\n%s", err, out)
	}

	few = []string{"m"}
	if _, err := run("", nil); err == nil || !strings.Contains(err.Error(), "14 of 30 mutants survived in m: more than 5%") {
		t.Errorf("many survivors: %v", err)
	}
	few = nil

	proofs, err := ledger.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	out, _ = run("m/m.go kind.Grade\n-case two:\n+case two: break\n= nothing reads it\n", proofs)
	if strings.Contains(out, "(Unused)") || strings.Contains(out, "two: break") || !strings.Contains(out, "m: 12 of 29 mutants survived") {
		t.Errorf("a proof in another package, an equivalent mutant: got\n%s", out)
	}
	skip = "Positive"
	if out, _ = run("", nil); !strings.Contains(out, "(Positive): no test executes it") {
		t.Errorf("without a test: got\n%s", out)
	}
	skip, in = "", "Unused|Positive"
	if out, _ = run("", nil); !strings.Contains(out, "m: 1 of 8 mutants survived") {
		t.Errorf("two functions: got\n%s", out)
	}
	in = "other.go"
	if out, err = run("", nil); err == nil || err.Error() != "no mutants in m" {
		t.Errorf("a file without mutants: got %v\n%s", err, out)
	}
	in = ""
	if _, err := run("m/m.go kind.Grade\n-case two:\n+case three:\n= it is not there\n", nil); err == nil || !strings.Contains(err.Error(), "equivalent.txt:1: no mutant of kind.Grade in m/m.go has these lines") {
		t.Errorf("an entry without a mutant: got %v", err)
	}
}

// TestChoose checks that a seed and the text of mutants decide about a sample.
func TestChoose(t *testing.T) {
	var all []*mutant
	for _, file := range []string{"a/a.go", "b/b.go"} {
		for range 20 {
			all = append(all, &mutant{pkg: filepath.Dir(file), file: file, function: "f", old: []string{"old"}, new: []string{"new"}, line: len(all)})
		}
	}
	lines := func(list []*mutant) (lines []int) {
		for _, m := range list {
			lines = append(lines, m.line)
		}
		return lines
	}
	sample := lines(choose(all, 10, 1))
	if len(sample) != 10 || sample[4] >= 20 || sample[5] < 20 {
		t.Errorf("got %v, want 5 of each package", sample)
	}
	if again := lines(choose(all, 10, 1)); !slices.Equal(again, sample) {
		t.Errorf("got %v, then %v", sample, again)
	}
	if other := lines(choose(all, 10, 2)); slices.Equal(other, sample) {
		t.Errorf("got %v for both seeds", sample)
	}
	if few := choose(all, 1, 1); len(few) != 6 {
		t.Errorf("got %d mutants, want 3 of each package", len(few))
	}
}

// TestEquivalent checks the list of equivalent mutants.
func TestEquivalent(t *testing.T) {
	list, err := parseEquivalent(equivalentText)
	if err != nil {
		t.Fatalf("equivalent.txt:%v", err)
	}
	dir, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := load(dir, mutated)
	if err != nil {
		t.Fatal(err)
	}
	all, _, err := find(dir, loaded)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := without(all, list); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{
		"a.go f\n-a\n+b\n":               "1: no reason",
		"a.go f\n-a\n+b\na.go g\n":       "4: want FILE FUNCTION",
		"a.go\n-a\n+b\n= it is the same": "1: want FILE FUNCTION",
	} {
		if _, err := parseEquivalent(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}
