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
		Short: "Write manual pages for all commands to a directory",
		Long: `Man writes one page per command to DIR and creates DIR if it does not exist. To read the
pages with man, name DIR man1 and add its parent directory to MANPATH.`,
		Example: `  espalier man man1
  man ./man1/espalier-prune.1`,
		Args: exactArgs("DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			dir := args[0]
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			root := c.Root()
			root.DisableAutoGenTag = true
			if err := doc.GenManTree(root, &doc.GenManHeader{Title: "ESPALIER", Section: "1",
				Source: "espalier " + buildVersion().version, Manual: "Espalier"}, dir); err != nil {
				return err
			}
			pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
			if err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "%d pages written to %s\n", len(pages), dir)
			return nil
		},
	}
}
