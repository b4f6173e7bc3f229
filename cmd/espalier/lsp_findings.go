package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"sync"

	"github.com/spf13/cobra"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lint"
	"espalier.dev/analysis/lookup"
	"espalier.dev/analysis/object"
	"espalier.dev/cmd/espalier/internal/config"
	"espalier.dev/cmd/espalier/internal/helm"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/yamlx"
)

// checks are the commands validate and lint with the flags and the configuration of a workspace.
type checks struct {
	validator, linter *app
	validate, lint    *cobra.Command
	validating        validateOptions
	linting           lintOptions
	fields            object.FieldValidation
	lintConfigs       []lint.Config
	// lintRules are the rules that are on.
	lintRules []lint.Rule
	// charts renders charts. It is nil if they are not rendered.
	charts  *helm.Renderer
	buffers *input.Buffers
	ctx     context.Context
	// adding guards the CRDs of the workspace while several goroutines add some.
	adding sync.Mutex
}

// flagValue is a flag of the command line and its value.
type flagValue struct{ name, value string }

// newChecks returns the commands for a workspace. given are the flags of the command line; a command
// ignores those that it does not have.
func (a *app) newChecks(ctx context.Context, w *workspace, given []flagValue) (*checks, error) {
	given = slices.Clone(given)
	if !slices.ContainsFunc(given, func(f flagValue) bool { return f.name == "no-config" || f.name == "config" }) {
		file, err := config.Find(a.dir, w.root)
		switch {
		case err != nil:
			return nil, err
		case file == "":
			given = append(given, flagValue{"no-config", "true"})
		default:
			given = append(given, flagValue{"config", file})
		}
	}
	given = append(given, flagValue{"skip-other-files", "true"}, flagValue{"kustomize", "skip"}, flagValue{"filename", w.root}, flagValue{"recursive", strconv.FormatBool(w.recursive)})
	ctx = context.WithoutCancel(ctx) // it is that of one request
	k := &checks{buffers: w.buffers, ctx: ctx}
	prepare := func(with func(*app) *cobra.Command) (*app, *cobra.Command, error) {
		own := &app{program: a.program, dir: a.dir, stdin: emptyInput{}, stdout: io.Discard, stderr: io.Discard, environ: a.environ,
			repositories: input.NewRepositories(ctx, a.dir).WithBuffers(w.buffers)}
		c := with(own)
		addConfigFlags(c, &own.configFlags)
		c.Flags().Var(&own.semantics, "semantics", "")
		c.SetContext(ctx)
		for _, f := range given {
			if c.Flags().Lookup(f.name) == nil {
				continue
			}
			if err := c.Flags().Set(f.name, f.value); err != nil {
				return nil, nil, fmt.Errorf("--%s=%s: %w", f.name, f.value, err)
			}
		}
		return own, c, own.configure(c)
	}
	var err error
	if k.validator, k.validate, err = prepare(func(own *app) *cobra.Command { return newValidateCommand(own, &k.validating) }); err != nil {
		return nil, err
	}
	if k.linter, k.lint, err = prepare(func(own *app) *cobra.Command { return newLintCommand(own, &k.linting) }); err != nil {
		return nil, err
	}
	o := &k.validating
	// Charts are rendered in the background.
	k.charts, o.objects.Helm, k.linting.input.Helm = o.objects.Helm, nil, nil
	if k.fields, err = object.ParseFieldValidation(o.fieldValidation); err != nil {
		return nil, err
	}
	if err := o.skip.check(); err != nil {
		return nil, err
	}
	o.crds = o.objects.With(o.crds.Paths...)
	o.crds.Keep = input.Everything
	// CRDs may be read again until they are indexed anew.
	o.crds.Git = input.NewRepositories(ctx, a.dir).WithBuffers(w.buffers)
	if k.lintConfigs, err = k.linter.lintConfigs(k.linting); err != nil {
		return nil, err
	}
	rules, err := lint.Configured(k.lintConfigs...)
	if err != nil {
		return nil, err
	}
	k.lintRules = slices.DeleteFunc(rules, func(r lint.Rule) bool { return r.Off })
	k.validator.inputs, k.linter.inputs = []input.Flags{o.objects}, []input.Flags{k.linting.input}
	return k, nil
}

// renew forgets what was read of files that may have changed.
func (k *checks) renew() {
	for _, own := range []*app{k.validator, k.linter} {
		_ = own.repositories.Close() // only its processes end
		own.repositories = input.NewRepositories(k.ctx, own.dir).WithBuffers(k.buffers)
	}
	for _, flags := range []*input.Flags{&k.validating.objects, &k.linting.input} {
		flags.Git = k.validator.repositories
	}
}

