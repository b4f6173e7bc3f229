package main

import (
	"fmt"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/cmd/espalier/internal/migrate"
	"espalier.dev/cmd/espalier/internal/report"
)

// restoredObject is the outcome of an object in JSON and YAML.
type restoredObject struct {
	CRD       string         `json:"crd"`
	Namespace string         `json:"namespace,omitempty"`
	Name      string         `json:"name"`
	Result    migrate.Undone `json:"result"`
	Error     string         `json:"error,omitempty"`
	// NotPutBack are the fields of the backup that the server has dropped or changed.
	NotPutBack []string `json:"notPutBack,omitempty"`
	// ServedOnly is true if the backup does not have the data that was stored but not served.
	ServedOnly bool `json:"servedOnly,omitempty"`
}

// undoSummary is the summary in JSON and YAML.
type undoSummary struct {
	DryRun     bool                     `json:"dryRun"`
	Complete   bool                     `json:"complete"`
	Error      string                   `json:"error,omitempty"`
	Results    map[migrate.Undone]int64 `json:"results"`
	ServedOnly int64                    `json:"servedOnly"`
	// Incomplete is the number of objects with fields that were not put back.
	Incomplete int64 `json:"incomplete"`
}

// undoWriter writes the report of putting objects back.
type undoWriter struct {
	a             *app
	quiet, dryRun bool
	list          listWriter
	counts        map[migrate.Undone]int64
	servedOnly    int64
	incomplete    int64
}

// object writes the outcome of an object.
func (w *undoWriter) object(r *migrate.Restored) error {
	w.list.count()
	w.counts[r.Result]++
	if r.ServedOnly {
		w.servedOnly++
	}
	if len(r.Missing) > 0 {
		w.incomplete++
	}
	if w.list.output != "text" {
		out := restoredObject{CRD: r.CRD, Namespace: r.Namespace, Name: r.Name, Result: r.Result,
			NotPutBack: r.Missing, ServedOnly: r.ServedOnly}
		if r.Err != nil {
			out.Error = r.Err.Error()
		}
		return w.list.add(out)
	}
	text := ""
	switch r.Result {
	case migrate.Rejected:
		text = fmt.Sprintf("rejected: %v", r.Err)
	case migrate.Changed:
		text = "not put back: it was written after the migration"
	case migrate.Gone:
		text = "not put back: it was deleted after the migration (--recreate creates it again)"
	default:
		if len(r.Missing) == 0 {
			return nil
		}
		text = "fields that are not put back, because the CRD does not specify them: " + strings.Join(r.Missing, ", ")
	}
	return w.list.print(fmt.Appendln(nil, report.OneLine(fmt.Sprintf("%s %s: %s", r.CRD, r, text))))
}

// close ends the report. err is why it has ended early, or nil.
func (w *undoWriter) close(err error) error {
	if w.list.output != "text" {
		s := undoSummary{DryRun: w.dryRun, Complete: err == nil && !w.dryRun, Results: w.counts,
			ServedOnly: w.servedOnly, Incomplete: w.incomplete}
		if err != nil {
			s.Error = err.Error()
		}
		return w.list.end("summary", s)
	}
	if w.quiet {
		return w.list.print(nil)
	}
	var parts []string
	for _, r := range []struct {
		result       migrate.Undone
		done, dryRun string
	}{
		{migrate.PutBack, "put back", "would be put back"},
		{migrate.Recreated, "created again", "would be created again"},
		{migrate.Same, "served as in the backup", "served as in the backup"},
		{migrate.Changed, "written since", "written since"},
		{migrate.Gone, "deleted since", "deleted since"},
		{migrate.Rejected, "rejected", "would be rejected"},
	} {
		if n := w.counts[r.result]; n > 0 {
			text := r.done
			if w.dryRun {
				text = r.dryRun
			}
			parts = append(parts, fmt.Sprintf("%d %s", n, text))
		}
	}
	switch {
	case len(parts) == 0 && err != nil:
		return w.list.print(nil)
	case len(parts) == 0:
		parts = []string{"no object of the backup was changed by the migration"}
	}
	text := strings.Join(parts, ", ")
	if w.servedOnly > 0 {
		text += fmt.Sprintf("; the backup has %s only as served, without the data that was hidden", analysis.Plural(int(w.servedOnly),
			"object"))
	}
	if w.incomplete > 0 {
		text += fmt.Sprintf("; not all fields of %s: change the CRD and run the same command again", analysis.Plural(int(w.incomplete),
			"object"))
	}
	if err != nil {
		text += "; not complete"
	}
	if failed := w.list.print([]byte(text + "\n")); failed != nil || err != nil || !w.dryRun {
		return failed
	}
	_, err = w.a.stderr.Write([]byte("nothing was written: add --write to put the objects back\n"))
	return err
}
