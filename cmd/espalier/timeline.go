package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"espalier.dev/analysis/timeline"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/internal/textdiff"
)

// timelineOptions are the flags of timeline.
type timelineOptions struct {
	filter        timeline.Filter
	since, until  string
	diff, brief   bool
	managedFields bool
	maxLines      int
	output        string
}

func newTimelineCommand(a *app) *cobra.Command {
	var o timelineOptions
	c := &cobra.Command{
		Use:   "timeline FILE [RESOURCE[/NAME]...]",
		Short: "Show who has changed which objects when, from the timeline of a failed test",
		Long: `Timeline shows a file timeline.jsonl. Tests with servers of the Go package espaliertest write it
into their artifact directory when they fail: run go test with -artifacts to keep it. It has
all changes of objects since the server was ready, including those of controllers. - reads
standard input.

RESOURCE is a kind or a plural name, in any case, with or without the group: CronTab, crontabs,
crontabs.example.com. With several of them, the changes of all are shown.

Each change begins with a line, followed by the fields that have changed:
  12  15:04:05.120  +1.500s  update CronTab default/nightly  by alice (patch crontabs.example.com)
        spec:
      -   replicas: 1
      +   replicas: 3
The line has the revision (the resourceVersion of the object after the change), the time in
UTC, the time since the first change, what has happened, and the user and the request, or the
controller of the server. A deletion has no fields.

--diff shows what has changed in total instead: for each object one difference between its
state at the revision --from and its state at --to. By default, these are the beginning and
the end of the file.

The data of Secrets is masked in the file: equal values have equal digests.

-o json prints a timeline again, so that filters can be combined. With --diff it prints an
object with the fields before and after on each line.

Exit codes: 0 success, ` + otherExitCodes + `.`,
		Example: `  # What has happened?
  espalier timeline timeline.jsonl

  # An overview: a line for each change
  espalier timeline timeline.jsonl --brief

  # The changes of one object
  espalier timeline timeline.jsonl crontabs/nightly -n default

  # What has the controller written in the first two seconds?
  espalier timeline timeline.jsonl --user system:serviceaccount:default:controller --until 2s

  # What is the difference between revisions 30 and 32 of an object?
  espalier timeline timeline.jsonl crontabs/nightly --diff --from 30 --to 32

  # Read the timeline from a pipe
  cat timeline.jsonl | espalier timeline - --brief`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError(c, errors.New("timeline needs FILE: a file timeline.jsonl, or - for standard input"))
			}
			return nil
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return withPrefix(start, resourceNames(nil)), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error { return a.timeline(c, o, args[0], args[1:]) },
	}
	flags := c.Flags()
	flags.StringVarP(&o.filter.Namespace, "namespace", "n", "", "`namespace` of the objects")
	flags.StringVar(&o.filter.User, "user", "", "`name` of the user of the requests, or of the controller in the server")
	flags.StringVar(&o.filter.Verb, "verb", "",
		"`verb` of the requests: create, update, patch, delete, deletecollection, or expire for objects whose time to live has ended")
	flags.StringVar(&o.since, "since", "", "`time` of the first change to show: 2026-01-02T15:04:05Z, or 1.5s after the first change of the file")
	flags.StringVar(&o.until, "until", "", "`time` of the last change to show, as for --since")
	flags.Int64Var(&o.filter.From, "from", 0, "first `revision` to show, or that --diff begins with")
	flags.Int64Var(&o.filter.To, "to", 0, "last `revision` to show, or that --diff ends with; 0 for the last one of the file")
	groupFlags(flags, inputFlags, "namespace", "user", "verb", "since", "until", "from", "to")
	flags.BoolVar(&o.diff, "diff", false, "show one difference for each object, between the revisions --from and --to")
	flags.BoolVar(&o.brief, "brief", false, "show a line for each change, without the fields")
	flags.BoolVar(&o.managedFields, "show-managed-fields", false, "show changes of metadata.managedFields and metadata.resourceVersion, too")
	flags.IntVar(&o.maxLines, "max-lines", 100, "maximum `number` of lines for the fields of a change, 0 for all; further ones are counted")
	flags.StringVarP(&o.output, "output", "o", "text", "output `FORMAT`: text or json")
	groupFlags(flags, outputFlags, "diff", "brief", "show-managed-fields", "max-lines", "output")
	completeValues(c, "output", "text", "json")
	completeValues(c, "verb", "create", "update", "patch", "delete", "deletecollection", timeline.Expire)
	for _, name := range []string{"namespace", "user", "since", "until", "from", "to", "max-lines"} {
		completeValues(c, name)
	}
	return c
}

