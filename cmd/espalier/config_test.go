package main

import (
	"os"
	"testing"
)

// TestConfigSchema makes sure that the JSON Schema in the repository is the one that the
// program prints. With -update, it is rewritten.
func TestConfigSchema(t *testing.T) {
	got, code := runApp(t, "config", "--schema")
	if code != 0 {
		t.Fatal(got)
	}
	const name = "config.schema.json"
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is out of date: run go test ./cmd/espalier -run TestConfigSchema -update", name)
	}
}
