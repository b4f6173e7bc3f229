package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev"
	"espalier.dev/analysis"
	"espalier.dev/analysis/lookup"
	"espalier.dev/analysis/suite"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/cmd/espalier/internal/source"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/yamlx"
	"espalier.dev/policies"
	"espalier.dev/schema"
)

// testOptions are the flags of test.
type testOptions struct {
	suites, crds input.Flags
	source       sourceFlags
	report       reportFlags
	run          string
	watch        bool
}

func newTestCommand(a *app) *cobra.Command {
	var o testOptions
	c := &cobra.Command{
		Use:   "test PATH...",
		Short: "Run test suites for CRDs and for objects of built-in kinds",
		Long: `A test suite is a YAML document that lists objects that a CRD must accept, objects that it
must reject and why, updates, and what is stored. Suites run on the same engine as
espalier serve, so they need no cluster.

PATH is a file or directory with suites; other documents in it are skipped.

  apiVersion: espalier.dev/v1
  kind: TestSuite
  crd: crontab-crd.yaml           # a file or a list of files, relative to the suite
  semantics: kubernetes           # or kep; default: the value of --semantics
  base:                           # the object that test cases modify
    spec: {cronSpec: "0 * * * *", image: example}
  valid:                          # must be accepted
  - name: unmodified base
  - name: ten replicas
    with: {spec: {replicas: 10}}  # a merge patch on base; or object: for a whole object
    stored:                       # exactly what is stored
      spec: {cronSpec: "0 * * * *", image: example, replicas: 10, policy: Allow}
  - name: unknown fields are pruned
    with: {spec: {imgae: typo}}
    pruned: [spec.imgae]          # exactly the fields that are pruned
    defaulted: [spec.policy, spec.replicas]
  invalid:                        # must be rejected
  - name: no image
    with: {spec: {image: null}}
    errors:                       # exactly these errors; default: any error
    - path: spec.image            # each error needs at least one of: path, a part of the
      message: Required value     # message, or the schema keyword or CEL rule
      rule: required
  updates:
  - name: image is immutable
    with: {spec: {image: other}}  # a patch on old (default: base); or new: for a whole object
    errors: [the image cannot change]

apiVersion, kind and metadata.name of objects are optional. A string in place of an object
names a file. Fields that the API server sets (uid, generation, timestamps) are not
compared; name and namespace are compared only if they are expected. A valid case fails if
fields are pruned that neither pruned nor stored expects. An update case with
"subresource: status" writes the status.

The CRD of a suite is the first one found in: the --crd flag, the crd field of the suite,
the file of the suite, the PATHs, crds in the configuration file. With --from-cluster, the CRD
of a suite that has none of these comes from a running cluster: the one that defines the
kind of the suite's objects.

A suite whose objects are of built-in kinds, such as Deployments, needs no CRD:

  apiVersion: espalier.dev/v1
  kind: TestSuite
  base: deployment.yaml
  invalid:
  - name: no negative replicas
    with: {spec: {replicas: -1}}
    errors: [{path: spec.replicas}]
  updates:
  - name: the selector is immutable
    with: {spec: {selector: {matchLabels: {app: other}}}}
    errors: [field is immutable, does not match template]

A suite can name admission policies. They do what they do in a cluster: mutating policies change
an object before it is validated, and validating policies may deny it after that.

  apiVersion: espalier.dev/v1
  kind: TestSuite
  policies: [policies/]           # files and directories with policies, their bindings, parameters
                                  # and namespaces, relative to the suite
  as: {user: jane, groups: [developers]} # default: the administrator of the server
  base: deployment.yaml
  valid:
  - name: gets a team
    changed: [metadata.labels]    # exactly the fields that mutating policies change; stored has
                                  # their values
    warnings: []                  # parts of exactly the warnings of policies
  invalid:
  - name: too many replicas
    with: {spec: {replicas: 30}}
    errors:                       # the rule is the name of the policy
    - {rule: replicas, message: at most 5 replicas, path: spec.replicas}

An object that is invalid without policies is rejected for that, and validating policies are not
asked about it. A policy that asks the authorizer, or that needs a version to which a webhook
converts the object, fails the case.

Suites in the format of OpenShift's api repository (crdName, and tests with onCreate and
onUpdate) also run, always with kubernetes semantics.

With --watch, the suites run again whenever a file changes, until you press Ctrl-C.

Exit codes: 0 all tests pass, 1 a test fails (unless --fail-on=never is set),
` + otherExitCodes + `.`,
		Example: `  # Run a suite with the CRD that it names
  espalier test crontab-suite.yaml

  # Run some of the cases
  espalier test crontab-suite.yaml --run 'invalid/'

  # Run all suites below a directory, and write a report for CI
  espalier test -R . -o text -o junit=report.xml

  # Run suites that name no CRD with those of a running cluster
  espalier test -R suites/ --from-cluster --context staging

  # Run a suite for admission policies
  espalier test policy-suite.yaml

  # Run a suite with another CRD
  espalier test --crd crontab-crd.yaml crontab-suite.yaml --semantics kubernetes`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError(c, errors.New("test needs PATH: files or directories with test suites, or - for standard input"))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			o.suites.Paths = args
			if o.watch {
				return a.watchTests(c, o)
			}
			return a.test(c, o)
		},
	}
	addCRDFlag(c, &o.crds)
	addReadFlags(c, &o.suites, "recursive", input.Everything)
	addFromClusterFlags(c, &o.source, "read the CRDs of suites that have none from a running cluster")
	c.Flags().StringVar(&o.run, "run", "", "regular `EXPRESSION`: run only the cases whose suite/section/name matches it")
	c.Flags().BoolVar(&o.watch, "watch", false, "run again when a file changes, until Ctrl-C")
	groupFlags(c.Flags(), checkFlags, "run", "watch")
	addReportFlags(c, &o.report)
	return c
}

