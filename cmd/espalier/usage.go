package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// The groups of flags in help texts.
const (
	inputFlags   = "Input"
	checkFlags   = "Check"
	outputFlags  = "Output"
	generalFlags = "General"
)

// otherExitCodes describes the exit codes that all commands have beside 0 and 1.
const otherExitCodes = "2 usage or input error, 130 interrupted"

// flagGroupAnnotation is the annotation of a flag that names its group.
const flagGroupAnnotation = "espalier.dev/flag-group"

// groupFlags assigns flags of a command to a group of the help text.
func groupFlags(flags *pflag.FlagSet, group string, names ...string) {
	for _, name := range names {
		_ = flags.SetAnnotation(name, flagGroupAnnotation, []string{group}) // fails only for unknown flags
	}
}

// groupAllFlags assigns all flags of a set to a group of the help text.
func groupAllFlags(flags *pflag.FlagSet, group string) {
	flags.VisitAll(func(f *pflag.Flag) { groupFlags(flags, group, f.Name) })
}

// flagGroups returns the flags of a command by group, and the names of the groups in the
// order in which the command defines their flags. General flags come last.
func flagGroups(c *cobra.Command) (groups map[string]*pflag.FlagSet, order []string) {
	groups = map[string]*pflag.FlagSet{}
	add := func(f *pflag.Flag) {
		group := generalFlags
		if names := f.Annotations[flagGroupAnnotation]; len(names) > 0 {
			group = names[0]
		}
		if groups[group] == nil {
			groups[group] = pflag.NewFlagSet(group, pflag.ContinueOnError)
			if group != generalFlags {
				order = append(order, group)
			}
		}
		groups[group].AddFlag(f)
	}
	c.LocalFlags().VisitAll(add)
	c.InheritedFlags().VisitAll(add)
	if groups[generalFlags] != nil {
		order = append(order, generalFlags)
	}
	return groups, order
}

// usage prints the part of the help text that follows the description: usage, examples,
// commands, and flags by group.
func usage(c *cobra.Command) error {
	w := c.OutOrStderr()
	fmt.Fprint(w, "Usage:\n")
	if c.Runnable() {
		fmt.Fprintf(w, "  %s\n", c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(w, "  %s COMMAND\n", c.CommandPath())
	}
	if c.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", c.Example)
	}
	if c.HasAvailableSubCommands() {
		title := "Commands"
		for _, group := range c.Groups() {
			writeCommands(w, c, group.Title, group.ID)
			title = "Other commands"
		}
		writeCommands(w, c, title, "")
	}
	groups, order := flagGroups(c)
	for _, group := range order {
		if groups[group].HasAvailableFlags() {
			fmt.Fprintf(w, "\n%s flags:\n%s\n", group, strings.TrimRight(groups[group].FlagUsagesWrapped(width(c.OutOrStdout())), "\n"))
		}
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\nUse \"%s COMMAND --help\" for more about a command.\n", c.CommandPath())
	}
	return nil
}

// writeCommands writes the subcommands of a group.
func writeCommands(w io.Writer, c *cobra.Command, title, group string) {
	fmt.Fprintf(w, "\n%s:\n", title)
	for _, sub := range c.Commands() {
		if sub.GroupID == group && (sub.IsAvailableCommand() || sub.Name() == "help") {
			fmt.Fprintf(w, "  %-*s  %s\n", sub.NamePadding(), sub.Name(), sub.Short)
		}
	}
}

// width returns the number of columns of a terminal, or a default.
func width(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns >= 60 {
			return columns
		}
	}
	return 100
}

// noArgs rejects arguments. The hint names the flag that was probably meant.
func noArgs(hint string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return usageError(c, fmt.Errorf("%s accepts no arguments, got %q%s", c.Name(), args[0], hint))
	}
}

// exactArgs requires one argument for each name.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch want := strings.Join(names, " and "); {
		case len(args) < len(names):
			return usageError(c, fmt.Errorf("%s needs %s", c.Name(), want))
		case len(args) > len(names):
			return usageError(c, fmt.Errorf("%s needs %s only, got %q too", c.Name(), want, args[len(names)]))
		}
		return nil
	}
}

// usageError adds to an error in the command line where to look for help.
func usageError(c *cobra.Command, err error) error {
	return fmt.Errorf("%w\nSee '%s --help'", err, c.CommandPath())
}
