package timeline

import (
	"fmt"
	"io"
	"strings"
	"time"

	"espalier.dev/internal/textdiff"
)

// Text writes changes for people: a line for each change, and the fields that have changed below it.
type Text struct {
	w io.Writer
	o TextOptions
	// first is the time that others are relative to.
	first time.Time
}

// TextOptions configures a [Text]. The data of Secrets is always masked.
type TextOptions struct {
	// ManagedFields also shows changes of metadata.managedFields and metadata.resourceVersion.
	ManagedFields bool
	// MaxLines is the maximum number of lines for the fields of a change; 0 means no limit. Further
	// ones are counted.
	MaxLines int
	// Brief leaves out the fields.
	Brief bool
	// Masker masks the data of Secrets. Nil means a new one.
	Masker *Masker
}

// NewText returns a Text.
func NewText(w io.Writer, o TextOptions) *Text {
	if o.Masker == nil {
		o.Masker = NewMasker()
	}
	return &Text{w: w, o: o}
}

// Start sets the time that the times of changes are relative to. By default, it is that of the first
// change that is written.
func (t *Text) Start(at time.Time) { t.first = at }

// Header writes what is known about all changes.
func (t *Text) Header(h Header) error {
	var b strings.Builder
	if h.Test != "" {
		fmt.Fprintf(&b, "# Changes of stored objects in %s\n", h.Test)
	}
	var why []string
	if h.Omitted > 0 {
		why = append(why, fmt.Sprintf("the first %d changes are left out, because there are too many", h.Omitted))
	}
	if h.Compacted {
		why = append(why, "earlier changes were compacted")
	}
	if len(why) > 0 {
		fmt.Fprintf(&b, "# The timeline begins after revision %d: %s\n", h.After, strings.Join(why, ", and "))
	}
	return t.write(b.String())
}

// write writes lines without control characters: a file may be shown in a terminal.
func (t *Text) write(text string) error {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(textdiff.Printable(strings.TrimSuffix(line, "\n")) + "\n")
	}
	_, err := io.WriteString(t.w, b.String())
	return err
}

// Change writes a change.
func (t *Text) Change(c *Change) error {
	if t.first.IsZero() {
		t.first = c.Time
	}
	line := fmt.Sprintf("%d  %s  +%.3fs  %s %s  by %s", c.Revision, c.Time.UTC().Format("15:04:05.000"),
		c.Time.Sub(t.first).Seconds(), c.Action, c.Object(), c.Origin)
	return t.write(strings.ReplaceAll(line, "\n", " ") + "\n" + t.body(c))
}

// body returns the lines below the first one of a change.
func (t *Text) body(c *Change) string {
	switch {
	case t.o.Brief:
		return ""
	case c.Unreadable != "":
		return "    (" + strings.ReplaceAll(c.Unreadable, "\n", " ") + ")\n"
	case c.Action == Delete:
		return "" // the changes before it have the fields
	}
	c = t.o.Masker.Change(c)
	diff := Diff(c.Before, c.After, DiffOptions{ManagedFields: t.o.ManagedFields})
	if diff == "" {
		return "    (only managedFields and resourceVersion have changed)\n"
	}
	return Indent(diff, t.o.MaxLines)
}

// Indent returns a diff as it is below the line of a change, with at most a number of lines, if that
// is not zero.
func Indent(diff string, maxLines int) string {
	var b strings.Builder
	n := 0
	for line := range strings.Lines(diff) {
		if n++; maxLines == 0 || n <= maxLines {
			b.WriteString("    " + line)
		}
	}
	if maxLines > 0 && n > maxLines {
		fmt.Fprintf(&b, "      … %d more lines\n", n-maxLines)
	}
	return b.String()
}
