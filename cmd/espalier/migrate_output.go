package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"espalier.dev/analysis"
	"espalier.dev/cmd/espalier/internal/migrate"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/internal/textdiff"
	"espalier.dev/internal/yamlx"
)

// migratedObject is the outcome of an object in JSON and YAML.
type migratedObject struct {
	CRD       string         `json:"crd"`
	Namespace string         `json:"namespace,omitempty"`
	Name      string         `json:"name"`
	Result    migrate.Result `json:"result"`
	Error     string         `json:"error,omitempty"`
	Dropped   []droppedField `json:"dropped,omitempty"`
	Diff      string         `json:"diff,omitempty"`
}

// droppedField is a part of a stored object that a write drops.
type droppedField struct {
	Path    string `json:"path"`
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// migratedCRD is the summary of a CRD in JSON and YAML.
type migratedCRD struct {
	CRD            string                   `json:"crd"`
	StorageVersion string                   `json:"storageVersion"`
	StoredVersions []string                 `json:"storedVersionsBefore"`
	DryRun         bool                     `json:"dryRun"`
	Complete       bool                     `json:"complete"`
	Error          string                   `json:"error,omitempty"`
	Objects        int64                    `json:"objects"`
	Results        map[migrate.Result]int64 `json:"results"`
	DroppedFields  *int64                   `json:"droppedFields,omitempty"`
	DroppedFrom    *int64                   `json:"droppedFrom,omitempty"`
}

// listWriter writes the objects of a report as the command finds them, and then a summary: the
// number of objects is not limited by memory.
type listWriter struct {
	a        *app
	output   string
	progress *progress
	objects  int
}

// count counts an object for the progress.
func (w *listWriter) count() {
	if w.progress != nil {
		w.progress.Count("objects")
	}
}

// print writes text to standard output.
func (w *listWriter) print(text []byte) error {
	if w.progress != nil {
		w.progress.Clear()
	}
	_, err := w.a.stdout.Write(text)
	return err
}

// add writes an object as JSON or YAML.
func (w *listWriter) add(object any) error {
	w.objects++
	if w.output == "yaml" {
		text, err := yamlx.Marshal([]any{object})
		if err != nil {
			return err
		}
		if w.objects == 1 {
			text = append([]byte("objects:\n"), text...)
		}
		return w.print(text)
	}
	text, err := indented(object, "    ")
	if err != nil {
		return err
	}
	head := ",\n    "
	if w.objects == 1 {
		head = "{\n  \"objects\": [\n    "
	}
	return w.print(append([]byte(head), text...))
}

// end writes the summary after the objects, as JSON or YAML.
func (w *listWriter) end(name string, summary any) error {
	if w.output == "yaml" {
		text, err := yamlx.Marshal(map[string]any{name: summary})
		if w.objects == 0 {
			text = append([]byte("objects: []\n"), text...)
		}
		if err != nil {
			return err
		}
		return w.print(text)
	}
	text, err := indented(summary, "  ")
	if err != nil {
		return err
	}
	head := "\n  ],\n"
	if w.objects == 0 {
		head = "{\n  \"objects\": [],\n"
	}
	return w.print(fmt.Appendf(nil, "%s  %q: %s\n}\n", head, name, text))
}

// indented returns JSON whose lines after the first have a prefix, without a newline at the end.
func indented(v any, prefix string) ([]byte, error) {
	text, err := indentedJSON(v)
	return bytes.ReplaceAll(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"), []byte("\n"+prefix)), err
}

// migrationWriter writes the report of a migration.
type migrationWriter struct {
	a             *app
	quiet, dryRun bool
	// stored is set if it is known how objects are stored.
	stored bool
	list   listWriter
	crds   []migratedCRD
}

// isNews reports whether the outcome of an object is worth reporting.
func isNews(o *migrate.Outcome) bool {
	switch o.Result {
	case migrate.Unchanged, migrate.Accepted, migrate.Skipped:
		return false
	}
	return true
}

// object writes the outcome of an object.
func (w *migrationWriter) object(o *migrate.Outcome) error {
	w.list.count()
	if !isNews(o) {
		return nil
	}
	diff, err := storedDiff(o)
	if err != nil {
		return err
	}
	if w.list.output == "text" {
		return w.text(o, diff)
	}
	out := migratedObject{CRD: o.CRD, Namespace: o.Object.Namespace, Name: o.Object.Name, Result: o.Result}
	if o.Err != nil {
		out.Error = o.Err.Error()
	}
	for _, p := range o.Drops() {
		out.Dropped = append(out.Dropped, droppedField{p.Path.String(), p.Kind.String(), p.Message})
	}
	if diff != nil {
		out.Diff = string(diff(textdiff.Style{}))
	}
	return w.list.add(out)
}

// text writes the outcome of an object for people.
func (w *migrationWriter) text(o *migrate.Outcome, diff func(textdiff.Style) []byte) error {
	switch {
	case o.Result == migrate.Failed:
		return w.list.print(fmt.Appendln(nil, report.OneLine(fmt.Sprintf("%s %s: rejected: %v", o.CRD, o.Object, o.Err))))
	case diff == nil:
		return nil
	}
	var style textdiff.Style
	if w.a.useColor(w.a.stdout) {
		style = diffStyle()
	}
	return w.list.print(diff(style))
}

// storedDiff returns the difference between an object as it was stored and as it is stored now,
// or nil if there is none, or it is not known.
func storedDiff(o *migrate.Outcome) (func(textdiff.Style) []byte, error) {
	if o.Found == nil || o.Found.Object == nil {
		return nil, nil
	}
	was, err := yaml.JSONToYAML(o.Stored)
	if err != nil {
		return nil, nil // it is not JSON
	}
	text, err := json.Marshal(o.Found.Object)
	if err != nil {
		return nil, err
	}
	is, err := yaml.JSONToYAML(text)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(was, is) {
		return nil, nil
	}
	file := o.CRD + "/" + o.Object.String()
	return func(style textdiff.Style) []byte {
		return style.Unified(textdiff.FileName("stored", file), textdiff.FileName("migrated", file), was, is, 3)
	}, nil
}

// summary writes the summary of a CRD. err is why the migration has ended early, or nil.
func (w *migrationWriter) summary(r *migrate.Resource, counts *migrate.Counts, err error) error {
	s := migratedCRD{
		CRD: r.CRD.Name, StorageVersion: r.Storage, StoredVersions: r.CRD.Status.StoredVersions, DryRun: w.dryRun,
		Complete: err == nil && !w.dryRun && counts.Of[migrate.Failed] == 0, Objects: counts.Objects, Results: counts.Of,
	}
	if err != nil {
		s.Error = err.Error()
	}
	if w.stored {
		s.DroppedFields, s.DroppedFrom = &counts.DroppedFields, &counts.DroppedFrom
	}
	w.crds = append(w.crds, s)
	if w.list.output != "text" || w.quiet {
		return nil
	}
	return w.list.print([]byte(summaryText(&s)))
}

// resultTexts has the results in the order of a summary.
func resultTexts() []struct {
	result       migrate.Result
	done, dryRun string
} {
	return []struct {
		result       migrate.Result
		done, dryRun string
	}{
		{migrate.Rewritten, "rewritten", "to be rewritten"},
		{migrate.Unchanged, "unchanged", "unchanged"},
		{migrate.Accepted, "accepted", "would be accepted"},
		{migrate.Skipped, "written before", "written before"},
		{migrate.Overtaken, "written by others", "written by others"},
		{migrate.Deleted, "deleted meanwhile", "deleted meanwhile"},
		{migrate.Failed, "rejected", "would be rejected"},
	}
}

// summaryText returns the summary of a CRD for people.
func summaryText(s *migratedCRD) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", s.CRD, analysis.Plural(int(s.Objects), "object"))
	sep := ": "
	for _, r := range resultTexts() {
		if n := s.Results[r.result]; n > 0 {
			text := r.done
			if s.DryRun {
				text = r.dryRun
			}
			fmt.Fprintf(&b, "%s%d %s", sep, n, text)
			sep = ", "
		}
	}
	if s.DroppedFields != nil {
		verb := "dropped"
		if s.DryRun {
			verb = "to be dropped"
		}
		fmt.Fprintf(&b, "; %s %s from %s", analysis.Plural(int(*s.DroppedFields), "field"), verb,
			analysis.Plural(int(*s.DroppedFrom), "object"))
	}
	switch {
	case s.Error != "":
		b.WriteString("; not complete")
	case s.Complete && len(s.StoredVersions) == 1 && s.StoredVersions[0] == s.StorageVersion:
		fmt.Fprintf(&b, "; all are stored in version %s", s.StorageVersion)
	case s.Complete:
		fmt.Fprintf(&b, "; storedVersions was [%s] and is [%s]", strings.Join(s.StoredVersions, ", "), s.StorageVersion)
	case !s.DryRun:
		fmt.Fprintf(&b, "; storedVersions is still [%s]", strings.Join(s.StoredVersions, ", "))
	}
	b.WriteString("\n")
	return b.String()
}

// close ends the report. complete is false if the migration has ended early.
func (w *migrationWriter) close(complete bool) error {
	if w.list.output != "text" {
		return w.list.end("crds", w.crds)
	}
	if err := w.list.print(nil); err != nil || !complete || !w.dryRun || w.quiet {
		return err
	}
	text := "nothing was written: add --write to migrate\n"
	if !w.stored {
		text = "data that is stored but not served is not visible through the API: add --etcd-servers or --snapshot to see what would be dropped\n" + text
	}
	_, err := w.a.stderr.Write([]byte(text))
	return err
}
