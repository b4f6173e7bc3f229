package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"text/tabwriter"
	"time"
)

// result is a measured row.
type result struct {
	Row       string             `json:"row"`
	Title     string             `json:"title"`
	Unit      string             `json:"unit"`
	Reference *float64           `json:"reference,omitempty"`
	Espalier  *float64           `json:"espalier,omitempty"`
	Ratio     *float64           `json:"ratio,omitempty"`
	Must      string             `json:"must,omitempty"`
	Met       *bool              `json:"met,omitempty"`
	Error     string             `json:"error,omitempty"`
	Details   map[string]float64 `json:"details,omitempty"`
}

// must is what a row has to reach. The zero value means nothing.
type must struct {
	// ratio is how many times as much the reference has to need.
	ratio float64
	// most is the largest value of Espalier, in the unit of the row, and least the smallest.
	most, least float64
	// zero means that Espalier's value has to round to 0.
	zero bool
}

func (m must) text(unit string) string {
	switch {
	case m.ratio > 0:
		return fmt.Sprintf("%gx", m.ratio)
	case m.most > 0:
		return fmt.Sprintf("<= %g %s", m.most, unit)
	case m.least > 0:
		return fmt.Sprintf(">= %g %s", m.least, unit)
	case m.zero:
		return "0"
	}
	return ""
}

// met reports whether the must is reached; nil means that there is none, or nothing to compare
// with.
func (m must) met(r result) *bool {
	var ok bool
	switch {
	case r.Espalier == nil:
		return nil
	case m.ratio > 0:
		if r.Ratio == nil {
			return nil
		}
		ok = *r.Ratio >= m.ratio
	case m.most > 0:
		ok = *r.Espalier <= m.most
	case m.least > 0:
		ok = *r.Espalier >= m.least
	case m.zero:
		ok = *r.Espalier < 0.5
	default:
		return nil
	}
	return &ok
}

// finish computes what follows from the figures of a row.
func (r *result) finish(m must) {
	if r.Reference != nil && r.Espalier != nil && *r.Espalier > 0 {
		q := *r.Reference / *r.Espalier
		r.Ratio = &q
	}
	r.Must, r.Met = m.text(r.Unit), m.met(*r)
}

// printTable prints the results beside those of base.
func printTable(out io.Writer, base string, results []result) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "row\twork\t"+base+"\tespalier\tunit\tratio\tmust\t")
	for _, r := range results {
		ratio, verdict := "", ""
		if r.Ratio != nil {
			ratio = fmt.Sprintf("%.1fx", *r.Ratio)
			if *r.Ratio < 2 {
				ratio = fmt.Sprintf("%.2fx", *r.Ratio)
			}
		}
		switch {
		case r.Error != "":
			verdict = "FAILED"
		case r.Met == nil:
		case *r.Met:
			verdict = "met"
		default:
			verdict = "MISSED"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Row, r.Title, number(r.Reference), number(r.Espalier), r.Unit, ratio, r.Must, verdict)
	}
	_ = w.Flush() // to a terminal
}

// number returns a figure with three significant digits.
func number(v *float64) string {
	switch {
	case v == nil:
		return ""
	case *v >= 100:
		return fmt.Sprintf("%.0f", *v)
	case *v >= 10:
		return fmt.Sprintf("%.1f", *v)
	case *v >= 1:
		return fmt.Sprintf("%.2f", *v)
	}
	return fmt.Sprintf("%.3f", *v)
}

// writeJSON writes all figures to a file.
func writeJSON(file string, b *bench) error {
	data, err := json.MarshalIndent(struct {
		Time    time.Time `json:"time"`
		Go      string    `json:"go"`
		CPUs    int       `json:"cpus"`
		Clients int       `json:"clients"`
		Turns   int       `json:"turns"`
		Rows    []result  `json:"rows"`
		Scale   []scaled  `json:"scale,omitempty"`
	}{time.Now().UTC().Round(time.Second), runtime.Version(), runtime.NumCPU(), concurrency, b.settings.turns, b.results, b.scale}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}
