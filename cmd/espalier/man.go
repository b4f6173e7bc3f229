package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func newManCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write manual pages for all commands to a directory",
		Long: `Man writes one page per command to DIR and creates DIR if it does not exist. To read the
pages with man, name DIR man1 and add its parent directory to MANPATH. The pages have the
current date, or that of the environment variable ` + manDateVariable + `.`,
		Example: `  espalier man man1
  man ./man1/espalier-prune.1`,
		Args: exactArgs("DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			dir := args[0]
			date, err := a.manDate()
			if err != nil {
				return err
			}
			if err := a.dir.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			n, err := writeManual(c.Root(), a.dir.Path(dir), date)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "%d pages written to %s\n", n, dir)
			return nil
		},
	}
}

// manDateVariable is the environment variable with the date of manual pages, in seconds since 1970.
// Packages that are built reproducibly set it.
const manDateVariable = "SOURCE_DATE_EPOCH"

// manDate returns the date of manual pages.
func (a *app) manDate() (time.Time, error) {
	text, ok := a.environ(manDateVariable)
	if !ok || text == "" {
		return time.Now(), nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s=%s: must be a number of seconds", manDateVariable, text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// writeManual writes the pages of a command and its subcommands, and returns their number.
func writeManual(c *cobra.Command, dir string, date time.Time) (n int, err error) {
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		below, err := writeManual(sub, dir, date)
		if n += below; err != nil {
			return n, err
		}
	}
	return n + 1, os.WriteFile(filepath.Join(dir, manName(c)+".1"), []byte(manPage(c, date)), 0o644)
}

// manName returns the name of the page of a command.
func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage returns the page of a command. Its texts are those of the help.
func manPage(c *cobra.Command, date time.Time) string {
	c.InitDefaultHelpFlag()
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %q 1 %q %q \"Espalier\"\n", strings.ToUpper(manName(c)), date.Format("2006-01-02"), "espalier "+buildVersion().version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", manText(manName(c)), manText(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n\\fB%s\\fP\n", manText(c.UseLine()))
	b.WriteString(".SH DESCRIPTION\n")
	for _, paragraph := range strings.Split(c.Long, "\n\n") {
		if strings.HasPrefix(paragraph, " ") || strings.Contains(paragraph, "\n ") {
			manVerbatim(&b, paragraph)
		} else {
			b.WriteString(".PP\n" + manText(paragraph) + "\n")
		}
	}
	if subs := slices.DeleteFunc(slices.Clone(c.Commands()), func(sub *cobra.Command) bool { return !sub.IsAvailableCommand() }); len(subs) > 0 {
		b.WriteString(".SH COMMANDS\n")
		for _, sub := range subs {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", manText(sub.Name()), manText(sub.Short))
		}
	}
	groups, order := flagGroups(c)
	for _, group := range order {
		if groups[group].HasAvailableFlags() {
			fmt.Fprintf(&b, ".SH %s FLAGS\n", manText(strings.ToUpper(group)))
			manVerbatim(&b, groups[group].FlagUsagesWrapped(manWidth))
		}
	}
	if c.HasExample() {
		b.WriteString(".SH EXAMPLES\n")
		manVerbatim(&b, c.Example)
	}
	var others []string
	if c.HasParent() {
		others = append(others, manName(c.Parent()))
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			others = append(others, manName(sub))
		}
	}
	if len(others) > 0 {
		b.WriteString(".SH SEE ALSO\n")
		for i, name := range others {
			separator := ","
			if i == len(others)-1 {
				separator = ""
			}
			fmt.Fprintf(&b, ".BR %s (1)%s\n", manText(name), separator)
		}
	}
	return b.String()
}

// manWidth is the width of the lines of flags: a terminal with 80 columns without the margins of man.
const manWidth = 72

// manVerbatim writes text that keeps its lines.
func manVerbatim(b *strings.Builder, text string) {
	b.WriteString(".PP\n.nf\n" + manText(strings.Trim(text, "\n")) + "\n.fi\n")
}

// manText returns a text as roff has it. Lines that begin with a dot or a quote are requests, and a
// dash without a backslash is printed as a hyphen, which a shell does not understand.
func manText(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
