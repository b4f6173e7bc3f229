package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"espalier.dev/analysis"
	"espalier.dev/analysis/impact"
	"espalier.dev/analysis/object"
	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/cmd/espalier/internal/source"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/jsonptr"
)

// diffOptions are the flags of diff.
type diffOptions struct {
	objects input.Flags
	source  sourceFlags
	report  reportFlags
	names   int
	all     bool
}

func newDiffCommand(a *app) *cobra.Command {
	var o diffOptions
	c := &cobra.Command{
		Use:   "diff [OLD] NEW [--objects PATH... | --from-cluster | --snapshot FILE | --etcd-servers URLS | --dump PATH]",
		Short: "Compare CRDs and report how each change affects stored objects and clients",
		Long: `Diff compares two CRDs, or two sets of CRDs, which it matches by name. A directory is a set,
and so is a file with several CRDs. Two files with one CRD each are compared even if the
names of the CRDs differ.

Every change gets a verdict: its class, which is the worst possible effect. Each class has
a severity. The configuration file can set another one.

` + classTable() + `
Diff never answers "unknown": a change that is not proven safe gets a worse verdict. The
verdicts consider whether the old and the new CRD prune unknown fields. Changes that the
API server would reject as an update are errors too (update-refused).

Safe changes are counted, and listed with --all or if --fail-on selects them. Formats for
programs (json, yaml, sarif, junit) always list them.

With --objects, diff checks each object with both CRDs, and counts and lists the objects
that a change affects. Objects of other kinds are skipped; if there are no others, that is
an input error.

With --snapshot, --etcd-servers, --from-cluster or --dump, diff checks all stored objects of
the CRDs: the impact of a change before it is applied. Without OLD, the old CRDs are those
of the source that have the names of the new ones. Only etcd and its snapshots have fields
that are stored, but not served; diff reports those that the new CRD would serve again
(revealed).

Exit codes: 0 no errors, 1 errors (or what --fail-on selects), ` + otherExitCodes + `.`,
		Example: `  # Check whether a change is safe
  espalier diff old-crd.yaml new-crd.yaml

  # Compare all CRDs of two releases
  espalier diff -R release-1/ release-2/

  # List the objects that the change affects
  espalier diff old-crd.yaml new-crd.yaml --objects objects/

  # Report what a change would do to all stored objects, for a pull request comment
  espalier diff crontab-crd.yaml --snapshot snapshot.db -o markdown

  # Do it with a running cluster
  espalier diff crontab-crd.yaml --from-cluster --context staging

  # Fail if clients may break, too
  espalier diff old-crd.yaml new-crd.yaml --fail-on warning

  # Annotate a pull request with what would happen in kube-apiserver
  espalier diff old-crd.yaml new-crd.yaml --semantics kubernetes -o github`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 1 && len(o.source.named(c)) > 0 {
				return nil
			}
			return exactArgs("OLD", "NEW")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error { return a.diff(c, args, o) },
	}
	c.Flags().StringArrayVar(&o.objects.Paths, "objects", nil, "`PATH` of a file or directory with stored objects to test the change on, or - for standard input; repeatable")
	groupFlags(c.Flags(), inputFlags, "objects")
	addReadFlags(c, &o.objects, "recursive")
	addSourceFlags(c, &o.source)
	addBaselineFlags(c, &a.baselineFlags)
	addReportFlags(c, &o.report)
	c.Flags().IntVar(&o.names, "names", 10, "maximum `number` of affected objects to name for each change; 0 for all")
	c.Flags().BoolVar(&o.all, "all", false, "list safe changes instead of only counting them")
	groupFlags(c.Flags(), outputFlags, "names", "all")
	_ = c.MarkFlagFilename("objects", "yaml", "yml", "json")
	return c
}

// classTable returns the classes of changes and their severities for the help text.
func classTable() string {
	var b strings.Builder
	for _, class := range impact.Classes() {
		fmt.Fprintf(&b, "  %-14s  %-7s  %s\n", class.ID(), class.Severity(), class.Summary())
	}
	return b.String()
}

