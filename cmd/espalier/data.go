//go:build !noserver

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

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
	_, err := a.environmentSemantics(c)
	return err
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
