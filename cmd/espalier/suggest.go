package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"espalier.dev/internal/nearest"
)

// unknownCommand returns an error for an unknown command, with the command that was probably
// meant.
func unknownCommand(root *cobra.Command, name string) error {
	var names []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return usageError(root, fmt.Errorf("unknown command %q%s", name, nearest.DidYouMean(nearest.Name(name, slices.Values(names)))))
}

// rejectUnknownTopics makes the commands help and completion fail for an unknown command or
// shell. They write to the output that the root command has when they are created.
func rejectUnknownTopics(root *cobra.Command, args []string) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = func(_ *cobra.Command, topic []string) error {
				if found, rest, err := root.Find(topic); err != nil || found == root && len(rest) > 0 {
					return unknownCommand(root, topic[0])
				}
				return nil
			}
		case "completion":
			c.Args = func(c *cobra.Command, shell []string) error {
				if len(shell) > 0 {
					return unknownCommand(c, shell[0])
				}
				return nil
			}
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		}
	}
}

// flagError returns an error for a flag that cannot be parsed, with the flag that was
// probably meant.
func flagError(c *cobra.Command, err error) error {
	if !c.HasParent() && c.Flags().NArg() > 0 {
		// The flags are those of a command that does not exist.
		return unknownCommand(c, c.Flags().Arg(0))
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		name, short := unknown.GetSpecifiedName(), unknown.GetSpecifiedShortnames()
		if short != "" {
			// A long name with a single dash is parsed as short names.
			name = short
		}
		if name == "crd" && c.Flags().Lookup(name) == nil && strings.Contains(c.Use, "PATH") {
			return usageError(c, fmt.Errorf("%w: %s reads the CRDs that PATH names", err, c.Name()))
		}
		meant := nearest.Name(name, slices.Values(names))
		if meant != "" && (short == "" || meant == short) {
			err = fmt.Errorf("%w%s", err, nearest.DidYouMean("--"+meant))
		}
	}
	return usageError(c, err)
}
