package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestParseList makes sure that a list with a mistake is rejected: a line that is skipped would
// be a function that nothing is expected of.
func TestParseList(t *testing.T) {
	entries, err := parseList("run_a_tests passes\nrun_b_tests differs: no kubelet: none\n")
	if err != nil || len(entries) != 2 || entries[1] != (entry{"run_b_tests", differs, "no kubelet: none"}) {
		t.Errorf("read %v, %v", entries, err)
	}
	for _, text := range []string{
		"run_a_tests\n", "run_a_tests skipped\n", "\n",
		"run_a_tests passes: now and then\n", "run_a_tests differs\n", "run_a_tests fails: \n",
		"run_a_tests passes\nrun_a_tests fails: etcd\n",
	} {
		if _, err := parseList(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// TestCompare compares results with a list that has each class.
func TestCompare(t *testing.T) {
	list := []entry{{"p", passes, ""}, {"d", differs, "reason"}, {"f", fails, "reason"}}
	for _, test := range []struct {
		function     string
		passed, real bool
		want         string
	}{
		{"p", true, false, ""},
		{"p", false, false, "p fails"},
		{"p", false, true, "p fails"},
		{"d", false, false, ""},
		{"d", true, false, "d passes"},
		{"d", true, true, ""},
		{"d", false, true, "d fails"},
		{"f", false, false, ""},
		{"f", true, false, ""},
		{"f", false, true, ""},
		{"unknown", true, false, "unknown is not listed"},
	} {
		err := compare(list, []result{{function: test.function, passed: test.passed}}, test.real)
		if (err == nil) != (test.want == "") || err != nil && !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%+v: %v", test, err)
		}
	}
	if err := absent(list, []string{"p", "d"}); err == nil || !strings.Contains(err.Error(), "f is listed") {
		t.Errorf("a function that the scripts do not have: %v", err)
	}
}

// TestWriteList makes sure that an update keeps what was written by hand.
func TestWriteList(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list.txt")
	old := []entry{{"d", differs, "one"}, {"f", fails, "two"}, {"fixed", fails, "three"}, {"gone", passes, ""}}
	err := writeList(path, old, []result{{function: "new", passed: true}, {function: "d", passed: true}, {function: "f"}, {function: "fixed", passed: true}})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if want := "new passes\nd differs: one\nf fails: two\nfixed passes\n"; err != nil || string(data) != want {
		t.Errorf("wrote %q, %v", data, err)
	}
}

// TestFunctionsOf finds the functions in a script, each once and in the order of the script.
func TestFunctionsOf(t *testing.T) {
	got := functionsOf(`# record_command run_kubectl_tests
function record_command() { :; }
record_command record_command_canary
runTests() {
      record_command "run_${pkg}_tests"
  record_command run_b_tests
  if true; then
    record_command run_a_test
    record_command run_b_tests
  fi
}
`)
	if want := []string{"run_b_tests", "run_a_test"}; !slices.Equal(got, want) {
		t.Errorf("found %v", got)
	}
}

// TestCheckTools names what is missing.
func TestCheckTools(t *testing.T) {
	if err := checkTools([]string{"go"}); err != nil {
		t.Error(err)
	}
	err := checkTools([]string{"go", "no-such-tool-a", "no-such-tool-b"})
	if err == nil || !strings.Contains(err.Error(), "no-such-tool-a, no-such-tool-b") {
		t.Errorf("tools are missing: %v", err)
	}
}

// TestLastLines removes the colours of the scripts.
func TestLastLines(t *testing.T) {
	if got := string(lastLines([]byte("a\n\x1b[1m\x1b[31mb\x1b(B\x1b[m\nc\n"), 2)); got != "b\nc" {
		t.Errorf("got %q", got)
	}
}
