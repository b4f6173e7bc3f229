package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// printRows writes the table of a case.
func printRows(out io.Writer, in *input, rows []row) error {
	size := 0
	for _, src := range in.sources {
		size += len(src)
	}
	fmt.Fprintf(out, "\n%s: %d properties; %d object(s), %s; %d valid; reference and ours agree\n",
		in.title, in.properties, len(in.sources), bytesText(float64(size)), len(in.oursTrees))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%-21s\treference\tours\ttime\treference\tours\tbytes\treference\tours\tallocs\t  %s\n", "operation", "target")
	for _, r := range rows {
		fmt.Fprintf(w, "%-21s\t%s\t%s\t%s\t%s\t%s\t%s\t%.0f\t%.0f\t%s\t  %s\n", r.Operation,
			timeText(r.Reference.NS), timeText(r.Ours.NS), ratioText(r.Ratio.Time),
			bytesText(r.Reference.Bytes), bytesText(r.Ours.Bytes), ratioText(r.Ratio.Bytes),
			r.Reference.Allocs, r.Ours.Allocs, ratioText(r.Ratio.Allocs),
			targetText(r))
	}
	return w.Flush()
}

func timeText(ns float64) string {
	d := time.Duration(ns)
	switch {
	case d >= 100*time.Millisecond:
		return d.Round(time.Millisecond).String()
	case d >= 100*time.Microsecond:
		return d.Round(time.Microsecond).String()
	}
	return d.String()
}

func bytesText(n float64) string {
	switch {
	case isNothing(n):
		return "0"
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", n/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.1f KB", n/1e3)
	}
	return fmt.Sprintf("%.0f B", n)
}

func ratioText(q *float64) string {
	if q == nil {
		return "-"
	}
	return fmt.Sprintf("%.1fx", *q)
}

// targetText returns the target and whether it is reached.
func targetText(r row) string {
	t := r.Target
	if t == nil {
		return ""
	}
	var parts []string
	if t.Time > 0 {
		parts = append(parts, fmt.Sprintf("time %gx", t.Time))
	}
	if t.Bytes > 0 {
		parts = append(parts, fmt.Sprintf("bytes %gx", t.Bytes))
	}
	if t.NoAllocs {
		parts = append(parts, "0 allocs")
	}
	verdict := "reached"
	if !t.metBy(r) {
		verdict = "NOT YET"
	}
	return strings.Join(parts, ", ") + ": " + verdict
}
