package main

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"espalier.dev/analysis"
	"espalier.dev/analysis/object"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/internal/jsonptr"
	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/textdiff"
	"espalier.dev/internal/yamledit"
	"espalier.dev/internal/yamlx"
)

// pruneOptions are the flags of prune.
type pruneOptions struct {
	crds, objects input.Flags
	outputs       []string
	why           bool
}

func newPruneCommand(a *app) *cobra.Command {
	var o pruneOptions
	c := &cobra.Command{
		Use:   "prune --crd PATH... -f PATH...",
		Short: "Show objects as a server would store them, and why",
		Long: `Prune prints each object as a server stores it: without the fields that its
CustomResourceDefinition does not know, without nulls that are not allowed, with
defaults filled in. What only a server can know (uid, times, generation) is not added,
and a status is kept, as if it had been written to the status endpoint. Whether the
object is valid is for validate to say: prune exits with 0 when it could prune.

With -o yaml (the default) or json the objects themselves are printed, with -o diff
what changes in the text of the file. With --why there is a line for everything that
was dropped, filled in or removed as null, with the schema that decided and the name
that may have been meant; -o then chooses among the formats of findings (text, json,
yaml, sarif, junit, github), or shows both with -o diff.

A schema that is not structural (v1beta1 allows that) is not pruned by any server. For
such a schema prune shows a preview of what is left once it is structural: the fields
that are specified anywhere in it, also under allOf, anyOf, oneOf and not.

Where the two semantics would not store the same, a note says so.`,
		Example: `  # What is stored?
  espalier prune --crd crontab-crd.yaml -f crontab-typo.yaml

  # What gets lost, and which schema decided that?
  espalier prune --why --crd crontab-crd.yaml -f crontab-typo.yaml

  # As a diff of the file
  espalier prune -o diff --crd crontab-crd.yaml -f crontab-typo.yaml

  # Would kube-apiserver do the same?
  espalier prune --semantics kubernetes --crd crontab-crd.yaml -f crontab-typo.yaml

  # A preview for a definition of v1beta1 whose schema is not structural
  espalier prune --crd legacy-crd.yaml -f legacy.yaml`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.prune(c, o) },
	}
	addCRDFlag(c, &o.crds)
	addInputFlags(c, &o.objects, "objects")
	c.Flags().BoolVar(&o.why, "why", false, "list what was dropped, filled in or removed as null, and the schema that decided")
	c.Flags().StringArrayVarP(&o.outputs, "output", "o", nil, "`FORMAT`: yaml, json or diff; with --why: diff, text, json, yaml, sarif, junit or github, with =FILE to a file (may repeat)")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"yaml", "json", "diff"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// pruner is one run of prune.
type pruner struct {
	a           *app
	definitions *definitions
	// report gets the reasons, side what else there is to say.
	report, side *report.Reporter
	// printer prints objects, unless only the reasons are wanted.
	printer *printer
	diff    bool
	// previews are those that have been reported.
	previews map[*object.Preview]bool
}

func (a *app) prune(c *cobra.Command, o pruneOptions) (err error) {
	if err := stdinOnce(o.crds, o.objects); err != nil {
		return err
	}
	o.crds.Recursive = o.objects.Recursive
	p := &pruner{a: a, previews: map[*object.Preview]bool{}}
	if o.why {
		p.diff = slices.Contains(o.outputs, "diff")
		formats := slices.DeleteFunc(slices.Clone(o.outputs), func(s string) bool { return s == "diff" })
		options := a.reportOptions(c, formats, pruneRules())
		options.Tolerant = true
		if p.report, err = report.New(options); err != nil {
			return err
		}
		p.side = p.report
	} else {
		output := "yaml"
		if len(o.outputs) > 1 {
			return errors.New("-o: objects are printed once: choose yaml, json or diff")
		} else if len(o.outputs) == 1 {
			output = o.outputs[0]
		}
		switch output {
		case "yaml", "json":
			p.printer = &printer{a: a, output: output}
		case "diff":
			p.diff = true
		default:
			return fmt.Errorf("-o %s: choose yaml, json or diff, or add --why for the formats of findings", output)
		}
		options := a.reportOptions(c, nil, nil)
		options.Stdout, options.Color, options.Quiet, options.Tolerant = a.stderr, a.useColor(a.stderr), true, true
		if p.side, err = report.New(options); err != nil {
			return err
		}
	}
	defer func() { err = p.side.Finish(err) }()
	if p.definitions, err = a.loadDefinitions(c.Context(), o.crds, p.side.Failure); err != nil {
		return err
	}
	return input.Read(c.Context(), a.stdin, o.objects, p.object, p.side.Failure)
}