// tester is one run of test.
type tester struct {
	a      *app
	ctx    context.Context
	report *report.Reporter
	run    *regexp.Regexp
	// maxDocument is the maximum size of a document, also in the files that suites name.
	maxDocument int
	// crds are the CRDs that all suites share, and files those in the files that suites name.
	crds      suite.Candidates
	files     map[string][]suite.Candidate
	semantics map[string]bool
	// policies has the admission policies of suites, by the files that they name.
	policies map[string]*policySet
	passed   int
	failed   int
}

func (a *app) test(c *cobra.Command, o testOptions) (err error) {
	run, err := regexp.Compile(o.run)
	if err != nil {
		return fmt.Errorf("--run: %w", err)
	}
	if err := stdinOnce(o.crds, o.suites); err != nil {
		return err
	}
	options := a.reportOptions(c, o.report, testRules())
	options.What, options.TestCases = "suite", true
	r, err := report.New(options)
	if err != nil {
		return err
	}
	defer func() { err = r.Finish(err) }()
	t := &tester{a: a, ctx: c.Context(), report: r, run: run, maxDocument: o.suites.MaxDocument,
		files: map[string][]suite.Candidate{}, semantics: map[string]bool{}, policies: map[string]*policySet{}}
	o.crds = o.suites.With(o.crds.Paths...)
	if len(o.source.named(c)) > 0 {
		if t.crds.Cluster, err = a.suiteCRDs(c.Context(), &o.source); err != nil {
			return err
		}
	}
	if len(o.crds.Paths) > 0 {
		if t.crds.Given, err = t.definitions(o.crds); err != nil {
			return err
		}
	} else if paths := a.configuredCRDs(); len(paths) > 0 {
		if t.crds.Configured, err = t.definitions(o.suites.With(paths...)); err != nil {
			return err
		}
	}
	var suites []*input.Item
	collect := func(it *input.Item) error {
		if isDefinition(it) {
			t.crds.Around = append(t.crds.Around, candidate(it))
		} else if suite.Recognize(it.JSON) {
			suites = append(suites, it)
		}
		return nil
	}
	if err := input.Read(c.Context(), a.stdin, o.suites.Unrendered(), collect, r.Failure); err != nil {
		return err
	}
	if len(suites) == 0 && r.Summary().Failures == 0 && !o.suites.Excluded() {
		r.Failure(input.Problem{Rule: ruleNoSuite, File: strings.Join(o.suites.Paths, ", "),
			Message: "no test suite found: espalier test --help describes the format"})
	}
	for _, it := range suites {
		if err := c.Context().Err(); err != nil {
			return err
		}
		r.Saw(it)
		t.suite(it)
	}
	t.summarize()
	if o.run != "" && t.passed+t.failed == 0 && r.Summary().Failures == 0 && !o.suites.Excluded() {
		return fmt.Errorf("--run=%s: no case in %s matches", o.run, analysis.Plural(len(suites), "suite"))
	}
	return nil
}

