package main

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// row is a line of the table. A value of zero was not measured.
type row struct {
	name string
	of   func(figures) int64
	text func(int64) string
}

func rows() []row {
	duration := func(of func(figures) time.Duration) func(figures) int64 {
		return func(f figures) int64 { return int64(of(f)) }
	}
	seconds := func(v int64) string { return time.Duration(v).Round(time.Millisecond).String() }
	megabytes := func(v int64) string { return fmt.Sprintf("%d MB", v>>20) }
	return []row{
		{"etcd healthy", duration(func(f figures) time.Duration { return f.etcd }), seconds},
		{"kube-apiserver healthy", duration(func(f figures) time.Duration { return f.apiserver }), seconds},
		{"both healthy", duration(func(f figures) time.Duration { return f.etcd + f.apiserver }), seconds},
		{"envtest.Environment.Start", duration(func(f figures) time.Duration { return f.environment }), seconds},
		{"espaliertest.Environment.Start", duration(func(f figures) time.Duration { return f.imported }), seconds},
		{"stop", duration(func(f figures) time.Duration { return f.stop }), seconds},
		{"resident memory of both (RSS)", func(f figures) int64 { return f.resident }, megabytes},
		{"proportional memory of both (PSS)", func(f figures) int64 { return f.proportional }, megabytes},
	}
}

// printTable prints the medians, and how many times the real ones are larger. The start of
// espaliertest's Environment is compared with that of envtest's.
func printTable(w io.Writer, all [][]figures) {
	const names, values = "%-34s", "  %9s"
	fmt.Fprintf(w, names+values, fmt.Sprintf("MEDIAN OF %d", len(all[0])), "ESPALIER")
	if len(all) > 1 {
		fmt.Fprintf(w, values+values, "REAL", "REAL/OURS")
	}
	fmt.Fprintln(w)
	var real int64
	for _, r := range rows() {
		ours := median(all[0], r.of)
		fmt.Fprintf(w, names+values, r.name, r.text(ours))
		if len(all) > 1 {
			text := ""
			if value := median(all[1], r.of); value > 0 {
				real, text = value, r.text(value)
			}
			fmt.Fprintf(w, values+values, text, fmt.Sprintf("%.1f×", float64(real)/float64(max(ours, 1))))
		}
		fmt.Fprintln(w)
	}
}

func median(all []figures, of func(figures) int64) int64 {
	values := make([]int64, 0, len(all))
	for _, f := range all {
		values = append(values, of(f))
	}
	slices.Sort(values)
	return values[len(values)/2]
}
