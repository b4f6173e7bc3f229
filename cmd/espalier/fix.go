package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"espalier.dev/analysis"
	"espalier.dev/analysis/fix"
	"espalier.dev/analysis/lint"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/cmd/espalier/internal/suppress"
	"espalier.dev/cmd/espalier/internal/workdir"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/textdiff"
	"espalier.dev/internal/yamledit"
	"espalier.dev/internal/yamlx"
)

// fixOptions are the flags of fix.
type fixOptions struct {
	input   input.Flags
	report  reportFlags
	write   bool
	prune   bool
	disable []string
}

func newFixCommand(a *app) *cobra.Command {
	var o fixOptions
	c := &cobra.Command{
		Use:   "fix PATH...",
		Short: "Rewrite CRDs: v1beta1 to v1, non-structural schemas to structural ones",
		Long: `Fix converts v1beta1 CRDs to v1, makes schemas structural, replaces superseded keywords
and applies every fix that lint proposes. It prints a patch for git apply or patch -p1 in
the current directory, or in the directory that its first line names if files are outside,
or changes the files with --write. Comments, order and formatting of unchanged parts are
preserved.

Findings that a comment or the configuration file suppresses are not fixed.

A fixed CRD accepts every object that it accepted before. If v1 cannot express a
condition, the fixed CRD is less strict. If a problem needs your decision, fix leaves it as
it is. Both cases are reported on standard error. A value whose type is not specified
anywhere still accepts all types; add the type if there is one.

v1beta1 does not prune unknown fields unless preserveUnknownFields is false. Fix preserves
this behavior by adding x-kubernetes-preserve-unknown-fields to every object. With --prune,
unknown fields are pruned instead, as Kubernetes recommends. The fixed CRD has
preserveUnknownFields: false, because kubectl apply keeps the value of a CRD that was
created with v1beta1 if the manifest does not have the field.

Exit codes: 0 nothing to fix, or everything fixed with --write; 1 differences (unless
--fail-on=never is set), or errors that need a decision (or what --fail-on selects);
` + otherExitCodes + `.`,
		Example: `  # Show what would change
  espalier fix crontab-v1beta1.yaml

  # Change all CRDs below a directory
  espalier fix -R -f crds/ --write

  # Convert from v1beta1 to v1, and start pruning
  espalier fix -f crontab-v1beta1.yaml --prune`,
		ValidArgsFunction: completePaths,
		RunE: func(c *cobra.Command, args []string) error {
			o.input.Paths = append(o.input.Paths, args...)
			return a.fix(c, o)
		},
	}
	addInputFlags(c, &o.input, "CRDs", input.Definitions)
	c.Flags().BoolVar(&o.prune, "prune", false, "prune unknown fields, even where v1beta1 did not")
	c.Flags().StringSliceVar(&o.disable, "disable", nil, "comma-separated lint `RULES` whose findings are not fixed; repeatable")
	groupFlags(c.Flags(), checkFlags, "prune", "disable")
	addReportFlags(c, &o.report)
	c.Flags().BoolVarP(&o.write, "write", "w", false, "change the files instead of printing a diff")
	groupFlags(c.Flags(), outputFlags, "write")
	completeList(c, "disable", ruleIDs)
	return c
}