// close ends the processes that read Git repositories.
func (k *checks) close() {
	if k != nil {
		_ = errors.Join(k.validator.repositories.Close(), k.linter.repositories.Close(), k.validating.crds.Git.Close()) // nothing is lost
	}
}

// emptyInput is a standard input without content.
type emptyInput struct{}

func (emptyInput) Read([]byte) (int, error) { return 0, io.EOF }

// fileResults are the last results of a file.
type fileResults struct {
	validated *validatedFile
	linted    *lintedFile
}

// validatedFile is the result of validating a file.
type validatedFile struct {
	version, generation int
	documents           []*validatedDocument
	// byLine has the documents by their first line.
	byLine   map[int][]*validatedDocument
	problems []input.Problem
}

// validatedDocument is the result of validating a document.
type validatedDocument struct {
	source []byte
	documentResult
	// recovered are findings about a document that does not parse, in the parts that do.
	recovered []report.Finding
}

// find returns the result of a document that has not changed, or nil. Its offset may be another one.
func (of *validatedFile) find(d *input.Document) *validatedDocument {
	if of == nil {
		return nil
	}
	for _, known := range of.byLine[d.Line()] {
		if bytes.Equal(known.source, d.Source()) {
			return known
		}
	}
	return nil
}

// add adds the result of a document.
func (of *validatedFile) add(line int, d *validatedDocument) {
	of.documents = append(of.documents, d)
	// The position of what a program has rendered depends on other text.
	if !slices.ContainsFunc(d.objects, func(o objectResult) bool { return o.item.Rendered() }) {
		of.byLine[line] = append(of.byLine[line], d)
	}
}

// report reports the result.
func (of *validatedFile) report(to *validationReporter, recovered *report.Reporter) error {
	for _, d := range of.documents {
		if err := to.report(d.documentResult); err != nil {
			return err
		}
	}
	for _, p := range of.problems {
		to.r.Failure(p)
	}
	for _, d := range of.documents {
		for _, f := range d.recovered {
			recovered.Add(f)
		}
	}
	return nil
}

// lintedFile is the result of linting a file, without its policies: see policyResults.
type lintedFile struct {
	version  int
	earlier  []*lint.Names
	items    []*input.Item
	policies []*input.Item
	findings map[*input.Item][]analysis.Finding
	problems []input.Problem
}

// fileFindings are the findings about a file.
type fileFindings struct {
	// reported is what validate and lint report, recovered what validate would report of documents
	// that do not parse without the lines that keep them from it.
	reported, recovered []report.Finding
}

// findings returns what validate and lint report about files. Other files of the workspace matter as
// they do for these commands.
func (w *workspace) findings(ctx context.Context, paths []string) (map[string]*fileFindings, error) {
	if err := w.lock(ctx); err != nil {
		return nil, err
	}
	defer w.unlock()
	if err := w.refresh(ctx); err != nil {
		return nil, err
	}
	w.renderCharts(paths)
	wanted := map[string]bool{}
	for _, path := range paths {
		wanted[path] = true
	}
	for path := range w.results {
		if !wanted[path] {
			delete(w.results, path)
		}
	}
	for path := range wanted {
		if w.results[path] == nil {
			w.results[path] = &fileResults{}
		}
	}
	all := map[string]*fileFindings{}
	for _, path := range paths {
		all[path] = &fileFindings{}
	}
	// Validate and lint report some findings both.
	type identity struct {
		file, rule, message, pointer string
		severity                     analysis.Severity
		span                         yamlx.Position
	}
	seen := map[identity]bool{}
	collect := func(f report.Finding) {
		id := identity{f.File, f.Rule, f.Message, f.Pointer, f.Severity, f.Span}
		if of := all[f.File]; of != nil && !seen[id] {
			seen[id] = true
			of.reported = append(of.reported, f)
		}
	}
	recovered := func(f report.Finding) {
		if of := all[f.File]; of != nil {
			of.recovered = append(of.recovered, f)
		}
	}
	if err := w.validateFiles(ctx, wanted, collect, recovered); err != nil {
		return nil, err
	}
	if err := w.lintFiles(ctx, wanted, collect); err != nil {
		return nil, err
	}
	for _, of := range all {
		report.Sort(of.reported)
	}
	return all, nil
}

// collector returns a reporter that passes findings to a function.
func collector(own *app, c *cobra.Command, flags reportFlags, rules []analysis.Rule, collect func(report.Finding)) (*report.Reporter, error) {
	o := own.reportOptions(c, flags, rules)
	o.Collect, o.Progress, o.Skipped = collect, nil, nil
	return report.New(o)
}

// finish ends a collecting reporter. That there are findings is no error.
func finish(r *report.Reporter) error {
	err := r.Close()
	if exit := report.ExitError(0); errors.As(err, &exit) {
		return nil
	}
	return err
}