func (a *app) timeline(c *cobra.Command, o timelineOptions, path string, objects []string) (err error) {
	if err := o.check(c); err != nil {
		return err
	}
	filters, err := o.filters(objects)
	if err != nil {
		return usageError(c, err)
	}
	in, name := a.stdin, path
	if path == "-" {
		name = input.Stdin
	} else {
		f, err := a.dir.Open(path)
		if err != nil {
			return fmt.Errorf("%s: cannot read: %w", path, input.Reason(err))
		}
		defer func() { _ = f.Close() }() // it is only read
		in = f
	}
	r, err := timeline.NewReader(in)
	if err != nil {
		return inTimeline(name, err)
	}
	if after := r.Header().After; o.diff && o.filter.From > 0 && o.filter.From < after {
		fmt.Fprintf(a.stderr, "%s: %s begins after revision %d: --diff compares from there instead of --from %d\n", a.name(), name, after, o.filter.From)
	}
	out := bufio.NewWriter(a.stdout)
	defer func() { err = errors.Join(err, out.Flush()) }()
	show, err := a.newTimelineOutput(out, o, r.Header())
	if err != nil {
		return err
	}
	read, shown, err := showTimeline(c.Context(), r, filters, o, show)
	if err == nil {
		err = show.end()
	}
	if err != nil {
		return inTimeline(name, err)
	}
	if shown == 0 {
		fmt.Fprintf(a.stderr, "%s: none of the %d changes in %s is selected\n", a.name(), read, name)
	}
	return nil
}

// check returns an error if the flags contradict each other.
func (o *timelineOptions) check(c *cobra.Command) error {
	if o.output != "text" && o.output != "json" {
		return fmt.Errorf("-o %s: must be text or json", o.output)
	}
	if o.diff {
		for _, name := range []string{"user", "verb", "since", "until", "brief"} {
			if c.Flags().Changed(name) {
				return usageError(c, fmt.Errorf("--diff compares the states at two revisions: it cannot be combined with --%s", name))
			}
		}
	}
	if o.filter.From < 0 || o.filter.To < 0 || o.maxLines < 0 {
		return usageError(c, errors.New("--from, --to and --max-lines must not be negative"))
	}
	if o.filter.To > 0 && o.filter.From > o.filter.To {
		return usageError(c, fmt.Errorf("--from %d is after --to %d", o.filter.From, o.filter.To))
	}
	for flag, text := range map[string]string{"since": o.since, "until": o.until} {
		if _, err := timeOf(flag, text, time.Time{}); err != nil {
			return usageError(c, err)
		}
	}
	return nil
}

// filters returns a filter for each object, or one if there are none.
func (o *timelineOptions) filters(objects []string) (all []timeline.Filter, err error) {
	base := o.filter
	if o.diff && base.From > 0 {
		base.From++ // the change of that revision is part of the state
	}
	if len(objects) == 0 {
		return []timeline.Filter{base}, nil
	}
	for _, object := range objects {
		f := base
		var named bool
		f.Kind, f.Name, named = strings.Cut(object, "/")
		if f.Kind == "" || named && f.Name == "" || strings.Contains(f.Name, "/") {
			return nil, fmt.Errorf("%q is not an object: write RESOURCE or RESOURCE/NAME, as in crontabs/nightly, and select the namespace with -n", object)
		}
		all = append(all, f)
	}
	return all, nil
}

// inTimeline adds the file and the line to an error.
func inTimeline(name string, err error) error {
	var syntax *timeline.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("%s:%d: %w", name, syntax.Line, syntax.Err)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// showTimeline shows the changes that one of the filters selects, and returns how many were read and
// shown.
func showTimeline(ctx context.Context, r *timeline.Reader, filters []timeline.Filter, o timelineOptions,
	show timelineOutput) (read, shown int, err error) {
	for c, err := range r.All() {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return read, shown, err
		}
		if read++; read == 1 {
			// Times may be relative to the first change.
			for i := range filters {
				if filters[i].Since, err = timeOf("since", o.since, c.Time); err != nil {
					return read, shown, err
				}
				if filters[i].Until, err = timeOf("until", o.until, c.Time); err != nil {
					return read, shown, err
				}
			}
			show.start(c.Time)
		}
		if !slices.ContainsFunc(filters, func(f timeline.Filter) bool { return f.Match(c) }) {
			continue
		}
		shown++
		if err := show.change(c); err != nil {
			return read, shown, err
		}
	}
	return read, shown, nil
}

// timeOf parses a time, which may be relative to the first change.
func timeOf(flag, text string, first time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(strings.TrimPrefix(text, "+")); err == nil {
		return first.Add(d), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return t, fmt.Errorf("--%s %s: must be a time such as 2026-01-02T15:04:05Z, or the time since the first change such as 1.5s", flag, text)
	}
	return t, nil
}

// timelineOutput shows changes.
type timelineOutput interface {
	// start is called with the time of the first change of the file.
	start(time.Time)
	change(*timeline.Change) error
	end() error
}

