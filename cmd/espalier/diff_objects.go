package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lookup"
	"espalier.dev/analysis/object"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/source"
	"espalier.dev/crd"
	"espalier.dev/internal/nearest"
)

// tryAll applies both CRDs to all objects. It is an input error if there are only objects
// of other kinds.
func (d *differ) tryAll(ctx context.Context, stdin io.Reader, flags input.Flags) error {
	d.tried, d.others = true, map[string]bool{}
	failures := d.r.Summary().Failures
	if err := input.Read(ctx, stdin, flags, func(it *input.Item) error {
		return d.try(ctx, it, substituted(it, flags.Keep != input.Everything))
	}, d.r.Failure); err != nil {
		return err
	}
	if d.r.Summary().Failures > failures || slices.ContainsFunc(d.compared, func(c *compared) bool { return c.Tried > 0 }) {
		return nil
	}
	message := "no objects found"
	if len(d.others) > 0 {
		message = fmt.Sprintf("no objects of the compared CRDs found: the CRDs define %s, the objects are %s",
			nearest.First(d.kinds(), 5), nearest.First(slices.Sorted(maps.Keys(d.others)), 5))
	}
	d.r.Failure(input.Problem{Rule: ruleNoObjects, File: strings.Join(flags.Paths, ", "), Message: message})
	return nil
}

// kinds returns the kinds whose objects can be tried.
func (d *differ) kinds() (kinds []string) {
	for gk := range d.byKind {
		kinds = append(kinds, gk.Group+" "+gk.Kind)
	}
	slices.Sort(kinds)
	return kinds
}

// try applies both CRDs to an object of a file, of which src has no variables.
func (d *differ) try(ctx context.Context, it *input.Item, src []byte) error {
	c := d.byKind[lookup.KindOf(it)]
	if c == nil {
		d.others[strings.TrimSpace(it.APIVersion()+" "+it.Kind())] = true
		d.r.Skipped(it, "no CRD that is compared defines its kind")
		return nil
	}
	at := it.Position("").Value
	d.tryObject(ctx, c, &triedObject{src, it.Identity(), analysis.Location{File: it.File, Line: at.Line, Column: at.Column}})
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
	if err := c.Add(ctx, o.String(), o.json); err != nil {
		d.r.Failure(input.Problem{Rule: object.RuleDecode, File: o.at.File, Line: o.at.Line, Column: o.at.Column,
			Message: fmt.Sprintf("cannot try %s: %v", o.identity.FullName(), err), Object: o.identity})
		return
	}
	d.r.Progress("objects tried")
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
		decoded, err := decodeCRD(o.JSON, d.options.Semantics)
		if err != nil {
			d.r.Failure(input.Problem{Rule: object.RuleInvalidDefinition, File: o.Where(),
				Message: err.Error(), Object: definitionIdentity(o.Name)})
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
