package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/analysis/impact"
	"espalier.dev/analysis/object"
	"espalier.dev/api"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
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
	// unevaluated counts those on which the rules of the new CRD were not evaluated.
	objects     int
	unevaluated int
	affected    []tallies
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

// tallies counts the objects that a change affects, by the worst effect on each.
type tallies map[impact.Class]*tally

func (t *tallies) add(name string, class impact.Class, limit int) {
	if *t == nil {
		*t = tallies{}
	}
	if (*t)[class] == nil {
		(*t)[class] = &tally{}
	}
	(*t)[class].add(name, class, limit)
}

// worst returns the worst class of effects on the objects.
func (t tallies) worst() impact.Class {
	worst := impact.Safe
	for class := range t {
		worst = max(worst, class)
	}
	return worst
}

// details describes how many of a number of objects are affected by a change of a class, and
// names some of them. Objects on which the change has a milder effect are counted separately.
func (t tallies) details(class impact.Class, of int) (lines []string) {
	objects := report.Plural(of, "object")
	if t[class] == nil {
		lines = append(lines, "affects none of "+objects)
		if len(t) > 0 {
			lines[0] = fmt.Sprintf("%s: none of %s", class.Observed(), objects)
		}
	}
	for _, c := range impact.Classes() {
		if t[c] == nil {
			continue
		}
		verb := "affects"
		if c != class {
			verb = c.Observed() + ":"
		}
		lines = append(lines, fmt.Sprintf("%s %d of %s:", verb, t[c].count, objects))
		for _, line := range t[c].lines() {
			lines = append(lines, "  "+line)
		}
	}
	return lines
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
	c.affected = make([]tallies, len(c.Changes))
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
			c.Changes[i].Observe(c.affected[i].worst())
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
		f.Detail = append(f.Detail, c.affected[i].details(ch.Class(), c.objects)...)
		if c.unevaluated > 0 && ch.BreaksRules() {
			f.Detail = append(f.Detail, fmt.Sprintf("rules not evaluated on %d of %s, because of other errors", c.unevaluated, report.Plural(c.objects, "object")))
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
