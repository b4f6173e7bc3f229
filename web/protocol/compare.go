//go:build !small

package protocol

import (
	"context"
	"fmt"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/analysis/impact"
	"espalier.dev/analysis/lookup"
	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/api/v1beta1"
)

// CompareRequest asks what the changes between two texts with CRDs mean, for stored objects and
// clients.
type CompareRequest struct {
	Old string `json:"old"`
	New string `json:"new"`
	// Objects are tried with both, if there are any.
	Objects   string    `json:"objects,omitempty"`
	Semantics Semantics `json:"semantics"`
}

// CompareAnswer is the answer to a CompareRequest.
type CompareAnswer struct {
	// Problems are what cannot be compared.
	Problems []Finding `json:"problems"`
	// Changes are the verdicts, the worst first.
	Changes []Change `json:"changes"`
	// Classes has the number of changes of each class.
	Classes map[string]int `json:"classes"`
	// Tried is the number of objects, and Affected the number of those with an effect of a class.
	Tried    int            `json:"tried"`
	Affected map[string]int `json:"affected"`
	More     bool           `json:"more,omitempty"`
}

// Change is a change of a CRD with its verdict. Its position is that in the new text.
type Change struct {
	Finding
	CRD string `json:"crd"`
	// Class is the ID of the verdict, and Title the verdict in words.
	Class   string `json:"class"`
	Title   string `json:"title"`
	Version string `json:"version,omitempty"`
	Field   string `json:"field,omitempty"`
	// Old is the position in the old text.
	Old *Range `json:"old,omitempty"`
	// Objects is the number of objects that are known to be affected.
	Objects int `json:"objects,omitempty"`
}

// compare answers a CompareRequest.
func (e *Engine) compare(ctx context.Context, r CompareRequest) (*CompareAnswer, error) {
	var texts [3]*text
	for i, source := range []string{r.Old, r.New, r.Objects} {
		var err error
		read := newCRDs
		if i == 2 {
			read = newText
		}
		if texts[i], err = read(source); err != nil {
			return nil, err
		}
	}
	c := &comparing{Engine: e, ctx: ctx, semantics: r.Semantics, sources: [2]string{r.Old, r.New}, answer: &CompareAnswer{
		Problems: []Finding{}, Changes: []Change{}, Classes: map[string]int{}, Affected: map[string]int{}}}
	names := []string{"old CRDs", "new CRDs", "objects"}
	for i, t := range texts {
		for _, p := range t.problems {
			p.Message = names[i] + ": " + p.Message
			c.answer.Problems = append(c.answer.Problems, p)
		}
	}
	if texts[2].more {
		c.answer.Problems = append(c.answer.Problems, Finding{Rule: "too-many", Severity: analysis.Warning,
			Message: fmt.Sprintf("only the first %d objects are tried: use fewer", maxObjects)})
	}
	old, new := c.sides(texts[0]), c.sides(texts[1])
	if len(old) == 1 && len(new) == 1 { // their names may differ
		c.pair(old[0], new[0])
	} else {
		c.match(old, new)
	}
	for _, it := range texts[2].objects {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		c.try(it)
	}
	c.report()
	return c.answer, nil
}

// comparing compares the CRDs of two texts.
type comparing struct {
	*Engine
	ctx       context.Context
	semantics Semantics
	// sources are the texts with the CRDs.
	sources [2]string
	answer  *CompareAnswer
	pairs   []*comparedPair
}

// side is a CRD of one of the texts.
type side struct {
	item *item
	crd  *api.CustomResourceDefinition
}

// comparedPair is a CRD in both texts. One side may be nil.
type comparedPair struct {
	*impact.Objects
	old, new *side
}

// sides returns the CRDs of a text.
func (c *comparing) sides(t *text) (all []*side) {
	for _, it := range t.objects {
		if !api.IsDefinition(it.TypeMeta) {
			continue
		}
		decoded, err := codec.DecodeLenient(it.json)
		if err != nil && !c.semantics.KnowsForeignFields() {
			decoded, err = codec.DecodeLenient(api.DropMalformedForeign(it.json))
		}
		if err != nil {
			c.problem(it, err.Error())
			continue
		}
		all = append(all, &side{it, decoded})
	}
	return all
}

func (c *comparing) problem(it *item, message string) {
	f := Finding{Rule: "invalid-definition", Severity: analysis.Error, Message: message}
	if it != nil {
		f.Path, f.Range = it.name, it.at("", analysis.FieldName)
	}
	c.answer.Problems = append(c.answer.Problems, f)
}

