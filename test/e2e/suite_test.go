package main

import (
	"strings"
	"testing"
	"time"
)

const someReport = `[{"SpecReports": [
  {"ContainerHierarchyTexts": null, "LeafNodeType": "SynchronizedBeforeSuite", "LeafNodeText": "", "State": "passed"},
  {"ContainerHierarchyTexts": ["[sig-a] A", "when"], "LeafNodeType": "It", "LeafNodeText": "should (b)", "State": "failed", "RunTime": 1500000000, "Failure": {"Message": "no"}},
  {"ContainerHierarchyTexts": ["[sig-a] A"], "LeafNodeType": "It", "LeafNodeText": "c", "State": "skipped"},
  {"ContainerHierarchyTexts": ["[sig-a] A"], "LeafNodeType": "It", "LeafNodeText": "d", "State": "skipped", "Failure": {"Message": "needs x"}},
  {"ContainerHierarchyTexts": ["[sig-a] A"], "LeafNodeType": "It", "LeafNodeText": "e", "State": "passed"}
]}]`

func TestParseReport(t *testing.T) {
	t.Parallel()
	got, err := parseReport([]byte(someReport))
	if err != nil {
		t.Fatal(err)
	}
	want := results{
		"[sig-a] A when should (b)": {state: "failed", took: 1500 * time.Millisecond, failure: "no"},
		"[sig-a] A d":               {state: "skipped", failure: "needs x"},
		"[sig-a] A e":               {state: "passed"},
	}
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
	for name, r := range want {
		if got[name] != r {
			t.Errorf("%s: got %+v, want %+v", name, got[name], r)
		}
	}
	if _, err := parseReport([]byte(strings.Replace(someReport, `"passed"`, `"failed", "Failure": {"Message": "no nodes"}`, 1))); err == nil || !strings.Contains(err.Error(), "SynchronizedBeforeSuite of the suite failed: no nodes") {
		t.Errorf("got error %v", err)
	}
	if _, err := parseReport([]byte("{")); err == nil {
		t.Error("want an error for a report that is cut off")
	}
}
