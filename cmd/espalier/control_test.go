package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"espalier.dev/analysis/why"
	"espalier.dev/cmd/espalier/internal/migrate"
)

// TestControlCharacters prints stored data that tries to manipulate the terminal.
func TestControlCharacters(t *testing.T) {
	t.Parallel()
	const path = "spec.\x1b[31m\nx<y\u202e"
	var out bytes.Buffer
	list := listWriter{a: &app{stdout: &out}, output: "text"}
	undo := &undoWriter{list: list, counts: map[migrate.Undone]int64{}}
	if err := undo.object(&migrate.Restored{CRD: "jobs.example.com", Name: "a", Result: migrate.PutBack, Missing: []string{path}}); err != nil {
		t.Fatal(err)
	}
	migration := &migrationWriter{a: list.a, list: list}
	if err := migration.object(&migrate.Outcome{CRD: "jobs.example.com", Object: &migrate.Object{Name: "a"}, Result: migrate.Failed, Err: errors.New(path)}); err != nil {
		t.Fatal(err)
	}
	stored := &why.Stored{Found: true, Value: path, APIVersion: "example.com/v1"}
	if err := (&whyRecord{Explanation: &why.Explanation{Path: path, Stored: stored}}).writeText(&out); err != nil {
		t.Fatal(err)
	}
	got := out.String()
	if strings.ContainsAny(got, "\x1b\u202e") || strings.Count(got, "\n") != 5 || strings.Count(got, "x<y") != 4 {
		t.Errorf("the output is %q", got)
	}
}
