package main

import (
	"os"
	"strings"
	"testing"

	"espalier.dev/cmd/espalier/internal/config"
)

// TestConfigSchema makes sure that the JSON Schema in the repository is the one that the
// program prints. With -update, it is rewritten.
func TestConfigSchema(t *testing.T) {
	t.Parallel()
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

// TestConfigExamples parses the configuration files in the guide for CI and in the help text.
func TestConfigExamples(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/how-to/use-in-ci.md")
	if err != nil {
		t.Fatal(err)
	}
	help, _ := runApp(t, "config", "--help")
	for name, test := range map[string]struct{ text, from, to, indent string }{
		"the guide": {string(guide), "# yaml-language-server: $schema=.espalier.schema.json\n", "```", ""},
		"help":      {help, "Paths are relative to the file.\n", "\nFlags take", "  "},
	} {
		_, text, _ := strings.Cut(test.text, test.from)
		text, _, ok := strings.Cut(text, test.to)
		if !ok || !strings.Contains(text, "semantics: kubernetes") {
			t.Errorf("%s has no configuration file: %s", name, text)
		}
		text = strings.ReplaceAll("\n"+text, "\n"+test.indent, "\n")
		if f, err := config.Parse([]byte(text), name, "/", configRules()); err != nil || len(f.Ignore) == 0 {
			t.Errorf("%v\n%s", err, text)
		}
	}
}
