//go:build !noserver

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"espalier.dev/analysis"
	"espalier.dev/schema"
	"espalier.dev/server/snapshot"
)

// printData prints the result of a command: the text, or the value as JSON or YAML.
func (a *app) printData(output string, value any, text string) error {
	if output == "text" {
		_, err := fmt.Fprintln(a.stdout, text)
		return err
	}
	return (&printer{a: a, output: output}).print("", value)
}

// readDataSemantics sets the semantics from the flag or the environment, and reads no
// configuration file: the semantics belongs to the data.
func (a *app) readDataSemantics(c *cobra.Command, _ []string) error {
	a.resolveFiles(c)
	_, err := a.environmentSemantics(c)
	return err
}

// resolveFiles makes the flags of a server command that name files absolute if the command has a working
// directory of its own: the server has only that of the process.
func (a *app) resolveFiles(c *cobra.Command) {
	if a.dir == "" {
		return
	}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		what, _ := pflag.UnquoteUsage(f)
		value := f.Value.String()
		if f.Value.Type() == "string" && (what == "file" || what == "directory") && value != "-" {
			_ = f.Value.Set(a.dir.Path(value)) // any string is a path
		}
	})
}

// expectedSemantics returns the semantics that the flag or the environment sets, or nil.
func (a *app) expectedSemantics(c *cobra.Command) *schema.Semantics {
	if set, err := a.environmentSemantics(c); err != nil || !set {
		return nil // the error has already been reported
	}
	return &a.semantics.Semantics
}

// oneBackup accepts one argument, the file of a backup.
func oneBackup(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError(c, fmt.Errorf("%s needs one FILE", c.Name()))
	}
	if args[0] == "-" && c.Name() == "restore" {
		return usageError(c, errors.New("a backup cannot be read from standard input: name a file"))
	}
	return nil
}

// summarize describes the data of a server.
func summarize(m snapshot.Manifest) string {
	text := fmt.Sprintf("%s and %s at revision %d, semantics %s", analysis.Plural(m.CRDs, "CRD"),
		analysis.Plural(m.Objects, "object"), m.Revision, m.Semantics)
	if m.Encrypted > 0 {
		text += fmt.Sprintf(", %d encrypted", m.Encrypted)
	}
	return text
}
