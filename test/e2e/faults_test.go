package main

import (
	"os"
	"strings"
	"testing"
)

// TestFaultsFile checks that the expectations are about the faults that there are.
func TestFaultsFile(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(faultsFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		if !strings.Contains("\n"+string(data), "\n"+f.name+": ") {
			t.Errorf("nothing is expected of: %s", f.name)
		}
	}
	for line := range strings.Lines(string(data)) {
		name, result, _ := strings.Cut(line, ": ")
		known := false
		for _, f := range faults {
			known = known || f.name == name
		}
		if !known || strings.HasPrefix(result, "failed") {
			t.Errorf("unexpected line: %s", line)
		}
	}
}
