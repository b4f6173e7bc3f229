package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestCommands compares the commands and flags with the list of what has been released. A command
// or a flag is deprecated before it is removed: see docs/reference/compatibility.md.
func TestCommands(t *testing.T) {
	t.Parallel()
	const golden = "testdata/commands.txt"
	var have []string
	visitCommands(newRootCommand(&app{program: "espalier"}), func(c *cobra.Command) {
		notes := ""
		if len(c.Aliases) > 0 {
			notes += " aliases " + strings.Join(c.Aliases, ",")
		}
		if c.Deprecated != "" {
			notes += " deprecated"
		}
		have = append(have, c.CommandPath()+notes)
		c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			line := c.CommandPath() + " --" + f.Name
			if f.Shorthand != "" {
				line += " -" + f.Shorthand
			}
			line += " " + f.Value.Type()
			if f.DefValue != "" {
				line += fmt.Sprintf(" default %q", f.DefValue)
			}
			if f.Deprecated != "" {
				line += " deprecated"
			}
			have = append(have, line)
		})
	})
	slices.Sort(have)
	if *update {
		if err := os.WriteFile(golden, []byte(strings.Join(have, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	released := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, line := range released {
		if !slices.Contains(have, line) {
			t.Errorf("removed or changed: %s\nScripts that use it fail or behave differently: see docs/reference/compatibility.md. To do it nevertheless: -update", line)
		}
	}
	for _, line := range have {
		if !slices.Contains(released, line) {
			t.Errorf("added: %s\nTo promise it, add it with -update", line)
		}
	}
}
