package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lookup"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

// oldObjects are the objects before an update, by identity.
type oldObjects struct {
	byIdentity map[input.Identity]*input.Item
	paths      []string
	// asked is set if the old one of an object was needed, and matched if there was one.
	asked, matched atomic.Bool
}

// loadOld reads the objects before an update.
func (a *app) loadOld(ctx context.Context, flags input.Flags, problem func(input.Problem)) (*oldObjects, error) {
	old := &oldObjects{byIdentity: map[input.Identity]*input.Item{}, paths: flags.Paths}
	err := input.Read(ctx, a.stdin, flags, func(it *input.Item) error {
		id := oldIdentity(it)
		if first := old.byIdentity[id]; first != nil {
			if named := id.Kind != "" && id.Name != "" && !strings.HasSuffix(id.Name, "*"); !named || bytes.Equal(first.JSON, it.JSON) {
				return nil
			}
			at := report.At(first, analysis.Finding{})
			problem(*problemAt(it, ruleSeveralOld, fmt.Sprintf("%s is also in %s, line %d: --old must have each object once", it, at.File, at.Span.Line)))
			return nil
		}
		old.byIdentity[id] = it
		return nil
	}, problem)
	return old, err
}

// oldIdentity returns the identity that an object keeps on update, when its version may
// change.
func oldIdentity(it *input.Item) input.Identity {
	gk := lookup.KindOf(it)
	namespace := it.Namespace()
	if namespace == "" {
		namespace = "default"
	}
	return input.Identity{APIVersion: gk.Group, Kind: gk.Kind, Namespace: namespace, Name: it.Name()}
}

// of returns the object before the update, or nil and a warning if there is none: the object
// is then created. Without old objects, all objects are created, which needs no warning.
func (o *oldObjects) of(it *input.Item) (old schema.Object, warnings []analysis.Finding, err error) {
	if o == nil {
		return nil, nil, nil
	}
	o.asked.Store(true)
	stored := o.byIdentity[oldIdentity(it)]
	if stored == nil {
		return nil, []analysis.Finding{{Rule: ruleNoOldObject, Severity: analysis.Warning, Path: "metadata.name", Pointer: "/metadata/name",
			Message: fmt.Sprintf("--old has no %s: validated as a create, not as an update", it)}}, nil
	}
	o.matched.Store(true)
	value, err := jsonx.Parse(stored.JSON)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read the old object in %s: %w", stored.File, err)
	}
	old, _ = value.(schema.Object)
	return old, nil, nil
}

// problem returns the problem if no object has an old one. Objects that were not validated, for
// example without a CRD, do not count.
func (o *oldObjects) problem() *input.Problem {
	if o == nil || !o.asked.Load() || o.matched.Load() {
		return nil
	}
	return &input.Problem{Rule: ruleNoOldObject, File: strings.Join(o.paths, ", "),
		Message: "--old matches none of the objects: an old object has the same group, kind, namespace and name"}
}
