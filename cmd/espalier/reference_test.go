package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"espalier.dev/analysis"
	"espalier.dev/analysis/impact"
	"espalier.dev/analysis/lint"
	"espalier.dev/internal/pages"
)

// reference generates the pages of docs/reference about the program.
func reference() pages.Generator {
	return pages.Generator{Command: "go test ./cmd/espalier -run TestReference -update", Update: *update}
}

// TestReferenceCommands generates a page for each command, with the texts and flags of its help, and a
// list of them.
func TestReferenceCommands(t *testing.T) {
	t.Parallel()
	const dir = "docs/reference/commands"
	g := reference()
	root := newRootCommand(&app{program: "espalier"})
	var rows [][]string
	var files []string
	visitCommands(root, func(c *cobra.Command) {
		if c == root || !c.IsAvailableCommand() {
			return
		}
		file := strings.ReplaceAll(strings.TrimPrefix(c.CommandPath(), "espalier "), " ", "-") + ".md"
		files = append(files, file)
		rows = append(rows, []string{fmt.Sprintf("[%s](commands/%s)", pages.Code(c.CommandPath()), file), pages.Escape(c.Short)})
		g.Page(t, path.Join(dir, file), commandPage(c))
	})
	g.Only(t, dir, files...)
	text := "# Commands\n\n" +
		"[The command line](command-line.md) has an example of each command, and what is common to them. `espalier COMMAND --help` and the manual pages\n" +
		"that `espalier man` writes have the same text as these pages.\n\n" +
		pages.Table([]string{"command", "what it does"}, rows) +
		"\n## Flags of all commands\n" + flagTable(root.PersistentFlags())
	g.Page(t, dir+".md", text)
}

// commandPage returns the page of a command.
func commandPage(c *cobra.Command) string {
	c.InitDefaultHelpFlag()
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n```text\n%s\n```\n", c.CommandPath(), c.UseLine())
	b.WriteString(pages.Help(c.Long))
	if c.HasExample() {
		fmt.Fprintf(&b, "\n## Examples\n%s", pages.Help(c.Example))
	}
	groups, order := flagGroups(c)
	for _, group := range order {
		if groups[group].HasAvailableFlags() {
			fmt.Fprintf(&b, "\n## %s flags\n%s", group, flagTable(groups[group]))
		}
	}
	return b.String()
}

// flagTable returns a table of flags.
func flagTable(flags *pflag.FlagSet) string {
	var rows [][]string
	flags.SortFlags = false
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if value != "" {
			name += " " + value
		}
		initial := f.DefValue
		if slices.Contains([]string{"", "[]", "false"}, initial) {
			initial = ""
		} else {
			initial = pages.Code(initial)
		}
		if f.Deprecated != "" {
			usage += " (deprecated: " + f.Deprecated + ")"
		}
		rows = append(rows, []string{pages.Code(name), initial, pages.Escape(usage)})
	})
	return pages.Table([]string{"flag", "default", "meaning"}, rows)
}