// newTimelineOutput returns what shows changes as the flags say.
func (a *app) newTimelineOutput(w io.Writer, o timelineOptions, h timeline.Header) (timelineOutput, error) {
	lines := &timelineLines{w: w, color: a.useColor(a.stdout)}
	switch {
	case o.diff:
		return &timelineStates{o: o, w: w, lines: lines, states: map[string]*timelineState{}}, nil
	case o.output == "json":
		out, err := timeline.NewWriter(w, h, timeline.NewMasker())
		return timelineJSON{out}, err
	}
	text := timeline.NewText(lines, timeline.TextOptions{ManagedFields: o.managedFields, MaxLines: o.maxLines, Brief: o.brief})
	return timelineText{text}, text.Header(h)
}

// timelineText shows changes as text.
type timelineText struct{ *timeline.Text }

func (t timelineText) start(at time.Time)              { t.Start(at) }
func (t timelineText) change(c *timeline.Change) error { return t.Change(c) }
func (t timelineText) end() error                      { return nil }

// timelineJSON shows changes as a timeline.
type timelineJSON struct{ w *timeline.Writer }

func (t timelineJSON) start(time.Time)                 {}
func (t timelineJSON) change(c *timeline.Change) error { return t.w.Write(c) }
func (t timelineJSON) end() error                      { return nil }

// timelineStates shows how objects have changed in total. It keeps the first and the last state of
// each.
type timelineStates struct {
	o      timelineOptions
	w      io.Writer
	lines  io.Writer
	states map[string]*timelineState
	order  []*timelineState
}

// timelineState is how an object has changed.
type timelineState struct {
	Resource  string `json:"resource"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// From and To are the first and the last revision that have changed the object.
	From int64 `json:"from"`
	To   int64 `json:"to"`
	// Changes is the number of changes of the object.
	Changes int `json:"changes"`
	// Before and After are the object before the first change and after the last one.
	Before *unstructured.Unstructured `json:"before,omitempty"`
	After  *unstructured.Unstructured `json:"after,omitempty"`
	// Unreadable is the reason why the object before or after the changes is missing, although the object existed.
	Unreadable string `json:"unreadable,omitempty"`
	heading    string
	// noBefore is the reason why Before is missing.
	noBefore string
}

func (t *timelineStates) start(time.Time) {}

func (t *timelineStates) change(c *timeline.Change) error {
	key := c.Resource + " " + c.Namespace + "/" + c.Name
	s := t.states[key]
	if s == nil {
		s = &timelineState{Resource: c.Resource, Namespace: c.Namespace, Name: c.Name, From: c.Revision, Before: c.Before}
		if c.Before == nil && c.Action != timeline.Create {
			s.noBefore = c.Unreadable
		}
		t.states[key] = s
		t.order = append(t.order, s)
	}
	s.To, s.After, s.heading = c.Revision, c.After, strings.ReplaceAll(c.Object(), "\n", " ")
	s.Changes++
	if s.Unreadable = s.noBefore; s.Unreadable == "" && c.After == nil && c.Action != timeline.Delete {
		s.Unreadable = c.Unreadable
	}
	if c.Kind != "" {
		s.Kind = c.Kind
	}
	return nil
}

func (t *timelineStates) end() error {
	for _, s := range t.order {
		if t.o.output == "json" {
			if err := json.NewEncoder(t.w).Encode(s); err != nil {
				return err
			}
			continue
		}
		diff := timeline.Diff(s.Before, s.After, timeline.DiffOptions{ManagedFields: t.o.managedFields})
		switch {
		case s.Unreadable != "":
			diff = "    (" + strings.ReplaceAll(s.Unreadable, "\n", " ") + ")\n"
		case s.Before == nil && s.After == nil:
			diff = "    (created and deleted)\n"
		case diff == "":
			diff = "    (no field has changed in total)\n"
		default:
			diff = timeline.Indent(diff, t.o.maxLines)
		}
		changes := "change"
		if s.Changes != 1 {
			changes = "changes"
		}
		if _, err := fmt.Fprintf(t.lines, "%s  %d %s in revisions %d to %d\n%s", s.heading, s.Changes, changes, s.From, s.To, diff); err != nil {
			return err
		}
	}
	return nil
}

// timelineLines writes the lines of a text in colour, and without characters that would control the
// terminal. Each call of Write has whole lines.
type timelineLines struct {
	w     io.Writer
	color bool
}

func (l *timelineLines) Write(text []byte) (int, error) {
	var style textdiff.Style
	if l.color {
		style = diffStyle()
	}
	for line := range bytes.Lines(text) {
		shown := report.OneLine(strings.TrimSuffix(string(line), "\n"))
		paint := style.File
		if body, ok := strings.CutPrefix(shown, "    "); ok {
			switch {
			case strings.HasPrefix(body, "-"):
				paint = style.Delete
			case strings.HasPrefix(body, "+"):
				paint = style.Insert
			default:
				paint = nil
			}
		}
		if paint != nil {
			shown = paint(shown)
		}
		if _, err := io.WriteString(l.w, shown+"\n"); err != nil {
			return 0, err
		}
	}
	return len(text), nil
}
