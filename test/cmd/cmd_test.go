package main

import (
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
