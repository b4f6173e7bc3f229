package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/schema"
)

// semanticsFlag is the flag --semantics. Its zero value is the default.
type semanticsFlag struct{ schema.Semantics }

// Set reads the flag.
func (f *semanticsFlag) Set(s string) (err error) {
	f.Semantics, err = schema.ParseSemantics(s)
	return err
}

// Type is what the help shows.
func (f *semanticsFlag) Type() string { return "kep|kubernetes" }

// colorFlag is the flag --color.
type colorFlag string

// Set reads the flag.
func (f *colorFlag) Set(s string) error {
	switch s {
	case "auto", "always", "never":
		*f = colorFlag(s)
		return nil
	}
	return errors.New("must be auto, always or never")
}

// String is the value of the flag.
func (f *colorFlag) String() string {
	if *f == "" {
		return "auto"
	}
	return string(*f)
}

// Type is what the help shows.
func (f *colorFlag) Type() string { return "when" }

// addInputFlags adds -f and -R.
func addInputFlags(c *cobra.Command, flags *input.Flags, what string) {
	c.Flags().StringArrayVarP(&flags.Paths, "filename", "f", nil, "`PATH` of a file or directory with "+what+", or - for standard input (may repeat)")
	c.Flags().BoolVarP(&flags.Recursive, "recursive", "R", false, "also read the directories below a directory")
	_ = c.MarkFlagFilename("filename", "yaml", "yml", "json")
}

// addCRDFlag adds --crd.
func addCRDFlag(c *cobra.Command, flags *input.Flags) {
	c.Flags().StringArrayVar(&flags.Paths, "crd", nil, "`PATH` of a file or directory with CustomResourceDefinitions, or - for standard input (may repeat)")
	_ = c.MarkFlagFilename("crd", "yaml", "yml", "json")
}

// addOutputFlag adds -o for commands that report findings.
func addOutputFlag(c *cobra.Command, outputs *[]string) {
	c.Flags().StringArrayVarP(outputs, "output", "o", nil,
		"`FORMAT` of the report: "+strings.Join(report.Formats(), ", ")+"; with =FILE to a file (may repeat) (default text)")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(report.Formats(), cobra.ShellCompDirectiveNoFileComp))
}

// stdinOnce makes sure that standard input is asked for once.
func stdinOnce(all ...input.Flags) error {
	n := 0
	for _, flags := range all {
		for _, path := range flags.Paths {
			if path == "-" {
				n++
			}
		}
	}
	if n > 1 {
		return errors.New("standard input (-) can be read once only")
	}
	return nil
}