// validateFiles reports what validate finds in some files.
func (w *workspace) validateFiles(ctx context.Context, wanted map[string]bool, collect, recovered func(report.Finding)) error {
	k := w.checks
	r, err := collector(k.validator, k.validate, k.validating.report, validationRules(), collect)
	if err != nil {
		return err
	}
	// What is recovered is suppressed by the same comments.
	aside, err := collector(k.validator, k.validate, k.validating.report, validationRules(), recovered)
	if err != nil {
		return err
	}
	w.definitions.told = map[runtimeschema.GroupKind]bool{}
	v := &validator{ctx: ctx, definitions: w.definitions, fields: k.fields, skip: w.skipped(), release: k.validating.release.checks(),
		variables: true}
	results := &validationReporter{ctx: ctx, r: r, definitions: w.definitions, checkCRDs: k.validating.checkCRDs,
		reported: map[*definition]bool{}, namespaces: map[string]bool{}}
	around := w.around(wanted)
	for _, path := range w.order {
		f := w.files[path]
		if !wanted[path] {
			if err := around.mention(f, v, results); err != nil {
				return err
			}
			continue
		}
		kept := w.results[path]
		if kept.validated == nil || kept.validated.version != f.version || kept.validated.generation != w.generation {
			of, err := w.validateFile(ctx, f, v, kept.validated)
			if err != nil {
				return err // it is not complete
			}
			kept.validated = of
		}
		if err := kept.validated.report(results, aside); err != nil {
			return err
		}
	}
	// A file in which nothing could be read is not among those of the workspace.
	for path := range wanted {
		if w.files[path] != nil {
			continue
		}
		of, err := w.validateFile(ctx, &workspaceFile{path: path}, v, nil)
		if err != nil {
			return err
		}
		if err := of.report(results, aside); err != nil {
			return err
		}
	}
	results.duplicates.report(r)
	return finish(r)
}

// surroundings tell which objects of other files affect the findings about some.
type surroundings struct {
	// kinds are the kinds that CRDs in the files define: what is wrong with a CRD is reported if an
	// object uses it, or another CRD of its kind.
	kinds map[runtimeschema.GroupKind]bool
	// directories are those of the files: objects that are twice are reported in each directory.
	directories map[string]bool
}

// around returns the surroundings of files.
func (w *workspace) around(wanted map[string]bool) *surroundings {
	s := &surroundings{kinds: map[runtimeschema.GroupKind]bool{}, directories: map[string]bool{}}
	for path := range wanted {
		s.directories[filepath.Dir(path)] = true
	}
	for _, d := range w.definitions.All() { // those of --crd
		if wanted[d.file] {
			s.kinds[d.kind] = true
		}
	}
	for _, d := range w.indexed {
		if wanted[d.file] {
			s.kinds[d.kind] = true
		}
	}
	return s
}

// mention tells a reporter of the objects of a file that is not validated. Most have no effect: none of
// their CRDs is compiled.
func (s *surroundings) mention(f *workspaceFile, v *validator, results *validationReporter) error {
	for _, o := range f.objects {
		if o.crd == nil && s.kinds[lookup.KindOf(o.item)] {
			if err := results.use(v.uses(o.item)); err != nil {
				return err
			}
		}
		if s.directories[filepath.Dir(o.item.File)] || o.item.Kustomization() != "" {
			results.duplicates.add(o.item, o.at)
		}
	}
	return nil
}

// uses returns the CRD that validate uses for an object, or nil if there is none.
func (v *validator) uses(it *input.Item) *definition {
	if v.skip.byKind(it) != "" || v.isBuiltin(it) {
		return nil
	}
	d, err := v.definitions.Find(it)
	if err != nil {
		return nil
	}
	return d
}

// validateFile validates the objects of a file. before is the last result, or nil: documents that have
// not changed since then are not validated again.
func (w *workspace) validateFile(ctx context.Context, f *workspaceFile, v *validator, before *validatedFile) (*validatedFile, error) {
	of := &validatedFile{version: f.version, generation: w.generation, byLine: map[int][]*validatedDocument{}}
	if before != nil && before.generation != w.generation {
		before = nil
	}
	err := w.documents(ctx, w.checks.validating.objects, f.path, func(d *input.Document) error {
		result := before.find(d)
		if result == nil {
			result = &validatedDocument{source: d.Source(), documentResult: v.document(d)}
			if result.problem != nil && len(result.objects) == 0 {
				result.recovered = v.recover(d)
			}
		}
		of.add(d.Line(), result)
		return nil
	}, func(p input.Problem) { of.problems = append(of.problems, p) })
	return of, cmp.Or(err, ctx.Err())
}