// diff compares the CRDs that the arguments name: OLD and NEW, or NEW with those of the source.
func (a *app) diff(c *cobra.Command, args []string, o diffOptions) (err error) {
	ctx := c.Context()
	var sides []input.Flags
	for _, path := range args {
		sides = append(sides, o.objects.With(path))
	}
	if err := stdinOnce(append(sides, o.objects)...); err != nil {
		return err
	}
	var src source.Source
	if len(o.source.named(c)) > 0 {
		if src, _, err = a.openSource(ctx, c, &o.source, o.objects, "--objects"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, src.Close()) }()
		if err := a.recordedSemantics(ctx, c, src); err != nil {
			return err
		}
	} else if len(o.source.namespaces) > 0 {
		return usageError(c, errors.New("--namespace needs a source: --from-cluster, --snapshot, --etcd-servers or --dump"))
	}
	a.inputs = sides[len(sides)-1:]
	options := a.reportOptions(c, o.report, diffRules(a.config.Diff))
	options.What = "CRD"
	options.Folded = func(n int) string { return report.Plural(n, "safe change") + ": use --all to list them" }
	r, err := report.New(options)
	if err != nil {
		return err
	}
	defer func() { err = r.Finish(err) }()
	d := &differ{
		r: r, names: o.names,
		options: impact.Options{Semantics: a.semantics.Semantics, Rules: cel.Checker{}, Config: a.config.Diff},
		fold:    func(s analysis.Severity) bool { return !o.all && s == analysis.Info && !options.FailOn.Fails(s) },
	}
	var sets []diffSet
	for _, flags := range sides {
		set, err := a.loadSides(ctx, flags, r)
		if err != nil {
			return err
		}
		sets = append(sets, set)
	}
	if len(sets) == 1 {
		old, err := d.storedSides(ctx, src, sets[0])
		if err != nil {
			return err
		}
		sets = []diffSet{old, sets[0]}
	}
	if r.Summary().Failures > 0 {
		// CRDs that could not be read would be reported as removed.
		return nil
	}
	d.pair(ctx, sets[0], sets[1])
	switch {
	case src != nil:
		err = d.tryStored(ctx, src, o.source.namespaces)
	case len(o.objects.Paths) > 0:
		err = d.tryAll(ctx, a.stdin, o.objects)
	}
	if err != nil {
		return err
	}
	d.report(ctx)
	if src != nil && !src.Stored() {
		r.Add(servedFinding("use etcd (--etcd-servers) or a snapshot (--snapshot) to see what the new CRD would reveal"))
	}
	return nil
}

// diffSide is the old or the new CRD.
type diffSide struct {
	// item is the CRD in its file. It is nil for a CRD that is stored at where.
	item  *input.Item
	where string
	crd   *api.CustomResourceDefinition
	beta  bool
}

// diffSet is the old or the new CRDs.
type diffSet struct {
	byName map[string]*diffSide
	// path is the argument that names the CRDs.
	path string
}

// single returns the CRD of a file with only one, or nil.
func (s diffSet) single() *diffSide {
	for _, side := range s.byName {
		if len(s.byName) == 1 && side.item != nil && (s.path == "-" || side.item.File == s.path) {
			return side
		}
	}
	return nil
}

// loadSides reads CRDs, including their status.
func (a *app) loadSides(ctx context.Context, flags input.Flags, r *report.Reporter) (diffSet, error) {
	set := diffSet{byName: map[string]*diffSide{}, path: flags.Paths[0]}
	ds, err := a.loadDefinitions(ctx, flags, r.Failure)
	if err != nil {
		return set, err
	}
	for _, d := range ds.list {
		decoded, err := codec.DecodeLenient(d.readable())
		if err != nil {
			at := d.item.Position("").Value
			r.Failure(input.Problem{Rule: object.RuleInvalidDefinition, File: d.item.File, Line: at.Line, Column: at.Column, Message: err.Error(), Object: d.item.Identity()})
			continue
		}
		if first := set.byName[decoded.Name]; first != nil {
			at := report.At(first.item, analysis.Finding{})
			r.Report(d.item, analysis.Finding{
				Rule: ruleSeveral, Severity: analysis.Warning, Path: "metadata.name", Pointer: "/metadata/name",
				Message: fmt.Sprintf("the CRD %s is also in %s, line %d: only that one is compared", decoded.Name, at.File, at.Span.Line),
			})
			continue
		}
		set.byName[decoded.Name] = &diffSide{item: d.item, crd: decoded, beta: d.isV1beta1()}
	}
	return set, nil
}

