package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/analysis"
	"espalier.dev/analysis/impact"
	"espalier.dev/analysis/object"
	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/jsonptr"
)

// diffSide is the old or the new CRD.
type diffSide struct {
	// item is the CRD in its file. It is nil for a CRD that is stored at where.
	item  *input.Item
	where string
	crd   *api.CustomResourceDefinition
	beta  bool
}

// newDiffSide decodes a CRD, including its status.
func newDiffSide(d *definition) (*diffSide, error) {
	decoded, err := codec.DecodeLenient(d.readable())
	if err != nil {
		return nil, err
	}
	addPatchedConversion(decoded, d.item)
	return &diffSide{item: d.item(), crd: decoded, beta: d.isV1beta1()}, nil
}

// diffSet is the old or the new CRDs.
type diffSet struct {
	byName map[string]*diffSide
}

// single returns the CRD of a file with only one, or nil.
func (s diffSet) single() *diffSide {
	for _, side := range s.byName {
		if len(s.byName) == 1 && side.item != nil && side.item.Named() {
			return side
		}
	}
	return nil
}

// loadSides reads CRDs, including their status. several is called for a CRD with the name of
// another one, which is not compared.
func (a *app) loadSides(ctx context.Context, flags input.Flags, problem func(input.Problem),
	several func(*input.Item, analysis.Finding)) (diffSet, error) {
	ds, err := a.loadDefinitions(ctx, flags, problem)
	if err != nil {
		return diffSet{byName: map[string]*diffSide{}}, err
	}
	return sidesOf(ds, problem, several), nil
}

// sidesOf decodes CRDs, including their status. several is called as by loadSides.
func sidesOf(ds *definitions, problem func(input.Problem), several func(*input.Item, analysis.Finding)) diffSet {
	set := diffSet{byName: map[string]*diffSide{}}
	for _, d := range ds.All() {
		side, err := newDiffSide(d)
		if err != nil {
			at := d.item().Position("").Value
			problem(input.Problem{Rule: object.RuleInvalidDefinition, File: d.file, Line: at.Line,
				Column: at.Column, Message: err.Error(), Object: d.identity()})
			continue
		}
		if first := set.byName[side.crd.Name]; first != nil {
			at := report.At(first.item, analysis.Finding{})
			several(d.item(), analysis.Finding{
				Rule: ruleSeveral, Severity: analysis.Warning, Path: "metadata.name", Pointer: "/metadata/name",
				Message: fmt.Sprintf("the CRD %s is also in %s, line %d: only that one is compared", side.crd.Name, at.File, at.Span.Line),
			})
			continue
		}
		set.byName[side.crd.Name] = side
	}
	return set
}

// differ is one run of diff.
type differ struct {
	r        *report.Reporter
	options  impact.Options
	names    int
	compared []*compared
	// fold reports whether safe changes of a severity are counted instead of listed.
	fold func(analysis.Severity) bool
	// all is set if equal changes are not grouped.
	all bool
	// onlyAffected is set if only changes that affect objects are reported, by their effect.
	onlyAffected bool
	// byKind holds the pairs on which objects can be tried, by the kind of the old CRD.
	byKind map[runtimeschema.GroupKind]*compared
	// tried is set if objects are tried. others has the kinds of those that are skipped.
	tried  bool
	others map[string]bool
}

// newDiffer returns a differ. Safe changes are counted unless failOn selects them.
func (a *app) newDiffer(r *report.Reporter, flags changeFlags, failOn report.Threshold) *differ {
	return &differ{
		r: r, names: flags.names, all: flags.all, onlyAffected: flags.onlyAffected,
		options: impact.Options{Semantics: a.semantics.Semantics, Rules: cel.Checker{}, Config: a.config.Diff},
		fold:    func(s analysis.Severity) bool { return !flags.all && s == analysis.Info && !failOn.Fails(s) },
		byKind:  map[runtimeschema.GroupKind]*compared{},
	}
}

// foldedChanges returns the line that stands for a number of safe changes.
func foldedChanges(n int) string {
	return analysis.Plural(n, "safe change") + ": use --all to list them"
}

// groupedChanges returns the line that says for how many changes a number of findings stands.
func groupedChanges(shown, of int) string {
	stand := "stand"
	if shown == 1 {
		stand = "stands"
	}
	return fmt.Sprintf("%s %s for %d equal changes: use --all to list them", analysis.Plural(shown, "finding"), stand, of)
}

// compared is a pair of CRDs, one of which may be missing.
type compared struct {
	*impact.Objects
	old, new *diffSide
}

// kind returns the kind that the old CRD defines.
func (c *compared) kind() runtimeschema.GroupKind {
	return runtimeschema.GroupKind{Group: c.old.crd.Spec.Group, Kind: c.old.crd.Spec.Names.Kind}
}

// item returns the new CRD or, if there is none, the old one.
func (c *compared) item() *input.Item {
	if c.new == nil {
		return c.old.item
	}
	return c.new.item
}

// appliedUnpruned reports whether a finding is about pruning that kubectl apply does not enable:
// the old CRD has preserveUnknownFields: true, and the manifest of the new one does not have the field.
func (c *compared) appliedUnpruned(f impact.Finding) bool {
	const pointer = "/spec/preserveUnknownFields"
	return f.OldPointer == pointer && f.Class > impact.Safe && c.old != nil && c.new != nil && c.old.crd.Spec.PreserveUnknownFields &&
		c.new.item != nil && !c.new.item.Position(pointer).Exact
}