// documents visits the documents of one file of the input.
func (w *workspace) documents(ctx context.Context, flags input.Flags, path string, visit func(*input.Document) error,
	problem func(input.Problem)) error {
	if chart := w.rendered.of(path); chart != nil {
		if !chart.isCurrent(path, w.buffers) {
			return ctx.Err() // the next rendering follows
		}
		if _, rendered := chart.documents[path]; !rendered {
			problem(*chart.problem)
		}
		for _, d := range chart.documents[path] {
			if err := visit(d); err != nil {
				return err
			}
		}
		return ctx.Err()
	}
	flags.Skipped, flags.Unchanged = nil, func(other string) bool { return !isBelow(path, other) }
	return input.Documents(ctx, emptyInput{}, flags, func(d *input.Document) error {
		if d.File != path {
			return nil
		}
		return visit(d)
	}, func(p input.Problem) {
		if p.File == path {
			problem(p)
		}
	})
}

// lintFiles reports what lint finds in some files.
func (w *workspace) lintFiles(ctx context.Context, wanted map[string]bool, collect func(report.Finding)) error {
	k := w.checks
	r, err := collector(k.linter, k.lint, k.linting.report, lintRules(k.lintRules), collect)
	if err != nil {
		return err
	}
	paths := slices.Clone(w.order)
	for path := range wanted {
		if w.files[path] == nil {
			paths = append(paths, path)
		}
	}
	for _, path := range paths {
		if !wanted[path] {
			continue
		}
		f := w.files[path]
		if f == nil {
			f = &workspaceFile{path: path}
		}
		kept := w.results[path]
		if err := w.lintFile(ctx, f, kept); err != nil {
			return err
		}
		linted := kept.linted
		if len(linted.policies) > 0 {
			if err := w.lintPolicies(ctx); err != nil {
				return err
			}
		}
		for _, it := range linted.items {
			r.Saw(it)
			findings := linted.findings[it]
			if slices.Contains(linted.policies, it) {
				findings = w.policies.findings[policyPlaceOf(it)]
			}
			for _, found := range placed(it, findings) {
				r.Add(found)
			}
		}
		for _, p := range linted.problems {
			r.Failure(p)
		}
	}
	return finish(r)
}

// earlier returns the names that CRDs before a file claim, if the file has CRDs.
func (w *workspace) earlier(f *workspaceFile) (names []*lint.Names) {
	rendered := w.renderedCRDs()
	if !slices.ContainsFunc(f.objects, func(o workspaceObject) bool { return o.crd != nil }) &&
		!slices.ContainsFunc(rendered, func(d *workspaceDefinition) bool { return d.file == f.path }) {
		return nil
	}
	for _, path := range w.order {
		if compareFiles(path, f.path) >= 0 {
			break
		}
		if w.rendered.of(path) != nil {
			continue // it is a template
		}
		for _, o := range w.files[path].objects {
			if o.crd != nil {
				names = append(names, o.crd.names())
			}
		}
	}
	for _, d := range rendered {
		if compareFiles(d.file, f.path) < 0 {
			names = append(names, d.names())
		}
	}
	return names
}

// lintFile lints the CRDs of a file, unless nothing has changed.
func (w *workspace) lintFile(ctx context.Context, f *workspaceFile, kept *fileResults) error {
	earlier := w.earlier(f)
	if last := kept.linted; last != nil && last.version == f.version && f.version != 0 && reflect.DeepEqual(last.earlier, earlier) {
		return nil
	}
	of := &lintedFile{version: f.version, earlier: earlier, findings: map[*input.Item][]analysis.Finding{}}
	var crds []*input.Item
	err := w.documents(ctx, w.checks.linting.input, f.path, func(d *input.Document) error {
		items, problem := d.Items()
		if problem != nil {
			of.problems = append(of.problems, *problem)
		}
		for _, it := range items {
			switch p := misspelledProblem(it); {
			case isDefinition(it):
				of.items, crds = append(of.items, it), append(crds, it)
			case lint.IsPolicy(it.TypeMeta()):
				of.items, of.policies = append(of.items, it), append(of.policies, it)
			case p != nil:
				of.problems = append(of.problems, *p)
			}
		}
		return nil
	}, func(p input.Problem) { of.problems = append(of.problems, p) })
	if err != nil {
		return err
	}
	found, err := lint.Run(ctx, textsOf(crds), w.checks.linting.release.lintFor(lint.Options{
		Semantics: w.checks.linter.semantics.Semantics, Rules: cel.Checker{}, Configs: w.checks.lintConfigs, Earlier: earlier,
	}))
	if err != nil {
		return err
	}
	for i, it := range crds {
		of.findings[it] = found[i]
	}
	kept.linted = of
	return nil
}
