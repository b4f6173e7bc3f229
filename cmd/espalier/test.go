package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"espalier.dev/analysis"
	"espalier.dev/analysis/suite"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/yamlx"
)

// testOptions are the flags of test.
type testOptions struct {
	suites, crds input.Flags
	outputs      []string
	run          string
	watch        bool
}

func newTestCommand(a *app) *cobra.Command {
	var o testOptions
	c := &cobra.Command{
		Use:   "test PATH...",
		Short: "Run test suites next to CustomResourceDefinitions",
		Long: `Test runs suites: YAML documents that say which objects a CustomResourceDefinition must
accept, which it must reject and why, which updates are allowed, and what is stored in
the end. The answers are those of the engine that a server has, so no cluster is needed.

PATHs are files and directories with suites; whatever else is in them is skipped.

  apiVersion: espalier.dev/v1
  kind: TestSuite
  crd: crontab-crd.yaml           # a file or a list of files, relative to the suite
  semantics: kubernetes           # or kep; what --semantics says if absent
  base:                           # an object that cases change
    spec: {cronSpec: "0 * * * *", image: example}
  valid:                          # must be accepted
  - name: the base as it is
  - name: ten replicas
    with: {spec: {replicas: 10}}  # a merge patch on the base; or object: for a whole one
    stored:                       # exactly what is stored
      spec: {cronSpec: "0 * * * *", image: example, replicas: 10, policy: Allow}
  - name: unknown fields go
    with: {spec: {imgae: typo}}
    pruned: [spec.imgae]          # exactly the fields that are pruned
    defaulted: [spec.policy, spec.replicas]
  invalid:                        # must be rejected
  - name: no image
    with: {spec: {image: null}}
    errors:                       # exactly the reasons; any will do if absent
    - path: spec.image            # where, a part of the message, the keyword or the
      message: Required value     # rule in CEL: any of the three
      rule: required
  updates:
  - name: the image stays
    with: {spec: {image: other}}  # a patch on old, which is the base if absent; or new:
    errors: [the image cannot change]

An object may leave out apiVersion, kind and metadata.name. Where an object is expected,
a string names a file. What a server makes up (uid, generation, times) is not compared,
a name or namespace only if it is expected. A case of valid that loses fields fails unless
pruned or stored say so. With subresource: status a case of updates writes the status.

The definition of a suite is the one that --crd names; else the one that the suite names
with crd; else the one in the same file; else the one that the PATHs contain.

Suites in the format of OpenShift's api repository (crdName, and tests with onCreate and
onUpdate) are run as well, in the kubernetes semantics.

With --watch the suites run again whenever one of the files changes, until ctrl-C.`,
		Example: `  # Run a suite; the definition is where the suite says
  espalier test crontab-suite.yaml

  # Some of the cases
  espalier test crontab-suite.yaml --run 'invalid/'

  # All suites below a directory, and a report for CI
  espalier test -R . -o text -o junit=report.xml

  # Against another version of the definition
  espalier test --crd crontab-crd.yaml crontab-suite.yaml --semantics kubernetes`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			o.suites.Paths = args
			if o.watch {
				return a.watchTests(c, o)
			}
			return a.test(c, o)
		},
	}
	addCRDFlag(c, &o.crds)
	c.Flags().BoolVarP(&o.suites.Recursive, "recursive", "R", false, "also read the directories below a directory")
	c.Flags().StringVar(&o.run, "run", "", "run only the cases whose suite/section/name matches this regular expression")
	c.Flags().BoolVar(&o.watch, "watch", false, "run again when a file changes, until ctrl-C")
	addOutputFlag(c, &o.outputs)
	return c
}

// The rules of what test reports beside those of package suite.
const (
	ruleNoSuite         = "no-suite"
	ruleSuiteDefinition = "suite-definition"
)