// pruneRules describe what prune reports.
func pruneRules() []analysis.Rule {
	rules := append(inputRules(), object.PruneRules()...)
	return append(rules,
		analysis.Rule{ID: ruleSeveral, Severity: analysis.Info, Summary: "The kind of an object has several definitions: the first that serves its version counts."},
		analysis.Rule{ID: ruleMissingDefinition, Severity: analysis.Error, Summary: "No CustomResourceDefinition defines the object's kind and version."},
	)
}

// fail reports that an object could not be pruned.
func (p *pruner) fail(it *input.Item, f analysis.Finding) {
	f.Severity = analysis.Error
	at := report.At(it, f)
	at.Failed = true
	p.side.Add(at)
}

// object prunes an object. Definitions that happen to be among the objects are
// skipped: they are not pruned by a schema of their own.
func (p *pruner) object(it *input.Item) error {
	d, err := p.definitions.lookup(it)
	if err != nil {
		if !isDefinition(it) {
			p.fail(it, analysis.Finding{Rule: ruleMissingDefinition, Path: "kind", Pointer: "/kind", Message: err.Error()})
		}
		return nil
	}
	p.side.Saw(it)
	p.definitions.reportOthers(p.side, d)
	pruner, err := d.pruner()
	if err != nil {
		p.fail(it, analysis.Finding{Rule: object.RuleInvalidDefinition, Message: fmt.Sprintf("its definition in %s cannot be used: %v", d.item.File, err)})
		return nil
	}
	stored := pruner.Prune(it.JSON)
	if preview := stored.Preview; preview != nil && !p.previews[preview] {
		p.previews[preview] = true
		p.side.Report(d.item, preview.Finding)
	}
	for _, f := range stored.Failures {
		p.fail(it, f)
	}
	if stored.Object == nil {
		return nil
	}
	if err := p.write(it, stored); err != nil {
		return err
	}
	if p.report != nil {
		var reasons []report.Finding
		for _, f := range stored.Reasons() {
			reasons = append(reasons, report.At(it, f))
		}
		report.Sort(reasons)
		for _, f := range reasons {
			p.report.Add(f)
		}
	}
	for _, f := range stored.Difference() {
		p.side.Report(it, f)
	}
	return nil
}

// write prints the object, or what changes in it.
func (p *pruner) write(it *input.Item, stored *object.Stored) error {
	if p.printer != nil {
		return p.printer.print("", stored.Object)
	}
	if !p.diff {
		return nil
	}
	before, after, above, err := texts(it, stored)
	if err != nil {
		return err
	}
	var style textdiff.Style
	if p.a.useColor(p.a.stdout) {
		style = diffStyle()
	}
	style.Above = above
	_, err = p.a.stdout.Write(style.Unified(it.File, it.File+" (stored)", before, after, 3))
	return err
}

// texts are an object before and after. If what was done to it can be done to the
// text, so that order, comments and quotes stay as they are, it is the text of the
// file, which has so many lines above it; otherwise both are written anew.
func texts(it *input.Item, stored *object.Stored) (before, after []byte, above int, err error) {
	if text, err := editText(it, stored); err == nil {
		return it.Doc.Source(), text, it.Doc.Line() - 1, nil
	}
	original, err := jsonx.Parse(it.JSON)
	if err != nil {
		return nil, nil, 0, err
	}
	if before, err = yaml.Marshal(original); err != nil {
		return nil, nil, 0, err
	}
	after, err = yaml.Marshal(stored.Object)
	return before, after, 0, err
}

// editText does to the text of a document what was done to the object.
func editText(it *input.Item, stored *object.Stored) ([]byte, error) {
	edits, err := stored.Edits()
	if err != nil {
		return nil, err
	}
	for i := range edits {
		edits[i].Pointer = it.Base + edits[i].Pointer
	}
	text, err := yamledit.Apply(it.Doc, edits...)
	if err != nil {
		return nil, err
	}
	// The text is only shown if it says what is stored.
	d, err := yamlx.Parse(text)
	if err != nil {
		return nil, err
	}
	src, err := d.JSON()
	if err != nil {
		return nil, err
	}
	var got any
	if got, err = jsonx.Parse(src); err != nil {
		return nil, err
	}
	for _, token := range jsonptr.Split(it.Base) {
		got = childOf(got, token)
	}
	if !reflect.DeepEqual(got, any(stored.Object)) {
		return nil, errors.New("the edited text says something else")
	}
	return text, nil
}

// childOf follows a token of a pointer.
func childOf(v any, token string) any {
	switch v := v.(type) {
	case map[string]any:
		return v[token]
	case []any:
		var i int
		if _, err := fmt.Sscan(token, &i); err == nil && i < len(v) {
			return v[i]
		}
	}
	return nil
}