// TestReferenceRules generates the list of all rules: those of lint with their pages, and those of the
// findings of other commands.
func TestReferenceRules(t *testing.T) {
	t.Parallel()
	configured := map[string]bool{}
	var own [][]string
	for _, r := range lint.Rules() {
		configured[r.ID] = true
		state := "on"
		switch {
		case r.Profile != "":
			state = "off; `--enable " + r.Profile + "`"
		case r.Off:
			state = "off"
		}
		own = append(own, []string{fmt.Sprintf("[%s](../../analysis/lint/docs/%s.md)", r.ID, r.ID), string(r.Severity), state, pages.Escape(r.Title)})
	}
	type seen struct {
		rule     analysis.Rule
		commands []string
	}
	others := map[string]*seen{}
	for _, c := range []struct {
		name  string
		rules []analysis.Rule
	}{
		{"audit", auditRules()}, {"diff", diffRules(impact.Config{})}, {"fix", fixRules()}, {"lint", lintRules(lint.Rules())},
		{"prune", pruneRules()}, {"record", recordRules()}, {"review", reviewRules(lint.Rules(), impact.Config{})}, {"test", testRules()},
		{"upgrade", upgradeRules()}, {"validate", validationRules()},
	} {
		for _, r := range c.rules {
			if configured[r.ID] && (c.name == "lint" || c.name == "fix" || c.name == "review") {
				continue
			}
			if others[r.ID] == nil {
				others[r.ID] = &seen{rule: r}
			}
			if s := others[r.ID]; !slices.Contains(s.commands, c.name) {
				s.commands = append(s.commands, c.name)
			}
		}
	}
	var rows [][]string
	for _, id := range slices.Sorted(maps.Keys(others)) {
		s := others[id]
		rows = append(rows, []string{pages.Code(id), string(s.rule.Severity), strings.Join(s.commands, ", "),
			pages.Escape(strings.TrimSpace(s.rule.Summary + " " + s.rule.Help))})
	}
	text := "# Rules\n\nEach finding belongs to a rule. [Configuration](configuration.md) and comments in files use its name to change its severity or to suppress\n" +
		"findings. The severity is the highest that findings of the rule have by default.\n\n" +
		"## Rules of lint\n`espalier lint --rules` prints this list with your configuration, and `espalier lint --explain RULE` the page of a rule.\n\n" +
		pages.Table([]string{"rule", "severity", "default", "finds"}, own) +
		"\n## Rules of other commands\nThose of `validate` whose names begin with `validation/` are the types of errors of the API server.\n\n" +
		pages.Table([]string{"rule", "severity", "commands", "finds"}, rows)
	reference().Page(t, "docs/reference/rules.md", text)
}

// jsonSchema is what the reference shows of a JSON Schema.
type jsonSchema struct {
	Description          string
	Type                 any
	Format               string
	Enum                 []string
	Default              any
	Properties           map[string]*jsonSchema
	AdditionalProperties any
	Items                *jsonSchema
	Required             []string
	Definitions          map[string]*jsonSchema
	Ref                  string `json:"$ref"`
	AllOf                []*jsonSchema
}

// kind describes the values of a schema. Long lists of names are those of rules.
func (s *jsonSchema) kind() string {
	switch {
	case len(s.Enum) > 10:
		return "a rule"
	case len(s.Enum) > 0:
		return "`" + strings.Join(s.Enum, "`, `") + "`"
	case s.Items != nil:
		return listOf(s.Items.kind())
	}
	switch kind := s.Type.(type) {
	case string:
		if s.Format != "" {
			return kind + ", " + s.Format
		}
		return kind
	case []any:
		return fmt.Sprint(kind[0])
	}
	return "any"
}

// listOf describes a list of values of a kind.
func listOf(kind string) string {
	switch kind = strings.TrimPrefix(kind, "a "); {
	case kind == "any":
		return "list of any values"
	case strings.HasPrefix(kind, "list of "), strings.HasPrefix(kind, "`"):
		return "list of " + kind
	}
	return "list of " + kind + "s"
}

// TestReferenceConfiguration generates the list of the keys of .espalier.yaml from its JSON Schema.
func TestReferenceConfiguration(t *testing.T) {
	t.Parallel()
	text, code := runApp(t, "config", "--schema")
	if code != 0 {
		t.Fatal(text)
	}
	var schema jsonSchema
	if err := json.Unmarshal([]byte(text), &schema); err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	var visit func(name string, s *jsonSchema)
	visit = func(name string, s *jsonSchema) {
		if name != "" {
			initial := ""
			if s.Default != nil {
				initial = pages.Code(fmt.Sprint(s.Default))
			}
			kind := s.kind()
			if strings.HasSuffix(name, ".severity") {
				kind = "map of rules to `error`, `warning` or `info`"
			}
			rows = append(rows, []string{pages.Code(name), kind, initial, pages.Escape(s.Description)})
			if strings.HasSuffix(name, ".severity") {
				return // its keys are rules
			}
			name += "."
		}
		for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
			visit(name+key, s.Properties[key])
		}
		if s.Items != nil {
			for _, key := range slices.Sorted(maps.Keys(s.Items.Properties)) {
				visit(strings.TrimSuffix(name, ".")+"[]."+key, s.Items.Properties[key])
			}
		}
	}
	visit("", &schema)
	if len(rows) < 15 {
		t.Errorf("only %d keys were found", len(rows))
	}
	reference().Part(t, "docs/reference/configuration.md", "keys", pages.Table([]string{"key", "value", "default", "meaning"}, rows))
}