// summarize adds the number of passed and failed cases to the summary.
func (t *tester) summarize() {
	s := t.report.Summary()
	s.Extra = map[string]any{"passed": t.passed, "failed": t.failed}
	s.Verdict = fmt.Sprintf("%d passed, %d failed", t.passed, t.failed)
	if len(t.semantics) > 0 {
		s.Semantics = strings.Join(slices.Sorted(maps.Keys(t.semantics)), " and ")
	}
}

// definitions reads CRDs and skips other objects.
func (t *tester) definitions(flags input.Flags) (list []suite.Candidate, err error) {
	err = input.Read(t.ctx, t.a.stdin, flags, func(it *input.Item) error {
		if isDefinition(it) {
			list = append(list, candidate(it))
		}
		return nil
	}, t.report.Failure)
	return list, err
}

// suiteCRDs returns a function that finds the CRD of a suite in a cluster. After an error that is
// not about the CRD it fails always, so that a server that does not answer is not asked again.
func (a *app) suiteCRDs(ctx context.Context, f *sourceFlags) (func(string, runtimeschema.GroupKind) ([]suite.Candidate, error), error) {
	src, err := a.openCluster(f)
	if err != nil {
		return nil, err
	}
	var broken error
	return func(name string, kind runtimeschema.GroupKind) (list []suite.Candidate, err error) {
		if broken != nil {
			return nil, broken
		}
		var items []*input.Item
		if name == "" {
			items, _, err = resourceCRDs(ctx, src, []string{kind.Kind + "." + kind.Group})
		} else {
			items = make([]*input.Item, 1)
			var o source.Object
			if o, err = src.Definition(ctx, name); err == nil {
				items[0], err = o.AsItem()
			}
		}
		switch failure := (*source.Failure)(nil); {
		case errors.As(err, &failure) && failure.Reason == source.Vanished:
			return nil, nil
		case errors.As(err, &failure):
			return nil, err
		case err != nil:
			broken = err
			return nil, err
		}
		for _, it := range items {
			if name != "" || lookup.Defined(it.JSON) == kind {
				list = append(list, candidate(it))
			}
		}
		return list, nil
	}, nil
}

func candidate(it *input.Item) suite.Candidate {
	return suite.Candidate{Name: it.Name(), File: it.File, JSON: it.JSON}
}

