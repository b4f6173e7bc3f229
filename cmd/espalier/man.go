package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func newManCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages of all commands into a directory",
		Long: `Man writes a manual page for each command into DIR, which is made if it is not
there. Put DIR on your MANPATH, below a directory man1, to read them with man.`,
		Example: `  espalier man man1
  man ./man1/espalier-prune.1`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dir := args[0]
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			root := c.Root()
			root.DisableAutoGenTag = true
			if err := doc.GenManTree(root, &doc.GenManHeader{Title: "ESPALIER", Section: "1", Source: "espalier " + buildVersion().version, Manual: "Espalier"}, dir); err != nil {
				return err
			}
			pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
			if err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "%d pages in %s\n", len(pages), dir)
			return nil
		},
	}
}