func (a *app) fix(c *cobra.Command, o fixOptions) (err error) {
	if len(o.input.Paths) == 0 {
		o.input.Paths = a.configuredCRDs()
	}
	switch {
	case len(o.input.Paths) == 0:
		return needsPath(c)
	case o.write && slices.Contains(o.input.Paths, "-"):
		return errors.New("--write cannot change standard input: remove --write, or name a file")
	case o.write && slices.ContainsFunc(o.input.Paths, input.IsGit):
		return errors.New("--write cannot change a revision: remove --write, or name files of the working tree")
	}
	if o.input = o.input.Unrendered(); o.input.Build != nil || o.input.Helm != nil {
		return errors.New("fix changes files: it does not render charts and kustomizations")
	}
	options := a.reportOptions(c, o.report, fixRules())
	options.What, options.Quiet = "CRD", true
	f := &fixing{app: a, write: o.write, quiet: o.report.quiet, diff: !o.write && !namesStdout(o.report.outputs)}
	if f.patch, err = a.newPatchWriter(o.input.Paths); err != nil {
		return err
	}
	f.newFilter = func() *suppress.Filter { return a.newFilter(c, nil) }
	f.options = fix.Options{Semantics: a.semantics.Semantics, Rules: cel.Checker{}, Prune: o.prune,
		Configs: []lint.Config{a.config.Lint, {Disable: o.disable}}}
	if f.diff || o.write && !namesStdout(o.report.outputs) {
		// Standard output is for the diff.
		a.toStderr(&options, f.diff)
	}
	if f.r, err = report.New(options); err != nil {
		return err
	}
	defer func() {
		if err = f.r.Finish(err); err == nil && len(f.changed) > 0 && !o.write && o.report.failOn != report.Never {
			err = report.ExitError(report.Found)
		}
	}()
	return f.all(c.Context(), o.input)
}

// namesStdout reports whether an output is standard output.
func namesStdout(outputs []string) bool {
	return slices.ContainsFunc(outputs, func(o string) bool { return !strings.Contains(o, "=") || strings.HasSuffix(o, "=-") })
}

// fixing is one run of fix.
type fixing struct {
	*app
	options fix.Options
	// newFilter returns a filter for a document. Documents are fixed concurrently.
	newFilter   func() *suppress.Filter
	r           *report.Reporter
	write, diff bool
	quiet       bool
	patch       *patchWriter
	// changed has the files that differ: a fix changes a CRD.
	changed []changedFile
	// stdin is the content of standard input, which is needed twice.
	stdin []byte
	// current is the current file, and documents are its documents so far.
	current   string
	documents []fixedDocument
}

// fixedDocument is the result of fixing a document.
type fixedDocument struct {
	editedDocument
	fixed   []fixedDefinition
	skipped []*input.Item
	// misspelled are the problems with objects that are probably meant to be CRDs.
	misspelled []input.Problem
	problem    *input.Problem
}

type fixedDefinition struct {
	item   *input.Item
	result *fix.Result
}

// all fixes the files that the flags name.
func (f *fixing) all(ctx context.Context, flags input.Flags) (err error) {
	if slices.Contains(flags.Paths, "-") {
		if f.stdin, err = io.ReadAll(f.app.stdin); err != nil {
			return fmt.Errorf("cannot read standard input: %w", err)
		}
	}
	seen, failed := 0, false
	fail := func(p input.Problem) {
		failed = true
		f.r.Failure(p)
	}
	work := func(d *input.Document) fixedDocument { return f.document(ctx, d) }
	emit := func(d fixedDocument) error {
		if d.problem != nil {
			fail(*d.problem)
		}
		for _, p := range d.misspelled {
			fail(p)
		}
		if d.doc.File != f.current {
			if err := f.flush(); err != nil {
				return err
			}
			f.current = d.doc.File
		}
		seen += len(d.fixed)
		f.documents = append(f.documents, d)
		return nil
	}
	if err := input.Parallel(ctx, bytes.NewReader(f.stdin), flags, work, emit, fail); err != nil {
		return err
	}
	if seen == 0 && !failed && flags.Keep == input.Everything && !flags.Excluded() {
		f.r.Failure(input.Problem{Rule: ruleNoDefinitions, File: strings.Join(flags.Paths, ", "), Message: "no CRD found"})
	}
	return f.flush()
}

