package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"espalier.dev/analysis"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/crd"
	"espalier.dev/internal/jsonptr"
	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/textdiff"
	"espalier.dev/internal/yamlx"
	"espalier.dev/schema"
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
	// previews are the programs for schemas that are not structural, nil for those
	// that are.
	previews map[*crd.Version]*schema.Program
}

func (a *app) prune(c *cobra.Command, o pruneOptions) (err error) {
	if err := stdinOnce(o.crds, o.objects); err != nil {
		return err
	}
	o.crds.Recursive = o.objects.Recursive
	p := &pruner{a: a, previews: map[*crd.Version]*schema.Program{}}
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
func pruneRules() []report.Rule {
	return append(inputRules(),
		report.Rule{ID: rulePruned, Severity: analysis.Warning, Summary: "The schema does not specify the field: a server drops it."},
		report.Rule{ID: ruleNullDropped, Severity: analysis.Info, Summary: "The schema does not allow null: a server drops the field."},
		report.Rule{ID: ruleDefaulted, Severity: analysis.Info, Summary: "The schema has a default, which a server fills in."},
		report.Rule{ID: ruleDuplicateField, Severity: analysis.Warning, Summary: "The field occurs twice: the last one counts."},
		report.Rule{ID: ruleMetadataDropped, Severity: analysis.Info, Summary: "The field of metadata is malformed."},
		report.Rule{ID: ruleNotStructural, Severity: analysis.Info, Summary: "The schema is not structural: no server prunes by it."},
		report.Rule{ID: ruleSemantics, Severity: analysis.Info, Summary: "The design documents and kube-apiserver come to different ends."},
		report.Rule{ID: ruleSeveral, Severity: analysis.Info, Summary: "The kind of an object has several definitions: the first that serves its version counts."},
		report.Rule{ID: ruleDecode, Severity: analysis.Error, Summary: "The object cannot be read as what its definition says it is."},
		report.Rule{ID: ruleMissingDefinition, Severity: analysis.Error, Summary: "No CustomResourceDefinition defines the object's kind and version."},
		report.Rule{ID: ruleInvalidDefinition, Severity: analysis.Error, Summary: "A server would not take the CustomResourceDefinition."},
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
// passed over: they are not pruned by a schema of their own.
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
	f := d.withoutRules(p.definitions.semantics)
	if f.err != nil {
		p.fail(it, analysis.Finding{Rule: ruleInvalidDefinition, Message: fmt.Sprintf("its definition in %s cannot be used: %v", d.item.File, f.err)})
		return nil
	}
	v := f.version(it)
	program, err := p.program(d, v)
	if err != nil {
		p.fail(it, analysis.Finding{Rule: ruleInvalidDefinition, Message: err.Error()})
		return nil
	}
	stored, changes, err := program.Decode(it.JSON, schema.DecodeOptions{Report: true})
	if err != nil {
		for _, f := range refusal(d, v, err) {
			p.fail(it, f)
		}
		return nil
	}
	if err := p.write(it, stored, changes); err != nil {
		return err
	}
	if p.report != nil {
		p.reasons(it, d, v, stored, changes)
	}
	p.compare(it, d, v, stored, changes)
	return nil
}

// program is what a server does to objects of a version or, if the schema is not
// structural, a preview of it.
func (p *pruner) program(d *definition, v *crd.Version) (*schema.Program, error) {
	if program, known := p.previews[v]; known && program != nil {
		return program, nil
	} else if known {
		return v.Program()
	}
	p.previews[v] = nil
	reasons := structuralFindings(d, v, p.definitions.semantics)
	if len(reasons) == 0 {
		return v.Program()
	}
	program, err := preview(d, v, p.definitions.semantics)
	if err != nil {
		return nil, err
	}
	p.previews[v] = program
	for _, note := range previewNotes(d, v, reasons) {
		p.side.Report(d.item, note)
	}
	return program, nil
}

// write prints the object, or what changes in it.
func (p *pruner) write(it *input.Item, stored schema.Object, changes *schema.Report) error {
	if p.printer != nil {
		return p.printer.print("", stored)
	}
	if !p.diff {
		return nil
	}
	before, after, above, err := texts(it, stored, changes)
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

// diffStyle has the colours of git.
func diffStyle() textdiff.Style {
	paint := func(color string) func(string) string {
		return func(s string) string { return color + s + "\x1b[0m" }
	}
	return textdiff.Style{File: paint("\x1b[1m"), Hunk: paint("\x1b[36m"), Delete: paint("\x1b[31m"), Insert: paint("\x1b[32m")}
}

// texts are an object before and after. If what was done to it can be done to the
// text, so that order, comments and quotes stay as they are, it is the text of the
// file, which has so many lines above it; otherwise both are written anew.
func texts(it *input.Item, stored schema.Object, changes *schema.Report) (before, after []byte, above int, err error) {
	if text, err := editText(it, stored, changes); err == nil {
		return it.Doc.Source(), text, it.Doc.Line() - 1, nil
	}
	original, err := jsonx.Parse(it.JSON)
	if err != nil {
		return nil, nil, 0, err
	}
	if before, err = yaml.Marshal(original); err != nil {
		return nil, nil, 0, err
	}
	after, err = yaml.Marshal(stored)
	return before, after, 0, err
}

// editText does to the text of a document what was done to the object.
func editText(it *input.Item, stored schema.Object, changes *schema.Report) ([]byte, error) {
	if changes.Truncated {
		return nil, errors.New("not all changes are known")
	}
	var edits []yamlx.Edit
	for _, c := range changes.Changes {
		pointer := it.Base + c.Path.Pointer()
		switch c.Kind {
		case schema.Pruned, schema.NullDropped, schema.MetadataDropped:
			edits = append(edits, yamlx.Edit{Op: yamlx.Remove, Pointer: pointer})
		case schema.Defaulted:
			value, ok := valueAt(stored, c.Path)
			if !ok {
				return nil, fmt.Errorf("%s has no value", c.Path)
			}
			edits = append(edits, yamlx.Edit{Op: yamlx.Set, Pointer: pointer, Value: value})
		default:
			return nil, errors.New("the text says something twice")
		}
	}
	text, err := it.Doc.Edit(edits...)
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
	if !reflect.DeepEqual(got, any(stored)) {
		return nil, errors.New("the edited text says something else")
	}
	return text, nil
}

// valueAt follows a path into an object.
func valueAt(obj schema.Object, path schema.Path) (any, bool) {
	var v any = obj
	for _, step := range path {
		switch step.Kind {
		case schema.Index:
			list, ok := v.([]any)
			if !ok || step.Index >= len(list) {
				return nil, false
			}
			v = list[step.Index]
		default:
			m, _ := v.(map[string]any)
			var ok bool
			if v, ok = m[step.Key]; !ok {
				return nil, false
			}
		}
	}
	return v, true
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

// reasons reports what was done to an object, and by which schema.
func (p *pruner) reasons(it *input.Item, d *definition, v *crd.Version, stored schema.Object, changes *schema.Report) {
	var all []report.Finding
	for i := range changes.Changes {
		c := &changes.Changes[i]
		f := analysis.Finding{Severity: analysis.Info, Path: c.Path.String(), Pointer: c.Path.Pointer()}
		switch c.Kind {
		case schema.Pruned:
			f.Rule, f.Severity = rulePruned, analysis.Warning
			f.Message = "pruned: not specified by " + d.pruning(v, c)
			if name := c.Nearest(); name != "" {
				f.Message += fmt.Sprintf("; did you mean %q?", name)
			}
		case schema.NullDropped:
			f.Rule, f.Message = ruleNullDropped, "removed: null is not allowed by "+d.locate(v, c.Schema.Path())
		case schema.Defaulted:
			value, _ := valueAt(stored, c.Path)
			f.Rule, f.Message = ruleDefaulted, fmt.Sprintf("defaulted to %s by %s", oneLineJSON(value), d.locate(v, c.Schema.Path()))
			if it.Position(f.Pointer).Exact {
				f.Message = "null is not allowed: " + f.Message
			}
		case schema.Duplicate:
			f.Rule, f.Severity = ruleDuplicateField, analysis.Warning
			f.Message = "duplicate field: the last one counts"
		case schema.MetadataDropped:
			f.Rule, f.Message = ruleMetadataDropped, "dropped: malformed"
		}
		all = append(all, changeAt(it, c.Kind, f))
	}
	sortByPlace(all)
	for _, f := range all {
		p.report.Add(f)
	}
	if changes.Truncated {
		p.report.Report(it, analysis.Finding{Rule: rulePruned, Severity: analysis.Info, Message: "there are more changes than are listed"})
	}
}

// oneLineJSON is a value for a message: the start of it, if it is long.
func oneLineJSON(v any) string {
	const most = 60
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if runes := []rune(string(text)); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return string(text)
}

// compare says where the other semantics stores something else.
func (p *pruner) compare(it *input.Item, d *definition, v *crd.Version, stored schema.Object, changes *schema.Report) {
	other := schema.KEP + schema.Kubernetes - p.definitions.semantics
	if p.previews[v] != nil || !d.withoutRules(p.definitions.semantics).differs[v.Name()].pruning {
		return
	}
	f := d.withoutRules(other)
	if f.err != nil {
		return
	}
	program, err := f.version(it).Program()
	if err != nil {
		return
	}
	finding := analysis.Finding{Rule: ruleSemantics, Severity: analysis.Info}
	there, otherChanges, err := program.Decode(it.JSON, schema.DecodeOptions{Report: true})
	switch {
	case err != nil:
		finding.Message = fmt.Sprintf("under %s semantics it would be refused: %v", other, err)
	case !reflect.DeepEqual(stored, there):
		finding.Message = fmt.Sprintf("under %s semantics it would be stored otherwise", other)
		finding.Detail = changeDifference(changes.Changes, otherChanges.Changes)
	default:
		return
	}
	p.side.Report(it, finding)
}