// match compares CRDs of the same name.
func (c *comparing) match(old, new []*side) {
	byName := map[string]*side{}
	for _, s := range old {
		byName[s.crd.Name] = s
	}
	for _, s := range new {
		c.pair(byName[s.crd.Name], s)
		delete(byName, s.crd.Name)
	}
	for _, s := range old {
		if byName[s.crd.Name] == s {
			c.pair(s, nil)
		}
	}
}

// pair compares two CRDs, of which one may be nil.
func (c *comparing) pair(old, new *side) {
	o := impact.Options{Semantics: c.semantics.Semantics, Rules: c.options.Rules}
	p := &comparedPair{old: old, new: new}
	switch {
	case old == nil:
		p.Objects = impact.Added(new.crd, o).Objects(5)
	case new == nil:
		p.Objects = impact.Removed(old.crd, o).Objects(5)
	default:
		o.V1beta1 = new.item.APIVersion() == v1beta1.APIVersion
		compared, err := impact.Compare(c.ctx, old.crd, new.crd, o)
		if err != nil {
			c.problem(new.item, "cannot compare: "+err.Error())
			return
		}
		p.Objects = compared.Objects(5)
	}
	c.pairs = append(c.pairs, p)
}

// try applies both CRDs to an object.
func (c *comparing) try(it *item) {
	for _, p := range c.pairs {
		if p.old == nil || p.new == nil || lookup.Defined(p.new.item.json) != lookup.KindOf(it) {
			continue
		}
		if c.tooLarge(it) {
			c.problem(nil, fmt.Sprintf("cannot try %s: it has more than %d values with its defaults", it.title(), maxValues))
			return
		}
		if err := p.Add(c.ctx, it.title(), it.json); err != nil {
			c.problem(nil, fmt.Sprintf("cannot try %s: %v", it.title(), err))
		}
		return
	}
}

// tooLarge reports whether an object has too many values with the defaults of one of the CRDs.
func (c *comparing) tooLarge(it *item) bool {
	for _, source := range c.sources {
		set, err := c.set(source, c.semantics)
		if err != nil {
			continue // it is reported
		}
		d, err := set.index.Find(it)
		if err != nil {
			continue // as above
		}
		if base, err := d.base(); err == nil && tooManyValues(it.json, base.Version(it.GroupVersionKind().Version), base.Storage()) {
			return true
		}
	}
	return false
}

// report adds the findings to the answer, the worst first.
func (c *comparing) report() {
	var all []impact.Finding
	of := map[string]*comparedPair{}
	for _, p := range c.pairs {
		of[p.Name] = p
		all = append(all, p.Names()...)
		all = append(all, p.Rejections()...)
		for i := range p.Changes {
			f := p.ChangeFinding(i)
			c.answer.Classes[f.Class.ID()]++
			all = append(all, f)
		}
		all = append(all, p.OtherFindings()...)
		all = append(all, p.OtherSemantics(c.ctx)...)
		c.answer.Tried += p.Tried
		for class, n := range p.Classes {
			c.answer.Affected[class.ID()] += n
		}
	}
	for _, group := range impact.Group(all) {
		for i := range group {
			f := &group[i]
			if len(c.answer.Changes) == maxFindings {
				c.answer.More = true
				return
			}
			c.answer.Changes = append(c.answer.Changes, of[f.CRD].verdict(f))
		}
	}
}

// verdict adds positions to a finding.
func (p *comparedPair) verdict(f *impact.Finding) Change {
	out := Change{CRD: f.CRD, Class: f.Class.ID(), Title: f.Class.String(), Version: f.Version, Field: f.Field, Objects: f.Affected,
		Finding: Finding{Rule: f.Rule, Severity: f.Severity, Path: f.Path, Message: f.Message, Detail: f.Detail}}
	if p.new != nil {
		out.Range = p.new.at(f.Pointer)
	}
	if p.old != nil {
		out.Old = p.old.at(f.OldPointer)
	}
	return out
}

// at returns the position of a pointer into the v1 form, or of the closest value around it. In
// v1beta1 all versions can share a schema.
func (s *side) at(pointer string) *Range {
	if s.item.APIVersion() == v1beta1.APIVersion {
		if rest, ok := strings.CutPrefix(pointer, "/spec/versions/"); ok && !s.item.doc.Find(s.item.base+pointer).Exact {
			_, rest, _ = strings.Cut(rest, "/")
			if schema, ok := strings.CutPrefix(rest, "schema/"); ok {
				rest = "validation/" + schema
			}
			pointer = "/spec/" + rest
		}
	}
	return s.item.at(pointer, analysis.FieldName)
}