// suite runs a suite.
func (t *tester) suite(it *input.Item) {
	s, wrong := suite.Parse(it.JSON, func(name string) ([]byte, error) { return t.readObjectFile(input.Beside(it.File, name)) })
	if s.Name == "" {
		s.Name = strings.TrimSuffix(filepath.Base(it.File), filepath.Ext(it.File))
	}
	var places []report.Finding
	for _, f := range wrong {
		f.Part = analysis.FieldName
		at := report.At(it, f)
		at.Case = s.Name
		places = append(places, at)
	}
	slices.SortStableFunc(places, func(a, b report.Finding) int { return a.Span.Offset - b.Span.Offset })
	for _, f := range places {
		t.report.Add(f)
	}
	if len(wrong) > 0 {
		t.failed++
	}
	s.Cases = slices.DeleteFunc(s.Cases, func(c *suite.Case) bool { return !t.run.MatchString(s.Name + "/" + c.FullName()) })
	if len(s.Cases) == 0 {
		return
	}
	runner, pointer, err := t.runner(it, s)
	if err != nil {
		t.failed++
		message, rest, _ := strings.Cut(err.Error(), "\n")
		f := analysis.Finding{Rule: ruleSuiteDefinition, Severity: analysis.Error, Pointer: pointer, Message: message}
		if rest != "" {
			f.Detail = strings.Split(rest, "\n")
		}
		at := report.At(it, f)
		at.Failed, at.Case = true, s.Name
		t.report.Add(at)
		return
	}
	t.semantics[runner.Semantics().String()] = true
	for _, c := range s.Cases {
		if t.ctx.Err() != nil {
			return
		}
		name := s.Name + "/" + c.FullName()
		findings := runner.Run(t.ctx, c)
		for _, f := range findings {
			at := report.At(it, f)
			at.Case = name
			t.report.Add(at)
		}
		if len(findings) > 0 {
			t.failed++
			continue
		}
		t.passed++
		at := report.At(it, analysis.Finding{Pointer: c.Pointer})
		at.Case = name
		t.report.Passed(at)
	}
}

// runner returns a runner for a suite and its CRD. The pointer is the place in the suite to
// which an error refers.
func (t *tester) runner(it *input.Item, s *suite.Suite) (r *suite.Runner, pointer string, err error) {
	options := suite.Options{Semantics: t.a.semantics.Semantics, Rules: cel.Checker{}}
	if s.Semantics != nil {
		options.Semantics = *s.Semantics
	}
	if len(s.Policies) > 0 {
		if options.Policies, err = t.suitePolicies(it, s, options.Semantics); err != nil {
			return nil, "/policies", err
		}
	}
	if types, ok := s.NeedsNoCRD(lookup.IsBuiltin); ok {
		builtin, err := espalier.NewSet()
		return suite.NewRunnerFor(s, builtin, types, options), "", err
	}
	all := t.crds
	all.File = it.File
	for _, file := range s.Files {
		path := input.Beside(it.File, file)
		if _, ok := t.files[path]; !ok {
			if _, err := t.a.repositories.Stat(path); err != nil {
				return nil, "/crd", fmt.Errorf("cannot read the CRD: %w", err)
			}
			if t.files[path], err = t.definitions(input.Flags{Paths: []string{path}, MaxDocument: t.maxDocument, Git: t.a.repositories}); err != nil {
				return nil, "/crd", err
			}
		}
		all.Named = append(all.Named, t.files[path]...)
	}
	chosen, pointer, err := s.Choose(all)
	if err != nil {
		return nil, pointer, err
	}
	if r, err = suite.NewRunner(t.ctx, s, chosen.JSON, options); err != nil {
		err = fmt.Errorf("the CRD in %s is invalid: %w", chosen.File, err)
	}
	return r, pointer, err
}

// suitePolicies returns the admission policies of a suite.
func (t *tester) suitePolicies(it *input.Item, s *suite.Suite, sem schema.Semantics) (suite.Policies, error) {
	var paths []string
	for _, path := range s.Policies {
		path = input.Beside(it.File, path)
		if _, err := t.a.repositories.Stat(path); err != nil {
			return nil, fmt.Errorf("cannot read the policies: %w", err)
		}
		paths = append(paths, path)
	}
	key := fmt.Sprintf("%s\n%s", sem, strings.Join(paths, "\n"))
	if known := t.policies[key]; known != nil {
		return known, nil
	}
	var items []*input.Item
	failures := t.report.Summary().Failures
	if err := input.Read(t.ctx, t.a.stdin, input.Flags{Paths: paths, MaxDocument: t.maxDocument, Git: t.a.repositories}, func(it *input.Item) error {
		items = append(items, it)
		return nil
	}, t.report.Failure); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(items, isPolicy) {
		if t.report.Summary().Failures > failures {
			return nil, fmt.Errorf("the policies cannot be read")
		}
		return nil, fmt.Errorf("no ValidatingAdmissionPolicy, MutatingAdmissionPolicy or webhook configuration found in %s", strings.Join(s.Policies, ", "))
	}
	set, problems, err := t.a.newPolicySet(t.ctx, items, t.paramCRDs(items, sem))
	if err != nil {
		return nil, err
	}
	var wrong []string
	for _, p := range problems {
		// Suites may test what happens without parameters.
		if p.Code != policies.MissingParam && p.Code != policies.UnknownParamKind {
			f := set.problem(p)
			wrong = append(wrong, fmt.Sprintf("%s: %s: %s", new(f.Location()).Position(), f.Path, f.Message))
		}
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("policies have errors\n%s", strings.Join(wrong, "\n"))
	}
	t.policies[key] = set
	return set, nil
}

