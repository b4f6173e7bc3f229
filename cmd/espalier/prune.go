package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lookup"
	"espalier.dev/analysis/object"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/internal/yamledit"
	"espalier.dev/internal/yamlx"
)

// pruneOptions are the flags of prune.
type pruneOptions struct {
	crds, objects input.Flags
	report        reportFlags
	skip          skipFlags
	why, stored   bool
}

func newPruneCommand(a *app) *cobra.Command {
	var o pruneOptions
	c := &cobra.Command{
		Use:   "prune [--crd PATH...] PATH...",
		Short: "Show objects as the API server would store them, and why",
		Long: `Prune prints each object as the API server returns it after it was created: fields that the
CRD does not specify are pruned, nulls that are not allowed are dropped, and defaults are
applied. Fields that only the API server can set (uid, timestamps, generation) are not
added. The status is kept, as if it had been written to the status subresource. Prune does
not validate: use validate for that.

An object of another version than the storage version loses the fields that the storage
version does not specify, and gets its defaults. --stored prints the stored form, in the
storage version. If a webhook converts between the versions, prune cannot know the result:
it ignores the conversion, and says so.

-o yaml (the default) and -o json print the objects. Several objects are several documents
in YAML, and the items of one List in JSON, as in kubectl. -o diff prints the changes to the
files as a patch for git apply or patch -p1 in the current directory, or in the directory
that its first line names if files are outside. Standard input is called stdin in it: apply
the patch to another file with patch FILE. --why lists every field that was pruned, defaulted or dropped as null, the schema
that is responsible (with the storage version, if its schema is), and the field that was
probably meant. With --why, -o selects a findings format (text, json, yaml, sarif, junit,
github or markdown); add -o diff to print both.

The API server does not prune with a non-structural schema, which v1beta1 allows. For such
a schema, prune shows a preview of what remains once the schema is structural: the fields
specified anywhere in it, including those under allOf, anyOf, oneOf and not.

Built-in kinds, such as Deployments and Services, need no CRD: their fields and
defaults are those of Kubernetes ` + kubernetesLevel + `. --why also lists values that are stored in another
form, such as quantities. --stored prints the version or kind that Kubernetes stores.
--skip-builtin-kinds skips these kinds.

CRDs come from --crd and from the input itself, in any order; --crd takes precedence. A
custom resource without a CRD is an error; --ignore-missing-crds and --skip-kind skip objects
as in validate.

An info reports where the two semantics would store different objects.

Pruned fields and duplicate fields are warnings, all other changes are infos. With
--fail-on=warning or --fail-on=info they make the exit code 1; without --why they are then
listed on standard error.

Exit codes: 0 success, 1 findings that --fail-on selects, ` + otherExitCodes + `.`,
		Example: `  # Show what is stored
  espalier prune --crd crontab-crd.yaml -f crontab-typo.yaml

  # Show a Deployment with the defaults of Kubernetes
  espalier prune manifests/web.yaml

  # List the fields that are lost, and the schemas that are responsible
  espalier prune --why --crd crontab-crd.yaml -f crontab-typo.yaml

  # Show the changes as a diff
  espalier prune -o diff --crd crontab-crd.yaml -f crontab-typo.yaml

  # Fail if a field is lost
  espalier prune --why --fail-on=warning --crd crontab-crd.yaml -f crontab-typo.yaml

  # Show what is stored in etcd, in the storage version
  espalier prune --stored --crd crontab-crd.yaml -f crontab-typo.yaml

  # Show what kube-apiserver stores
  espalier prune --semantics kubernetes --crd crontab-crd.yaml -f crontab-typo.yaml

  # Preview pruning for a v1beta1 CRD with a non-structural schema
  espalier prune --crd legacy-crd.yaml -f legacy.yaml`,
		ValidArgsFunction: completePaths,
		RunE: func(c *cobra.Command, args []string) error {
			o.objects.Paths = append(o.objects.Paths, args...)
			return a.prune(c, o)
		},
	}
	addCRDFlag(c, &o.crds)
	addInputFlags(c, &o.objects, "objects", input.Manifests)
	addSkipFlags(c, &o.skip)
	c.Flags().StringArrayVarP(&o.report.outputs, "output", "o", nil,
		"output `FORMAT`: yaml, json or diff; with --why: diff, text, json, yaml, sarif, junit, github or markdown; FORMAT=FILE writes to a file; repeatable (default yaml, text with --why)")
	c.Flags().BoolVar(&o.why, "why", false,
		"list the fields that were pruned, defaulted or dropped as null, and the schema that is responsible")
	c.Flags().BoolVar(&o.stored, "stored", false, "show objects as they are stored, in the storage version")
	groupFlags(c.Flags(), outputFlags, "output", "why", "stored")
	addFindingFlags(c, &o.report)
	completeValues(c, "output", "yaml", "json", "diff")
	a.completeKinds(c, "skip-kind", func() input.Flags { return o.objects.With(o.crds.Paths...) })
	return c
}

