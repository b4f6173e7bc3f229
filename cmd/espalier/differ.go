package main

import (
	"context"
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

// differ is one run of diff.
type differ struct {
	r        *report.Reporter
	options  impact.Options
	names    int
	compared []*compared
	// fold reports whether safe changes of a severity are counted instead of listed.
	fold func(analysis.Severity) bool
	// byKind holds the pairs on which objects can be tried, by the kind of the old CRD.
	byKind map[runtimeschema.GroupKind]*compared
	// tried is set if objects are tried. others has the kinds of those that are skipped.
	tried  bool
	others map[string]bool
}

// compared is a pair of CRDs, one of which may be missing.
type compared struct {
	*impact.Objects
	old, new *diffSide
}

// item returns the new CRD or, if there is none, the old one.
func (c *compared) item() *input.Item {
	if c.new == nil {
		return c.old.item
	}
	return c.new.item
}

// pair compares CRDs of the same name. If each side is a file with one CRD, it compares
// them regardless of their names.
func (d *differ) pair(ctx context.Context, old, new diffSet) {
	d.byKind = map[runtimeschema.GroupKind]*compared{}
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
		d.byKind[runtimeschema.GroupKind{Group: old.crd.Spec.Group, Kind: old.crd.Spec.Names.Kind}] = c
	}
	d.r.Progress("CRDs compared")
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
			f := c.ChangeFinding(i)
			changes++
			class := c.Changes[i].Class()
			totals[class.ID()]++
			at := c.at(f)
			at.Folded = class == impact.Safe && d.fold(f.Severity)
			d.r.Add(at)
		}
		for _, f := range append(c.OtherFindings(), c.OtherSemantics(ctx)...) {
			d.r.Add(c.at(f))
		}
		objects += c.Tried
		for class, n := range c.Classes {
			affected[class.ID()] += n
		}
	}
	extra := map[string]any{"changes": changes, "verdicts": totals}
	if d.tried {
		extra["tried"], extra["affected"] = objects, affected
	}
	d.r.Summary().Extra = extra
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