// paramCRDs returns a function that finds the CRDs of parameters: beside the policies, or among those
// that all suites share.
func (t *tester) paramCRDs(items []*input.Item, sem schema.Semantics) func(runtimeschema.GroupVersionKind) *definition {
	known := map[runtimeschema.GroupKind]*definition{}
	add := func(it *input.Item) {
		if d := newDefinition(it, sem); known[d.kind] == nil {
			known[d.kind] = d
		}
	}
	for _, it := range items {
		if isDefinition(it) {
			add(it)
		}
	}
	for _, c := range slices.Concat(t.crds.Given, t.crds.Around, t.crds.Configured) {
		if it, err := input.NewItem(c.File, c.JSON); err == nil {
			add(it)
		}
	}
	return func(gvk runtimeschema.GroupVersionKind) *definition { return known[gvk.GroupKind()] }
}

// readObjectFile reads the object in a file.
func (t *tester) readObjectFile(path string) ([]byte, error) {
	text, err := t.a.repositories.ReadFile(path)
	if err != nil {
		return nil, err
	}
	doc, err := yamlx.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return doc.JSON()
}

// watchInterval is the time between two checks for changed files.
const watchInterval = 300 * time.Millisecond

// watchTests runs the suites whenever a file changes, until the context is done. It
// returns the error of the last run.
func (a *app) watchTests(c *cobra.Command, o testOptions) error {
	ctx := c.Context()
	if slices.Contains(o.suites.Paths, "-") || slices.Contains(o.crds.Paths, "-") {
		return errors.New("--watch cannot watch standard input")
	}
	if slices.ContainsFunc(slices.Concat(o.suites.Paths, o.crds.Paths), input.IsGit) {
		return errors.New("--watch cannot watch a revision, which does not change")
	}
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		before := a.stamps(o)
		err := a.test(c, o)
		var exit report.ExitError
		if err != nil && !errors.As(err, &exit) {
			return err
		}
		fmt.Fprintf(a.stderr, "%s: watching %s; press Ctrl-C to stop\n", a.name(), analysis.Plural(len(before), "file"))
		for maps.Equal(before, a.stamps(o)) {
			select {
			case <-ctx.Done():
				return err
			case <-tick.C:
			}
		}
		fmt.Fprintf(a.stderr, "%s: files changed, running again\n", a.name())
	}
}

// stamp detects changes of a file.
type stamp struct {
	modified time.Time
	size     int64
}

// stamps returns the stamps of all files that a run may read: the given ones, and all YAML
// and JSON files next to them, which suites may name.
func (a *app) stamps(o testOptions) map[string]stamp {
	found := map[string]stamp{}
	look := func(dir string, recursive bool) {
		_ = a.dir.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				// The file may exist again at the next check.
				return nil
			}
			if d.IsDir() {
				if path != dir && (!recursive || strings.HasPrefix(d.Name(), ".")) {
					return filepath.SkipDir
				}
				return nil
			}
			if !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
				return nil
			}
			if info, err := d.Info(); err == nil {
				found[path] = stamp{info.ModTime(), info.Size()}
			}
			return nil
		})
	}
	for _, path := range slices.Concat(o.suites.Paths, o.crds.Paths) {
		info, err := a.dir.Stat(path)
		switch {
		case err != nil:
		case info.IsDir():
			look(path, o.suites.Recursive)
		default:
			found[path] = stamp{info.ModTime(), info.Size()}
			look(filepath.Dir(path), false)
		}
	}
	return found
}