// pruner is one run of prune.
type pruner struct {
	a           *app
	definitions *definitions
	skip        skipFlags
	// report receives the reasons of changes, side all other findings. It is nil if the
	// reasons are not asked for.
	report, side *report.Reporter
	// printer prints objects. It is nil if only reasons or diffs are printed.
	printer *objectPrinter
	// patch prints diffs. It is nil if none are printed.
	patch *patchWriter
	// stored selects the stored form.
	stored bool
	// previews and webhooks hold the findings about CRDs that have been reported.
	previews map[*object.Preview]bool
	webhooks map[*analysis.Finding]bool
	// file is the current file, and documents are its changed documents, for a diff. stdin is
	// what was read of standard input.
	file      string
	documents []editedDocument
	stdin     bytes.Buffer
}

func (a *app) prune(c *cobra.Command, o pruneOptions) (err error) {
	if err := o.skip.check(); err != nil {
		return err
	}
	if err := stdinOnce(o.crds, o.objects); err != nil {
		return err
	}
	if len(o.objects.Paths) == 0 {
		return needsPath(c)
	}
	o.crds = o.objects.With(o.crds.Paths...)
	p := &pruner{a: a, skip: o.skip, stored: o.stored, previews: map[*object.Preview]bool{}, webhooks: map[*analysis.Finding]bool{}}
	diff := false
	if o.why {
		diff = slices.Contains(o.report.outputs, "diff")
		o.report.outputs = slices.DeleteFunc(slices.Clone(o.report.outputs), func(s string) bool { return s == "diff" })
		options := a.reportOptions(c, o.report, pruneRules())
		if p.report, err = report.New(options); err != nil {
			return err
		}
		p.side = p.report
	} else {
		output := "yaml"
		if len(o.report.outputs) > 1 {
			return errors.New("-o: only one format is allowed without --why: yaml, json or diff")
		} else if len(o.report.outputs) == 1 {
			output = o.report.outputs[0]
		}
		switch output {
		case "yaml", "json":
			p.printer = &objectPrinter{printer: printer{a: a, output: output}}
		case "diff":
			diff = true
		default:
			return fmt.Errorf("-o %s: must be yaml, json or diff; add --why for the formats of findings", output)
		}
		options := a.reportOptions(c, o.report, nil)
		options.Outputs = nil // they are for objects
		a.toStderr(&options, true)
		if p.side, err = report.New(options); err != nil {
			return err
		}
		if o.report.failOn.Fails(analysis.Warning) {
			// What makes the exit code 1 must be reported.
			p.report = p.side
		}
	}
	defer func() { err = p.side.Finish(err) }()
	if diff {
		if p.patch, err = a.newPatchWriter(o.objects.Paths); err != nil {
			return err
		}
		// A diff needs the whole text.
		a.stdin = io.TeeReader(a.stdin, &p.stdin)
	}
	var ahead input.Ahead
	defer func() { err = errors.Join(err, ahead.Close()) }()
	if p.definitions, err = a.loadDefinitionsFor(c.Context(), o.crds, o.objects, &ahead, nil, p.side.Failure); err != nil {
		return err
	}
	if p.printer != nil {
		// What was printed before an error is a document too.
		defer func() { err = errors.Join(err, p.printer.end()) }()
	}
	if err := input.Documents(c.Context(), a.stdin, ahead.Input(o.objects), p.document, p.side.Failure); err != nil {
		return err
	}
	return p.flush()
}

// document prunes the objects of a document.
func (p *pruner) document(d *input.Document) error {
	if d.File != p.file {
		if err := p.flush(); err != nil {
			return err
		}
		p.file = d.File
	}
	items, problem := d.Items()
	pruned := map[*input.Item]*object.Pruned{}
	for _, it := range items {
		result, err := p.object(it)
		if err != nil {
			return err
		}
		if result != nil {
			pruned[it] = result
		}
	}
	if problem != nil {
		p.side.Failure(*problem)
	}
	if p.patch != nil {
		p.edit(d, items, pruned)
	}
	return nil
}

// fail reports an object that could not be pruned, which is an error as in validate.
func (p *pruner) fail(it *input.Item, f analysis.Finding) {
	f.Severity = analysis.Error
	p.side.Report(it, f)
}

