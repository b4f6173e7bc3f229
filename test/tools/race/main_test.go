package main

import (
	"slices"
	"testing"
)

// TestConcurrent checks that packages with goroutines and locks are found, and others are not.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	dirs, err := concurrent("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"store", "server", "server/quota", "server/tokens", "server/namespaces", "server/authorization", "server/encryption", "crd"} {
		if !slices.Contains(dirs, dir) {
			t.Errorf("%s is not found", dir)
		}
	}
	for _, dir := range []string{"api", "internal/jsonptr", "test/oracle"} {
		if slices.Contains(dirs, dir) {
			t.Errorf("%s is found", dir)
		}
	}
}

// TestComplete checks that packages with tests that are skipped or shortened are not complete.
func TestComplete(t *testing.T) {
	t.Parallel()
	for dir, want := range map[string]bool{"store": true, "crd": false, "espaliertest": false} {
		if got, err := isComplete("../../../" + dir); err != nil || got != want {
			t.Errorf("%s: got %v, %v", dir, got, err)
		}
	}
}