func testRules() []analysis.Rule {
	return append(inputRules(),
		analysis.Rule{ID: suite.RuleFailed, Severity: analysis.Error, Summary: "The outcome of a test case is not what it expects."},
		analysis.Rule{ID: suite.RuleMalformed, Severity: analysis.Error, Summary: "A test suite does not follow the format."},
		analysis.Rule{ID: ruleNoSuite, Severity: analysis.Error, Summary: "There are no test suites where there should be some."},
		analysis.Rule{ID: ruleSuiteDefinition, Severity: analysis.Error, Summary: "The definition of a test suite is missing, ambiguous or rejected."},
	)
}

// tester is one run of test.
type tester struct {
	a      *app
	ctx    context.Context
	report *report.Reporter
	run    *regexp.Regexp
	// given are the definitions of --crd, around those in the files of suites.
	given, around []*input.Item
	files         map[string][]*input.Item
	semantics     map[string]bool
	passed        int
	failed        int
}

func (a *app) test(c *cobra.Command, o testOptions) (err error) {
	run, err := regexp.Compile(o.run)
	if err != nil {
		return fmt.Errorf("--run: %w", err)
	}
	if err := stdinOnce(o.crds, o.suites); err != nil {
		return err
	}
	options := a.reportOptions(c, o.outputs, testRules())
	options.What = "suite"
	r, err := report.New(options)
	if err != nil {
		return err
	}
	defer func() { err = r.Finish(err) }()
	t := &tester{a: a, ctx: c.Context(), report: r, run: run, files: map[string][]*input.Item{}, semantics: map[string]bool{}}
	o.crds.Recursive = o.suites.Recursive
	if len(o.crds.Paths) > 0 {
		if t.given, err = t.definitions(o.crds); err != nil {
			return err
		}
	}
	var suites []*input.Item
	collect := func(it *input.Item) error {
		if isDefinition(it) {
			t.around = append(t.around, it)
		} else if suite.Recognize(it.JSON) {
			suites = append(suites, it)
		}
		return nil
	}
	if err := input.Read(c.Context(), a.stdin, o.suites, collect, r.Failure); err != nil {
		return err
	}
	if len(suites) == 0 && r.Summary().Failures == 0 {
		r.Failure(input.Problem{Rule: ruleNoSuite, File: strings.Join(o.suites.Paths, ", "), Message: "there is no test suite in it: see the help for what one looks like"})
	}
	for _, it := range suites {
		if err := c.Context().Err(); err != nil {
			return err
		}
		r.Saw(it)
		t.suite(it)
	}
	t.summarize()
	if o.run != "" && t.passed+t.failed == 0 && r.Summary().Failures == 0 {
		return fmt.Errorf("--run %s: no case of %s matches", o.run, report.Plural(len(suites), "suite"))
	}
	return nil
}

// summarize says how many cases passed, and in which semantics.
func (t *tester) summarize() {
	s := t.report.Summary()
	s.Extra = map[string]any{"passed": t.passed, "failed": t.failed}
	s.Verdict = fmt.Sprintf("%d passed, %d failed", t.passed, t.failed)
	if len(t.semantics) > 0 {
		s.Semantics = strings.Join(slices.Sorted(maps.Keys(t.semantics)), " and ")
	}
}

// definitions reads the definitions that there are in files.
func (t *tester) definitions(flags input.Flags) (list []*input.Item, err error) {
	err = input.Read(t.ctx, t.a.stdin, flags, func(it *input.Item) error {
		if isDefinition(it) {
			list = append(list, it)
		}
		return nil
	}, t.report.Failure)
	return list, err
}