// document fixes the CRDs in a document.
func (f *fixing) document(ctx context.Context, d *input.Document) fixedDocument {
	out := fixedDocument{editedDocument: editedDocument{doc: d}}
	items, problem := d.Items()
	out.problem = problem
	var edits []analysis.Edit
	options, filter := f.options, f.newFilter()
	for _, it := range items {
		if p := misspelledProblem(it); p != nil {
			out.misspelled = append(out.misspelled, *p)
			continue
		}
		if !isDefinition(it) {
			out.skipped = append(out.skipped, it)
			continue
		}
		options.Ignore = func(found analysis.Finding) bool {
			_, reported := filter.Apply(report.At(it, found))
			return !reported
		}
		result, err := fix.Definition(ctx, it.JSON, options)
		if err != nil {
			out.problem = problemAt(it, "unreadable", err.Error())
			return out
		}
		out.fixed = append(out.fixed, fixedDefinition{it, result})
		for _, e := range result.Edits {
			e.Pointer = it.Base + e.Pointer
			if e.Op == yamledit.Move || e.Op == yamledit.Copy {
				e.To = it.Base + e.To
			}
			edits = append(edits, e)
		}
	}
	if len(edits) == 0 {
		return out
	}
	text, err := editObjects(d, edits)
	if err != nil {
		out.problem = problemAt(out.fixed[0].item, ruleNotEditable, err.Error())
		return out
	}
	out.text = text
	return out
}

// flush completes the current file: it writes the result and reports the findings.
func (f *fixing) flush() error {
	documents := f.documents
	f.documents = nil
	if slices.ContainsFunc(documents, func(d fixedDocument) bool { return d.text != nil }) {
		if err := f.replace(documents); err != nil {
			return err
		}
	}
	moved := 0 // by how many lines the start of the document has moved
	for _, d := range documents {
		for _, it := range d.skipped {
			f.r.Skipped(it, "not a CRD")
		}
		for _, fixed := range d.fixed {
			f.r.Saw(fixed.item)
			for _, finding := range fixed.result.Notes {
				f.report(d, fixed, finding, moved)
			}
		}
		if d.text != nil {
			moved += bytes.Count(d.text, []byte("\n")) - bytes.Count(d.doc.Source(), []byte("\n"))
		}
	}
	return nil
}

// report reports a finding at its position in the file: in the new text if that was
// written, else in the old text.
func (f *fixing) report(d fixedDocument, fixed fixedDefinition, found analysis.Finding, moved int) {
	it := *fixed.item
	if f.write && d.text != nil {
		doc, err := yamlx.Parse(d.text)
		if err == nil {
			it.Doc = doc
			finding := report.At(&it, found)
			finding.Doc = nil // its lines are not those of the file
			finding.Span.Line += d.doc.Line() - 1 + moved
			finding.Span.EndLine += d.doc.Line() - 1 + moved
			f.r.Add(finding)
			return
		}
	}
	found.Pointer = fixed.result.Origin(found.Pointer)
	f.r.Report(&it, found)
}

// replace writes the current file with its new documents, or prints a diff.
func (f *fixing) replace(documents []fixedDocument) error {
	file := f.current
	var edited []editedDocument
	for _, d := range documents {
		edited = append(edited, d.editedDocument)
	}
	old, text, err := f.editFile(file, f.stdin, edited)
	if err != nil {
		return err
	}
	f.record(file, old, text)
	switch {
	case f.write:
		if err := overwrite(f.dir, file, text); err != nil {
			return err
		}
		if !f.quiet {
			f.r.ClearProgress()
			fmt.Fprintf(f.stderr, "fixed %s\n", file)
		}
	case f.diff:
		return f.patch.print(file, old, text)
	}
	return nil
}

// changedFile is a file that fix changes, in JSON and YAML.
type changedFile struct {
	File string `json:"file"`
	// Diff is a unified diff of the change.
	Diff string `json:"diff"`
}

// record adds a change to the summary, for reports in place of the diff.
func (f *fixing) record(file string, old, text []byte) {
	f.changed = append(f.changed, changedFile{file, string(f.patch.diff(textdiff.Style{}, file, old, text))})
	s := f.r.Summary()
	s.Extra = map[string]any{"changed": f.changed}
	if !f.write && !f.diff {
		s.Notes = append(s.Notes, file+" would change: fix without -o prints the diff, and --write changes the file")
	}
}

// overwrite replaces a file atomically and preserves its mode.
func overwrite(dir workdir.Dir, path string, text []byte) error {
	path, err := dir.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := dir.Stat(path)
	if err != nil {
		return err
	}
	return writeAtomically(dir, path, text, info.Mode().Perm())
}
