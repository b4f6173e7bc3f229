package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	kjson "sigs.k8s.io/json"

	"espalier.dev/analysis"
	"espalier.dev/analysis/fix"
	"espalier.dev/analysis/lint"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/jsonptr"
	"espalier.dev/internal/textdiff"
	"espalier.dev/internal/yamledit"
	"espalier.dev/internal/yamlx"
)

// ruleNotEditable is the rule of documents that cannot be changed in place.
const ruleNotEditable = "not-editable"

// fixOptions are the flags of fix.
type fixOptions struct {
	input   input.Flags
	outputs []string
	write   bool
	prune   bool
	config  string
	disable []string
}

func newFixCommand(a *app) *cobra.Command {
	var o fixOptions
	c := &cobra.Command{
		Use:   "fix -f PATH...",
		Short: "Rewrite CustomResourceDefinitions: v1beta1 as v1, schemas as structural ones",
		Long: `Fix rewrites CustomResourceDefinitions: v1beta1 as v1, schemas that are not structural as
structural ones, superseded spellings as what took their place, and whatever lint knows
how to fix. It prints a diff, or changes the files with --write. Comments, order
and formatting of all that is not changed stay as they are.

A fixed definition accepts every object that it accepted before. Where v1 cannot state a
condition the fixed definition says less, and where only a person can decide nothing is
decided; both are told on standard error. A value whose type is nowhere stated stays open
for all types: write the type if there is one.

In v1beta1 nothing is pruned unless preserveUnknownFields is false. That stays so:
x-kubernetes-preserve-unknown-fields says it at every object. With --prune, pruning begins
instead, as Kubernetes recommends: what the schema does not specify is dropped from objects.

Exit codes: 0 there is nothing to do or, with --write, it is done; 1 there are differences,
or something is left for a person; 2 it could not be done.`,
		Example: `  # What would be changed?
  espalier fix -f crontab-v1beta1.yaml

  # Change all definitions below a directory
  espalier fix -R -f crds/ --write

  # From v1beta1 without pruning to v1 with pruning
  espalier fix -f crontab-v1beta1.yaml --prune`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.fix(c, o) },
	}
	addInputFlags(c, &o.input, "CustomResourceDefinitions")
	addOutputFlag(c, &o.outputs)
	c.Flags().BoolVarP(&o.write, "write", "w", false, "change the files in place, in place of printing a diff")
	c.Flags().BoolVar(&o.prune, "prune", false, "begin to prune where nothing was pruned so far")
	c.Flags().StringVar(&o.config, "config", "", "file to configure the rules of lint with (default "+configName+" in the working directory or above)")
	c.Flags().StringSliceVar(&o.disable, "disable", nil, "leave alone what these rules of lint find (may repeat)")
	_ = c.MarkFlagFilename("config", "yaml", "yml")
	_ = c.RegisterFlagCompletionFunc("disable", cobra.FixedCompletions(ruleIDs(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (a *app) fix(c *cobra.Command, o fixOptions) (err error) {
	switch {
	case len(o.input.Paths) == 0:
		return errors.New("say what to fix: files or directories with -f, or - for standard input")
	case o.write && slices.Contains(o.input.Paths, "-"):
		return errors.New("standard input cannot be changed in place: leave out --write, or name a file")
	}
	configs, err := lintConfigs(o.config, lint.Config{Disable: o.disable})
	if err != nil {
		return err
	}
	options := a.reportOptions(c, o.outputs, fixRules())
	options.What, options.Quiet = "definition", true
	f := &fixing{app: a, write: o.write, diff: !o.write && !namesStdout(o.outputs)}
	f.options = fix.Options{Semantics: a.semantics.Semantics, Rules: cel.Checker{}, Prune: o.prune, Configs: configs}
	if f.diff || o.write && !namesStdout(o.outputs) {
		// Standard output is taken.
		options.Stdout, options.Color = a.stderr, a.useColor(a.stderr)
	}
	if f.r, err = report.New(options); err != nil {
		return err
	}
	defer func() {
		if err = f.r.Finish(err); err == nil && f.differs && !o.write {
			err = report.ExitError(report.Found)
		}
	}()
	return f.all(c.Context(), o.input)
}

// namesStdout reports whether a report goes to standard output.
func namesStdout(outputs []string) bool {
	return slices.ContainsFunc(outputs, func(o string) bool { return !strings.Contains(o, "=") || strings.HasSuffix(o, "=-") })
}

// fixRules describe what fix has to tell.
func fixRules() []analysis.Rule {
	rules := append(lintRules(), analysis.Rule{
		ID: ruleNotEditable, Severity: analysis.Error, Summary: "The document is written in a way that cannot be edited in place.",
	})
	return append(rules, fix.Rules()...)
}

// fixing is one run of fix.
type fixing struct {
	*app
	options     fix.Options
	r           *report.Reporter
	write, diff bool
	// differs says that some definition is not as it should be.
	differs bool
	// stdin is all of standard input, which is read twice.
	stdin []byte
	// current is the file at hand, and what becomes of its documents.
	current   string
	documents []fixedDocument
}

// fixedDocument is what becomes of a document.
type fixedDocument struct {
	doc     *input.Document
	text    []byte // nil if it stays as it is
	fixed   []fixedDefinition
	problem *input.Problem
}

type fixedDefinition struct {
	item   *input.Item
	result *fix.Result
}

// all fixes what the flags name, a file after the other.
func (f *fixing) all(ctx context.Context, flags input.Flags) (err error) {
	if slices.Contains(flags.Paths, "-") {
		if f.stdin, err = io.ReadAll(f.app.stdin); err != nil {
			return fmt.Errorf("reading standard input: %w", err)
		}
	}
	progress := f.newProgress("definitions fixed")
	defer progress.stop()
	seen, failed := 0, false
	fail := func(p input.Problem) {
		failed = true
		progress.clear(true)
		f.r.Failure(p)
	}
	work := func(d *input.Document) fixedDocument { return f.document(ctx, d) }
	emit := func(d fixedDocument) error {
		if d.problem != nil {
			fail(*d.problem)
		}
		if d.doc.File != f.current {
			progress.clear(len(f.documents) > 0)
			if err := f.flush(); err != nil {
				return err
			}
			f.current = d.doc.File
		}
		for range d.fixed {
			progress.add()
		}
		seen += len(d.fixed)
		f.documents = append(f.documents, d)
		return nil
	}
	if err := input.Parallel(ctx, bytes.NewReader(f.stdin), flags, work, emit, fail); err != nil {
		return err
	}
	progress.clear(true)
	if seen == 0 && !failed {
		f.r.Failure(input.Problem{Rule: ruleNoDefinitions, File: strings.Join(flags.Paths, ", "), Message: "there is no CustomResourceDefinition in it"})
	}
	return f.flush()
}

// document fixes the definitions in a document.
func (f *fixing) document(ctx context.Context, d *input.Document) fixedDocument {
	out := fixedDocument{doc: d}
	items, problem := d.Items()
	out.problem = problem
	var edits []analysis.Edit
	for _, it := range items {
		if !isDefinition(it) {
			continue
		}
		result, err := fix.Definition(ctx, it.JSON, f.options)
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
	text, err := yamledit.Apply(d.Document, edits...)
	if err != nil {
		text, err = editUnshared(d, out.fixed, edits)
	}
	if err != nil {
		out.problem = problemAt(out.fixed[0].item, ruleNotEditable, err.Error())
		return out
	}
	out.text = text
	return out
}

// editUnshared makes edits after the definitions' aliases have been written out: what is
// shared by two places cannot be changed in one of them.
func editUnshared(d *input.Document, definitions []fixedDefinition, edits []analysis.Edit) ([]byte, error) {
	var shared []analysis.Edit
	for _, fixed := range definitions {
		var value any
		if err := kjson.UnmarshalCaseSensitivePreserveInts(fixed.item.JSON, &value); err != nil {
			return nil, err
		}
		shared = append(shared, aliases(d.Document, fixed.item.Base, value)...)
	}
	return yamledit.Apply(d.Document, append(shared, edits...)...)
}

// aliases returns the edits that write out the values at a place and below whose text
// is, in part or as a whole, somewhere else.
func aliases(d *yamlx.Document, pointer string, value any) []analysis.Edit {
	parts := map[string]any{}
	switch value := value.(type) {
	case map[string]any:
		parts = value
	case []any:
		for i, v := range value {
			parts[strconv.Itoa(i)] = v
		}
	}
	around := d.Find(pointer).Value
	var edits []analysis.Edit
	for _, token := range slices.Sorted(maps.Keys(parts)) {
		at := jsonptr.Child(pointer, token)
		if span := d.Find(at).Value; span.Offset < around.Offset || span.EndOffset > around.EndOffset {
			return []analysis.Edit{{Op: yamledit.Set, Pointer: pointer, Value: value}}
		}
		edits = append(edits, aliases(d, at, parts[token])...)
	}
	return edits
}

// problemAt is a problem with an object as a whole.
func problemAt(it *input.Item, rule, message string) *input.Problem {
	at := it.Position("").Value
	return &input.Problem{Rule: rule, File: it.File, Line: at.Line, Column: at.Column, Message: message, Source: input.ExcerptAt(it.Doc, at)}
}

// flush is done with a file: it writes what has become of it, and tells what is left.
func (f *fixing) flush() error {
	documents := f.documents
	f.documents = nil
	if slices.ContainsFunc(documents, func(d fixedDocument) bool { return d.text != nil }) {
		f.differs = true
		if err := f.replace(documents); err != nil {
			return err
		}
	}
	moved := 0 // how many lines further down a document now begins
	for _, d := range documents {
		for _, fixed := range d.fixed {
			f.r.Saw(fixed.item)
			for _, note := range fixed.result.Notes {
				f.tell(d, fixed, note, moved)
			}
		}
		if d.text != nil {
			moved += bytes.Count(d.text, []byte("\n")) - bytes.Count(d.doc.Source(), []byte("\n"))
		}
	}
	return nil
}

// tell reports a note at its place in the file: the old one, unless it has been
// overwritten.
func (f *fixing) tell(d fixedDocument, fixed fixedDefinition, note analysis.Finding, moved int) {
	it := *fixed.item
	if f.write && d.text != nil {
		doc, err := yamlx.Parse(d.text)
		if err == nil {
			it.Doc = doc
			finding := report.At(&it, note)
			finding.Span.Line += d.doc.Line() - 1 + moved
			finding.Span.EndLine += d.doc.Line() - 1 + moved
			f.r.Add(finding)
			return
		}
	}
	note.Pointer = fixed.result.Origin(note.Pointer)
	f.r.Report(&it, note)
}

// replace writes the file at hand with its new documents, or prints the difference.
func (f *fixing) replace(documents []fixedDocument) error {
	file := f.current
	old := f.stdin
	if file != input.Stdin {
		var err error
		if old, err = os.ReadFile(file); err != nil {
			return fmt.Errorf("reading %s again: %w", file, err)
		}
	}
	text, err := assemble(old, documents)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	switch {
	case f.write:
		if err := overwrite(file, text); err != nil {
			return err
		}
		fmt.Fprintf(f.stderr, "fixed %s\n", file)
	case f.diff:
		var style textdiff.Style
		if f.useColor(f.stdout) {
			style = diffStyle()
		}
		if _, err := f.stdout.Write(style.Unified(file, file+" (fixed)", old, text, 3)); err != nil {
			return err
		}
	}
	return nil
}

// assemble puts new documents in the place of the old ones.
func assemble(old []byte, documents []fixedDocument) ([]byte, error) {
	var out []byte
	rest := old
	for _, d := range documents {
		if d.text == nil {
			continue
		}
		source := d.doc.Source()
		for at := 0; ; {
			i := bytes.Index(rest[at:], source)
			if i < 0 {
				return nil, errors.New("the file has changed in the meantime")
			}
			at += i
			if line := 1 + bytes.Count(old[:len(old)-len(rest)+at], []byte("\n")); line != d.doc.Line() {
				at++ // the same text, but not the same document
				continue
			}
			out = append(append(out, rest[:at]...), d.text...)
			rest = rest[at+len(source):]
			break
		}
	}
	return append(out, rest...), nil
}

// overwrite replaces a file at once, so that nobody sees half of it, and keeps its mode.
func overwrite(path string, text []byte) (err error) {
	path, err = filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
			err = fmt.Errorf("writing %s: %w", path, err)
		}
	}()
	if _, err := f.Write(text); err != nil {
		return err
	}
	if err := f.Chmod(info.Mode().Perm()); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
