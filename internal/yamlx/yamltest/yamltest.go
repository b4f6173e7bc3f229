// Package yamltest holds texts that the tests of yamlx and yamledit share.
package yamltest

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"espalier.dev/internal/testcase"
)

// Corpus visits a part of the YAML files of the corpus. It skips the test if there is no corpus.
func Corpus(t testing.TB, visit func(path string, src []byte)) {
	t.Helper()
	root := testcase.Corpus(t)
	var files []string
	if err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".yaml") {
			files = append(files, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, path := range testcase.Part(files) {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		visit(strings.TrimPrefix(path, root), src)
	}
}

// Seeds returns texts that cover the syntax of YAML.
func Seeds() []string {
	return []string{
		"", "\n", "# only a comment\n", "---\n", "--- # c\na: 1\n", "---\na: 1\n...\n", "a: 1\n---\nb: 2\n", "%YAML 1.1\n---\na: 1\n",
		"\ufeffa: 1\n", "a: 1\r\nb:\r\n- c\r\n- d\r\n", "a:\tb\n", "a: b\t# c\n", "a:\n\tb: 1\n",
		"a: 1\nb: two\nc: [1, 2, {x: y}]\nd: {a: b, c: , \"d\":1}\n",
		"yes: no\non: off\n1: 2\n1.5: x\n~: y\n", "n: y\ny: n\n",
		"a: 0777\nb: 0o17\nc: 0b11\nd: 1_000\ne: .5\nf: 1e3\ng: +1\nh: -0b11\ni: 0x1F\n",
		"a: .inf\n", "a: -.INF\n", "a: .nan\n",
		"a: 12345678901234567890\nb: 123456789012345678901234567890\nc: -9223372036854775808\nd: 1.0\ne: 08\n",
		"a: 2001-01-01\nb: 2001-12-14t21:59:43.10-05:00\n2001-01-01: c\n",
		"a: !!binary aGVsbG8=\nb: !!str 12\nc: !!int \"3\"\nd: !foo bar\ne: ! 12\n",
		"a: &x {b: 1}\nc: *x\nd:\n  <<: *x\n  e: 2\n", "a: &x 1\nb: [*x, *x]\n", "<<: {a: 1}\na: 2\n",
		"a: &a [*a]\n", "? a\n: b\n", "? [a]\n: b\n", "[a]: b\n",
		"a: 'it''s'\nb: \"x\\ty\\u00e9\\x41\"\nc: 'a\n\n  b\n  c'\nd: \"a \\\n   b\\\n\n  c\"\n",
		"a: \"\\/\"\n", "a: \"\\ud800\"\n", "a: 'x': y\n", "\"a\" : 1\n'b': 2\n",
		"a: |\n  x\n   y\n\n  z\n\nb: >-\n  x\n  y\n\n  z\n   w\n  v\nc: |+\n  x\n\nd: |2\n   x\ne: >+2\n  x\n", "a: |\n\n\n  x\n",
		"a: |\n    \n  x\n", "- |\n x\n- >\n y\n", "a: |", "a: |\n  x", "a: |\n  x\n  ",
		"a: b\n  c\n\n  d\n  # x\ne: f\n", "a:\n  b\n  c\nd: e\n", "a: b\n  - c\n", "a: b: c\n", "a: b #c\nd: e#f\n",
		"a: -1\nb: -x\nc: --- x\nd: - x\n", "a:\n- b\n- c: d\n  e: f\n-\n- - g\n  - h\ni:\n  - j\n",
		"a:\n    b: 1\n   c: 2\n", "a: [\n  1,\n  2, # x\n]\n", "a: {b: [c: d]}\n", "a: [a, , b]\n", "a: [a,]\n", "{a: 1, b}\n",
		"{\"a\": 1}\n{\"b\": 2}\n", "{\"a\":\"\\/\"}", "{\"a\": 1} # c\n", "[1,2]", "[1,2]\n---\na: b\n",
		"a: \u2028b\n", "a: \u0085\n", "a: \x00\n", "a: \xff\n", "\xff\xfea\x00", "a: @b\n", "a: `b\n", "a: %b\n", "%a: b\n",
		"-a: b\n", "?a: b\n", ":a: b\n", "a: :b\n", "a: ?b\n", "a: *b\n", "a: \"b\n", "a: 'b\n",
		"text\n", "'text'\n", "12\n", "- a\nb: c\n", "a: b\n- c\n", "a: 1\na: 2\n", "a: {b: 1, b: 2}\n",
		"a:   \n  b\n", "- # c\n  a: b\n", "a: # c\n  b: c\n", "a: # c\n- b\n", "a: {}\nb: []\n", "a : b\n",
		"a:b\n", "a: {x: 'y\n  z'}\n", "a: [x\n  y]\n", "a: [x\n\t]\n",
		"a: x\n b: y\n", "a: x\n---\n", "a: 'x\n---\n'\n", "a: \"x\n...\n\"\n",
		"key with spaces: v\nother/key.io: w\n\"q\\\"k\": 1\n", "a: {b: c}d\n", "a: \"b\"c\n", "a: [b]#c\n",
		"a: {? b : c}\n", "a: [b?c]\n", "a: {b:c}\n", "a: {'b':c}\n",
	}
}
