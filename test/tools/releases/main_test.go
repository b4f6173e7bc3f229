package main

import (
	"os"
	"testing"
)

// TestTables checks that the committed tables are what the releases of Kubernetes say. It downloads
// all of them, more than 2 GB.
func TestTables(t *testing.T) {
	if os.Getenv("ESPALIER_RELEASES") == "" {
		t.Skip("set ESPALIER_RELEASES=1 to download all releases of Kubernetes and compare the tables with them")
	}
	if err := run("../../..", true); err != nil {
		t.Error(err)
	}
}