// pair compares CRDs of the same name. If each side is a file with one CRD, it compares
// them regardless of their names.
func (d *differ) pair(ctx context.Context, old, new diffSet) {
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
	var comparison *impact.Comparison
	options := d.options
	switch {
	case new == nil:
		comparison = impact.Removed(old.crd, options)
	case old == nil:
		comparison = impact.Added(new.crd, options)
	default:
		options.V1beta1 = new.beta
		var err error
		if comparison, err = impact.Compare(ctx, old.crd, new.crd, options); err != nil {
			d.r.Saw(new.item)
			at := new.item.Position("").Value
			d.r.Failure(input.Problem{Rule: object.RuleInvalidDefinition, File: new.item.File, Line: at.Line,
				Column: at.Column, Message: "cannot compare: " + err.Error(), Object: new.item.Identity()})
			return
		}
	}
	c := &compared{comparison.Objects(d.names), old, new}
	if old != nil {
		d.byKind[c.kind()] = c
	}
	d.r.Progress("CRDs compared")
	d.compared = append(d.compared, c)
}

// report reports the findings of all pairs, the worst first. Equal findings are groups.
func (d *differ) report(ctx context.Context) {
	byName := map[string]*compared{}
	var findings []impact.Finding
	totals := map[string]int{}
	changes, objects, unaffected := 0, 0, 0
	affected := map[string]int{}
	for _, c := range d.compared {
		d.r.Saw(c.item())
		byName[c.Name] = c
		findings = append(findings, c.Names()...)
		findings = append(findings, c.Rejections()...)
		for i := range c.Changes {
			changes++
			f := c.ChangeFinding(i)
			totals[f.Class.ID()]++
			if d.onlyAffected {
				var ok bool
				if f, ok = c.AffectedFinding(i); !ok {
					unaffected++
					continue
				}
			}
			if c.appliedUnpruned(f) {
				f.Detail = append(f.Detail, "kubectl apply keeps preserveUnknownFields: true of the old CRD, and nothing is pruned: set it to false in the new one")
			}
			findings = append(findings, f)
		}
		findings = append(findings, c.OtherFindings()...)
		if d.onlyAffected {
			findings = append(findings, c.Unevaluated()...)
		} else {
			findings = append(findings, c.OtherSemantics(ctx)...)
		}
		objects += c.Tried
		for class, n := range c.Classes {
			affected[class.ID()] += n
		}
	}
	for _, group := range impact.Group(findings) {
		d.add(group, func(f *impact.Finding) *compared { return byName[f.CRD] })
	}
	extra := map[string]any{"changes": changes, "verdicts": totals}
	if d.tried {
		extra["tried"], extra["affected"] = objects, affected
	}
	if d.onlyAffected {
		extra["unaffected"] = unaffected
	}
	if unaffected > 0 {
		s := d.r.Summary()
		s.Notes = append(s.Notes, unaffectedLine(unaffected, objects))
	}
	d.r.Summary().Extra = extra
}

// unaffectedLine returns the line that stands for changes that --only-affected omits.
func unaffectedLine(changes, objects int) string {
	why := "there are no objects"
	switch {
	case objects > 0 && changes == 1:
		why = "it affects none of " + analysis.Plural(objects, "object")
	case objects > 0:
		why = "they affect none of " + analysis.Plural(objects, "object")
	}
	return fmt.Sprintf("%s not listed: %s (--only-affected)", analysis.Plural(changes, "change"), why)
}

// add reports equal findings, as a group unless all changes are listed.
func (d *differ) add(group []impact.Finding, of func(*impact.Finding) *compared) {
	members := make([]report.Finding, len(group))
	for i, f := range group {
		members[i] = of(&f).at(f)
		members[i].Folded = f.Rule == impact.Safe.ID() && d.fold(f.Severity)
	}
	if d.all || members[0].Folded {
		for _, f := range members {
			d.r.Add(f)
		}
		return
	}
	d.r.AddGroup(members, func(indices []int) report.Finding {
		var kept []impact.Finding
		for _, i := range indices {
			kept = append(kept, group[i])
		}
		return merged(kept, of)
	})
}

// shownPlaces is the maximum number of places that a group names.
const shownPlaces = 3

// merged returns the finding that stands for a group, with some of its places: those of different
// CRDs first.
func merged(group []impact.Finding, of func(*impact.Finding) *compared) report.Finding {
	f := impact.Merge(group)
	places := impact.Places(group)
	if len(places) == 1 {
		return of(&f).at(f)
	}
	crds := map[string]bool{}
	var first, rest []impact.Place
	for _, p := range places {
		if crds[p.CRD] {
			rest = append(rest, p)
		} else {
			first = append(first, p)
		}
		crds[p.CRD] = true
	}
	sameField := !slices.ContainsFunc(places, func(p impact.Place) bool { return p.Field != f.Field })
	for _, p := range append(first, rest...)[:min(shownPlaces, len(places))] {
		at := of(&p.First).at(p.First)
		place := p.String()
		if sameField {
			place = strings.Join(p.Versions, ", ")
		}
		if len(crds) > 1 {
			place = strings.TrimSuffix(p.CRD+": "+place, ": ")
		}
		f.Detail = append(f.Detail, fmt.Sprintf("at %s (%s)", place, at.Location().Position()))
	}
	if more := len(places) - shownPlaces; more > 0 {
		f.Detail = append(f.Detail, fmt.Sprintf("and at %s: use --all to list them", analysis.Plural(more, "more place")))
	}
	at := of(&f).at(f)
	at.Old = nil
	if len(crds) > 1 {
		at.Object = input.Identity{}
	}
	return at
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
