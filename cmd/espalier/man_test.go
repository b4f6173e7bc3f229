package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// TestManPage compares the pages of commands with all parts that a page can have.
func TestManPage(t *testing.T) {
	t.Parallel()
	root := &cobra.Command{Use: "tool", Short: "Do things", Long: "Do things.\n\nWith .dots, C:\\ and --flags.\n.first\n'quoted'\n\nList:\n  a  one\n  b  two"}
	sub := &cobra.Command{Use: "sub FILE", Short: "Do one thing", Long: "Do one thing.", Example: "  tool sub --name x", Run: func(*cobra.Command, []string) {}}
	sub.Flags().String("name", "x-y", "`NAME` to use")
	groupFlags(sub.Flags(), inputFlags, "name")
	hidden := &cobra.Command{Use: "hidden", Hidden: true, Run: sub.Run}
	root.AddCommand(sub, hidden)
	dir := t.TempDir()
	n, err := writeManual(root, dir, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	if err != nil || n != 2 {
		t.Fatalf("%d pages, %v", n, err)
	}
	version := "\"espalier " + buildVersion().version + "\""
	for name, want := range map[string]string{
		"tool.1": `.TH "TOOL" 1 "2026-01-02" ` + version + ` "Espalier"
.SH NAME
tool \- Do things
.SH SYNOPSIS
\fBtool [flags]\fP
.SH DESCRIPTION
.PP
Do things.
.PP
With .dots, C:\e and \-\-flags.
\&.first
\&'quoted'
.PP
.nf
List:
  a  one
  b  two
.fi
.SH COMMANDS
.TP
.B sub
Do one thing
.SH GENERAL FLAGS
.PP
.nf
  \-h, \-\-help   help for tool
.fi
.SH SEE ALSO
.BR tool\-sub (1)
`,
		"tool-sub.1": `.TH "TOOL-SUB" 1 "2026-01-02" ` + version + ` "Espalier"
.SH NAME
tool\-sub \- Do one thing
.SH SYNOPSIS
\fBtool sub FILE [flags]\fP
.SH DESCRIPTION
.PP
Do one thing.
.SH INPUT FLAGS
.PP
.nf
      \-\-name NAME   NAME to use (default "x\-y")
.fi
.SH GENERAL FLAGS
.PP
.nf
  \-h, \-\-help   help for sub
.fi
.SH EXAMPLES
.PP
.nf
  tool sub \-\-name x
.fi
.SH SEE ALSO
.BR tool (1)
`} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, want)
		}
	}
}

// TestManDate sets the date of the pages.
func TestManDate(t *testing.T) {
	t.Parallel()
	date := func(value string) (time.Time, error) {
		return (&app{environ: func(name string) (string, bool) { return value, name == "SOURCE_DATE_EPOCH" }}).manDate()
	}
	if got, err := date("86400"); err != nil || got != time.Date(1970, 1, 2, 0, 0, 0, 0, time.UTC) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := date(""); err != nil || time.Since(got) > time.Hour {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := date("today"); err == nil || !strings.Contains(err.Error(), "SOURCE_DATE_EPOCH=today: must be a number of seconds") {
		t.Errorf("got %v", err)
	}
}