// differ is one run of diff.
type differ struct {
	r        *report.Reporter
	options  impact.Options
	names    int
	compared []*compared
	// fold reports whether safe changes of a severity are counted instead of listed.
	fold func(analysis.Severity) bool
	// byKind holds the pairs on which objects can be tried, by the kind of the old CRD.
	byKind map[groupKind]*compared
	// tried is set if there are objects. others has the kinds of those that are skipped.
	tried  bool
	others map[string]bool
}

// compared is a pair of CRDs, one of which may be missing.
type compared struct {
	*impact.Comparison
	old, new *diffSide
	// objects counts the objects tried. affected has the affected objects of each change,
	// unannounced those that are affected although no single change accounts for it.
	objects     int
	affected    []tally
	unannounced tally
	// revealed has, for each pattern of paths, the objects that hold data there which only the
	// new CRD serves.
	revealed map[string]*tally
	classes  map[impact.Class]int
}

// item returns the new CRD or, if there is none, the old one.
func (c *compared) item() *input.Item {
	if c.new == nil {
		return c.old.item
	}
	return c.new.item
}

// tally counts objects and lists some of them.
type tally struct {
	count int
	names []string
	// worst is the worst class of effects on the objects.
	worst impact.Class
}

func (t *tally) add(name string, class impact.Class, limit int) {
	t.count++
	t.worst = max(t.worst, class)
	if limit == 0 || len(t.names) < limit {
		t.names = append(t.names, name)
	}
}

func (t *tally) lines() []string {
	lines := t.names
	if rest := t.count - len(t.names); rest > 0 {
		lines = append(slices.Clip(lines), fmt.Sprintf("and %d more", rest))
	}
	return lines
}

// pair compares CRDs of the same name. If each side is a file with one CRD, it compares
// them regardless of their names.
func (d *differ) pair(ctx context.Context, old, new diffSet) {
	d.byKind = map[groupKind]*compared{}
	if o, n := old.single(), new.single(); o != nil && n != nil {
		d.compare(ctx, o, n)
		return
	}
	names := maps.Clone(old.byName)
	maps.Copy(names, new.byName)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		d.compare(ctx, old.byName[name], new.byName[name])
	}
}

func (d *differ) compare(ctx context.Context, old, new *diffSide) {
	c := &compared{old: old, new: new, classes: map[impact.Class]int{}}
	options := d.options
	switch {
	case new == nil:
		c.Comparison = impact.Removed(old.crd, options)
	case old == nil:
		c.Comparison = impact.Added(new.crd, options)
	default:
		options.V1beta1 = new.beta
		var err error
		if c.Comparison, err = impact.Compare(ctx, old.crd, new.crd, options); err != nil {
			d.r.Saw(new.item)
			at := new.item.Position("").Value
			d.r.Failure(input.Problem{Rule: object.RuleInvalidDefinition, File: new.item.File, Line: at.Line, Column: at.Column, Message: "cannot compare: " + err.Error(), Object: new.item.Identity()})
			return
		}
	}
	if old != nil {
		d.byKind[groupKind{old.crd.Spec.Group, old.crd.Spec.Names.Kind}] = c
	}
	d.r.Progress("CRDs compared")
	c.affected = make([]tally, len(c.Changes))
	d.compared = append(d.compared, c)
}