// object prunes an object, prints it if objects are printed, and reports the reasons. It
// returns nil if the object cannot be pruned. It skips CRDs, which have no CRD of their own.
func (p *pruner) object(it *input.Item) (*object.Pruned, error) {
	if reason := p.skip.byKind(it); reason != "" {
		p.side.Skipped(it, reason)
		return nil, nil
	}
	if isDefinition(it) {
		for _, f := range p.definitions.overridden(it) {
			p.side.Report(it, f)
		}
		return nil, nil
	}
	stored, err := p.prune(it)
	if stored == nil || err != nil {
		return nil, err
	}
	for _, f := range stored.Failures {
		p.fail(it, f)
	}
	if stored.Object == nil {
		return nil, nil
	}
	if p.printer != nil {
		if err := p.printer.print(stored.Object); err != nil {
			return nil, err
		}
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
	return stored, nil
}

// prune returns the object as it is stored. It returns nil if there is no CRD that can be used.
func (p *pruner) prune(it *input.Item) (*object.Pruned, error) {
	if p.definitions.IsBuiltin(it) {
		if reason := p.skip.byBuiltin(); reason != "" {
			p.side.Skipped(it, reason)
			return nil, nil
		}
		p.side.Saw(it)
		return p.apply(builtinChecker(), it), nil
	}
	d, err := p.definitions.Find(it)
	if err != nil {
		return nil, p.missing(it, err)
	}
	p.side.Saw(it)
	p.definitions.reportOthers(p.side, d)
	checker, err := d.pruner()
	if err != nil {
		p.fail(it, analysis.Finding{Rule: object.RuleInvalidDefinition,
			Message: fmt.Sprintf("the CRD in %s cannot be used: %v", d.file, err)})
		return nil, nil
	}
	stored := p.apply(checker, it)
	if webhook := stored.Webhook; webhook != nil && !p.webhooks[webhook] {
		p.webhooks[webhook] = true
		p.side.Report(d.item(), *webhook)
	}
	if preview := stored.Preview; preview != nil && !p.previews[preview] {
		p.previews[preview] = true
		p.side.Report(d.item(), preview.Finding)
	}
	return stored, nil
}

// apply prunes an object with the checker of its CRD or kind.
func (p *pruner) apply(checker interface {
	Prune(source []byte) *object.Pruned
	PruneStored(source []byte) *object.Pruned
}, it *input.Item) *object.Pruned {
	if p.stored {
		return checker.PruneStored(it.JSON)
	}
	return checker.Prune(it.JSON)
}

// missing reports an object whose CRD was not found.
func (p *pruner) missing(it *input.Item, err error) error {
	if reason := p.skip.byError(err); reason != "" {
		p.side.Skipped(it, reason)
		return nil
	}
	var missing *lookup.Missing
	if !errors.As(err, &missing) {
		return err
	}
	p.side.Saw(it)
	p.side.Report(it, missing.Finding())
	return nil
}

// edit applies the changes of objects to the text of their document.
func (p *pruner) edit(d *input.Document, items []*input.Item, pruned map[*input.Item]*object.Pruned) {
	var edits, replacements []analysis.Edit
	editable := true
	for _, it := range items {
		result := pruned[it]
		if result == nil {
			continue
		}
		changes, err := result.Edits()
		if err == nil && len(changes) == 0 {
			continue
		}
		editable = editable && err == nil
		for _, e := range changes {
			e.Pointer = it.Base + e.Pointer
			edits = append(edits, e)
		}
		replacements = append(replacements, analysis.Edit{Op: yamledit.Set, Pointer: it.Base, Value: result.Object})
	}
	if len(replacements) == 0 {
		return
	}
	var text []byte
	var err error
	if editable {
		text, err = editObjects(d, edits)
	}
	if !editable || err != nil {
		// Replace the objects as a whole. Comments are lost, but the diff is right.
		if text, err = editObjects(d, replacements); err != nil {
			problem := problemAt(items[0], ruleNotEditable, "cannot make a diff: "+err.Error())
			if e, ok := errors.AsType[*yamlx.Error](err); ok {
				problem.Line, problem.Column, problem.Message = e.Line, e.Column, "cannot make a diff: "+e.Message
				problem.Source = input.Excerpt{}
			}
			p.side.Failure(*problem)
			return
		}
	}
	p.documents = append(p.documents, editedDocument{d, text})
}

// flush prints the diff of the current file.
func (p *pruner) flush() error {
	documents := p.documents
	if p.documents = nil; len(documents) == 0 {
		return nil
	}
	old, text, err := p.a.editFile(p.file, p.stdin.Bytes(), documents)
	if err != nil {
		return err
	}
	return p.patch.print(p.file, old, text)
}
