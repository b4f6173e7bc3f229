package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/analysis/impact"
	"espalier.dev/analysis/object"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/source"
	"espalier.dev/crd"
)

// tryAll applies both CRDs to all objects. It is an input error if there are only objects
// of other kinds.
func (d *differ) tryAll(ctx context.Context, stdin io.Reader, flags input.Flags) error {
	d.tried, d.others = true, map[string]bool{}
	failures := d.r.Summary().Failures
	if err := input.Read(ctx, stdin, flags, func(it *input.Item) error { return d.try(ctx, it) }, d.r.Failure); err != nil {
		return err
	}
	if d.r.Summary().Failures > failures || slices.ContainsFunc(d.compared, func(c *compared) bool { return c.objects > 0 }) {
		return nil
	}
	message := "no objects found"
	if len(d.others) > 0 {
		message = fmt.Sprintf("no objects of the compared CRDs found: the CRDs define %s, the objects are %s", firstOf(d.kinds(), 5), firstOf(slices.Sorted(maps.Keys(d.others)), 5))
	}
	d.r.Failure(input.Problem{Rule: ruleNoObjects, File: strings.Join(flags.Paths, ", "), Message: message})
	return nil
}

// kinds returns the kinds whose objects can be tried.
func (d *differ) kinds() (kinds []string) {
	for gk := range d.byKind {
		kinds = append(kinds, gk.group+" "+gk.kind)
	}
	slices.Sort(kinds)
	return kinds
}

// try applies both CRDs to an object of a file.
func (d *differ) try(ctx context.Context, it *input.Item) error {
	c := d.byKind[kindOf(it)]
	if c == nil {
		d.others[strings.TrimSpace(it.APIVersion()+" "+it.Kind())] = true
		d.r.Skipped(it, "no CRD that is compared defines its kind")
		return nil
	}
	at := it.Position("").Value
	d.tryObject(ctx, c, &triedObject{it.JSON, it.Identity(), analysis.Location{File: it.File, Line: at.Line, Column: at.Column}})
	return nil
}

// triedObject is an object that both CRDs are applied to.
type triedObject struct {
	json     []byte
	identity input.Identity
	at       analysis.Location
}

// String returns the name of the object, and its place.
func (o *triedObject) String() string {
	return fmt.Sprintf("%s (%s)", o.identity.FullName(), o.at.Position())
}

// tryObject applies both CRDs to an object and records the differences.
func (d *differ) tryObject(ctx context.Context, c *compared, o *triedObject) {
	if c.new == nil {
		c.objects++
		c.classes[impact.Loses]++
		c.affected[0].add(o.String(), impact.Loses, d.names)
		return
	}
	outcome, err := c.Try(ctx, o.json)
	if err != nil {
		d.r.Failure(input.Problem{Rule: object.RuleDecode, File: o.at.File, Line: o.at.Line, Column: o.at.Column, Message: fmt.Sprintf("cannot try %s: %v", o.identity.FullName(), err), Object: o.identity})
		return
	}
	c.objects++
	if outcome.RulesSkipped {
		c.unevaluated++
	}
	d.r.Progress("objects tried")
	d.reveal(c, o)
	seen := map[impact.Class]bool{}
	places := make([][]string, len(c.Changes))
	worst := make([]impact.Class, len(c.Changes))
	var strays []string
	for _, x := range outcome.Observations {
		seen[x.Class] = true
		announced := c.Announcing(x)
		for _, i := range announced {
			places[i] = append(places[i], x.String())
			worst[i] = max(worst[i], x.Class)
		}
		if len(announced) == 0 {
			strays = append(strays, x.Class.String()+": "+x.String())
		}
	}
	for class := range seen {
		c.classes[class]++
	}
	line := func(what []string) string {
		what = slices.Compact(what)
		if rest := len(what) - 3; rest > 0 {
			what = append(slices.Clip(what[:3]), fmt.Sprintf("and %d more", rest))
		}
		return o.String() + ": " + strings.Join(what, "; ")
	}
	for i, what := range places {
		if len(what) > 0 {
			c.affected[i].add(line(what), worst[i], d.names)
		}
	}
	if len(strays) > 0 {
		c.unannounced.add(line(strays), outcome.Class(), d.names)
	}
}

// reveal records the fields of an object that only the new CRD serves.
func (d *differ) reveal(c *compared, o *triedObject) {
	paths, err := c.Revealed(o.json)
	if err != nil {
		return // Try has reported what cannot be compiled
	}
	seen := map[string]bool{}
	for _, path := range paths {
		pattern := path.Pattern()
		if seen[pattern] {
			continue
		}
		seen[pattern] = true
		if c.revealed == nil {
			c.revealed = map[string]*tally{}
		}
		if c.revealed[pattern] == nil {
			c.revealed[pattern] = &tally{}
		}
		c.revealed[pattern].add(o.String()+": "+path.String(), impact.Clients, d.names)
	}
}

// storedSides returns the CRDs of a source that have the names of the new ones. Those that cannot
// be read are failures.
func (d *differ) storedSides(ctx context.Context, src source.Source, new diffSet) (diffSet, error) {
	set := diffSet{byName: map[string]*diffSide{}}
	failures := sourceFailures{}
	failed := func(failure *source.Failure) {
		if name := failure.Object.Name; name == "" || new.byName[name] != nil {
			failures.add(d.r, failure)
		}
	}
	err := source.Each(src.Definitions(ctx), failed, func(o source.Object) error {
		if new.byName[o.Name] == nil {
			return nil
		}
		decoded, err := decodeStored(o.JSON, d.options.Semantics)
		if err != nil {
			d.r.Failure(input.Problem{Rule: object.RuleInvalidDefinition, File: o.Where(), Message: err.Error(), Object: definitionIdentity(o.Name)})
			return nil
		}
		set.byName[o.Name] = &diffSide{where: o.Where(), crd: decoded}
		return nil
	})
	if err != nil {
		return set, err
	}
	failures.report(d.r)
	return set, nil
}

// tryStored applies both CRDs to all objects of a source, one after the other. Parts of the
// source that cannot be read are failures.
func (d *differ) tryStored(ctx context.Context, src source.Source, namespaces []string) error {
	d.tried = true
	selected := source.Selection{Namespaces: namespaces}
	pairs := map[string]*compared{}
	for _, c := range d.byKind {
		definition, err := crd.New(c.old.crd, crd.Options{Semantics: d.options.Semantics, IgnoreRules: true})
		if err != nil {
			return fmt.Errorf("the CRD %s cannot be used: %w", c.old.crd.Name, err)
		}
		selected.Definitions = append(selected.Definitions, definition)
		pairs[definition.Name()] = c
	}
	if len(pairs) == 0 {
		return nil // all CRDs are new
	}
	failures := sourceFailures{}
	failed := func(failure *source.Failure) { failures.add(d.r, failure) }
	err := source.Each(src.Objects(ctx, selected), failed, func(o source.Object) error {
		c := pairs[o.Definition]
		d.tryObject(ctx, c, &triedObject{o.JSON, input.Identity{
			APIVersion: c.old.crd.Spec.Group, Kind: c.old.crd.Spec.Names.Kind, Namespace: o.Namespace, Name: o.Name,
		}, analysis.Location{File: o.Where()}})
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	failures.report(d.r)
	return nil
}