// report reports the findings of all pairs.
func (d *differ) report(ctx context.Context) {
	totals := map[string]int{}
	changes, objects := 0, 0
	affected := map[string]int{}
	for _, c := range d.compared {
		d.r.Saw(c.item())
		for _, f := range append(c.Names(), c.Rejections()...) {
			d.r.Add(c.at(f))
		}
		for i := range c.Changes {
			c.Changes[i].Observe(c.affected[i].worst)
			changes++
			totals[c.Changes[i].Class().ID()]++
			d.r.Add(d.finding(c, i))
		}
		if c.unannounced.count > 0 {
			f := c.Finding(&impact.Change{Effects: []impact.Effect{{Class: c.unannounced.worst}}})
			f.Message = report.Plural(c.unannounced.count, "object") + " affected, but not by any single change"
			f.Detail = c.unannounced.lines()
			d.r.Add(c.at(f))
		}
		for _, path := range slices.Sorted(maps.Keys(c.revealed)) {
			t := c.revealed[path]
			d.r.Add(c.at(c.RevealedFinding(path, t.count, c.objects, t.lines())))
		}
		for _, f := range c.OtherSemantics(ctx) {
			d.r.Add(c.at(f))
		}
		objects += c.objects
		for class, n := range c.classes {
			affected[class.ID()] += n
		}
	}
	extra := map[string]any{"changes": changes, "verdicts": totals}
	if d.tried {
		extra["tried"], extra["affected"] = objects, affected
	}
	d.r.Summary().Extra = extra
}

// finding returns the finding for a change, with the objects that it affects.
func (d *differ) finding(c *compared, i int) report.Finding {
	ch := &c.Changes[i]
	f := c.Finding(ch)
	if d.tried && ch.Class() > impact.Clients && c.objects > 0 {
		switch t := &c.affected[i]; {
		case t.count == 0:
			f.Detail = append(f.Detail, fmt.Sprintf("affects none of %s", report.Plural(c.objects, "object")))
		default:
			f.Detail = append(f.Detail, fmt.Sprintf("affects %d of %s:", t.count, report.Plural(c.objects, "object")))
			for _, line := range t.lines() {
				f.Detail = append(f.Detail, "  "+line)
			}
		}
	}
	out := c.at(f)
	out.Folded = ch.Class() == impact.Safe && d.fold(f.Severity)
	return out
}

// at adds positions to a finding: that in the new file is the position of the finding,
// because the new file is the one to edit; that in the old file is a detail. If a file
// lacks the value, the position is that of the closest parent.
func (c *compared) at(f impact.Finding) report.Finding {
	place := func(side *diffSide, pointer string) report.Finding {
		g := f.Finding
		if side.item == nil {
			return report.Finding{Finding: g, File: side.where}
		}
		g.Pointer = side.find(pointer)
		return report.At(side.item, g)
	}
	switch {
	case c.new == nil:
		return place(c.old, f.OldPointer)
	case c.old == nil:
		return place(c.new, f.Pointer)
	}
	old := place(c.old, f.OldPointer)
	at := old.Location()
	f.Old = &at
	return place(c.new, f.Pointer)
}

// find translates a pointer into a v1 CRD to the document, which may be v1beta1 and may
// specify a value once for all versions.
func (s *diffSide) find(pointer string) string {
	candidates := []string{pointer}
	if s.beta {
		if rest, ok := belowVersion(pointer); ok {
			top := "/spec/" + rest
			if schema, ok := strings.CutPrefix(rest, "schema/"); ok {
				top = "/spec/validation/" + schema
			}
			candidates = append(candidates, top)
		}
	} else if rest, ok := strings.CutPrefix(pointer, "/spec/validation/"); ok {
		candidates = append(candidates, "/spec/versions/0/schema/"+rest)
	}
	// Choose the candidate that exists to the greatest depth.
	best, depth := pointer, -1
	for _, p := range candidates {
		for up := p; up != ""; up = jsonptr.Parent(up) {
			if s.item.Position(up).Exact {
				if n := strings.Count(up, "/"); n > depth {
					best, depth = p, n
				}
				break
			}
		}
	}
	return best
}

// belowVersion returns the part of a pointer that is relative to a version.
func belowVersion(pointer string) (rest string, ok bool) {
	if rest, ok = strings.CutPrefix(pointer, "/spec/versions/"); ok {
		_, rest, ok = strings.Cut(rest, "/")
	}
	return rest, ok
}