// suite runs a suite.
func (t *tester) suite(it *input.Item) {
	s, wrong := suite.Parse(it.JSON, func(name string) ([]byte, error) { return readObjectFile(besides(it.File, name)) })
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

// runner finds the definition of a suite. The pointer is where in the suite the error
// belongs.
func (t *tester) runner(it *input.Item, s *suite.Suite) (r *suite.Runner, pointer string, err error) {
	var sources [][]*input.Item
	if len(s.Files) > 0 {
		pointer = "/crd"
		var named []*input.Item
		for _, file := range s.Files {
			path := besides(it.File, file)
			if _, ok := t.files[path]; !ok {
				if _, err := os.Stat(path); err != nil {
					return nil, pointer, fmt.Errorf("the definition cannot be read: %w", err)
				}
				if t.files[path], err = t.definitions(input.Flags{Paths: []string{path}}); err != nil {
					return nil, pointer, err
				}
			}
			named = append(named, t.files[path]...)
		}
		if len(named) == 0 {
			return nil, pointer, fmt.Errorf("there is no CustomResourceDefinition in %s", strings.Join(s.Files, ", "))
		}
		sources = [][]*input.Item{named}
	}
	if len(s.Files) == 0 {
		same := slices.DeleteFunc(slices.Clone(t.around), func(d *input.Item) bool { return d.File != it.File })
		sources = [][]*input.Item{same, t.around}
	}
	// What the command line says goes before what the suite says.
	sources = append([][]*input.Item{t.given}, sources...)
	for _, source := range sources {
		var fitting []*input.Item
		for _, d := range source {
			if s.Definition == "" || d.Name() == s.Definition {
				fitting = append(fitting, d)
			}
		}
		switch len(fitting) {
		case 0:
			continue
		case 1:
			if r, err = suite.NewRunner(t.ctx, s, fitting[0].JSON, suite.Options{Semantics: t.a.semantics.Semantics, Rules: cel.Checker{}}); err != nil {
				err = fmt.Errorf("the definition in %s is rejected: %w", fitting[0].File, err)
			}
			return r, pointer, err
		}
		var places []string
		for _, d := range fitting {
			places = append(places, fmt.Sprintf("%s in %s", d.Name(), d.File))
		}
		return nil, pointer, fmt.Errorf("there is more than one definition: name one with crd in the suite, or with --crd\n%s", strings.Join(places, "\n"))
	}
	if s.Definition != "" {
		return nil, "/crdName", fmt.Errorf("there is no definition %s: name the file with --crd", s.Definition)
	}
	return nil, "", errors.New("there is no definition: name one with crd in the suite, or with --crd")
}

// besides is a file that another one names, relative to itself.
func besides(file, name string) string {
	if filepath.IsAbs(name) || file == input.Stdin {
		return name
	}
	return filepath.Join(filepath.Dir(file), name)
}

// readObjectFile reads the one object in a file.
func readObjectFile(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	doc, err := yamlx.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return doc.JSON()
}

// watchInterval is how often files are looked at.
const watchInterval = 300 * time.Millisecond

// watchTests runs the suites whenever a file changes, until it is stopped. The exit
// code is that of the last run.
func (a *app) watchTests(c *cobra.Command, o testOptions) error {
	ctx := c.Context()
	if slices.Contains(o.suites.Paths, "-") || slices.Contains(o.crds.Paths, "-") {
		return errors.New("--watch cannot watch standard input")
	}
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		before := stamps(o)
		err := a.test(c, o)
		var exit report.ExitError
		if err != nil && !errors.As(err, &exit) {
			return err
		}
		fmt.Fprintf(a.stderr, "%s: watching %s; ctrl-C stops\n", a.name(), report.Plural(len(before), "file"))
		for maps.Equal(before, stamps(o)) {
			select {
			case <-ctx.Done():
				return err
			case <-tick.C:
			}
		}
		fmt.Fprintf(a.stderr, "%s: changed, running again\n", a.name())
	}
}

// stamp is what changes when a file does.
type stamp struct {
	modified time.Time
	size     int64
}

// stamps are those of all files that a run may read: those that are named, and all
// YAML and JSON next to them, which suites may name.
func stamps(o testOptions) map[string]stamp {
	found := map[string]stamp{}
	look := func(dir string, recursive bool) {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				// It may be back when we look again.
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
		info, err := os.Stat(path)
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
