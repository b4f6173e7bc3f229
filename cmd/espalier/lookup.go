package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"espalier.dev/analysis"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
)

// loadDefinitionsFor reads the CRDs that crds names, if any, and prepares to look ahead for
// those among the objects when an object needs one. ahead must be closed after the objects
// have been read.
func (a *app) loadDefinitionsFor(ctx context.Context, crds, objects input.Flags, ahead *input.Ahead, problem func(input.Problem)) (ds *definitions, err error) {
	ds = a.noDefinitions()
	if len(crds.Paths) > 0 {
		if ds, err = a.indexDefinitions(ctx, crds, newIndexEntry, problem); err != nil {
			return nil, err
		}
	}
	ds.withInput = sync.OnceValues(func() (*definitions, error) {
		// Problems are reported when the objects are read.
		found, err := a.indexDefinitions(ctx, ahead.Definitions(objects), newIndexEntry, func(input.Problem) {})
		if err != nil {
			return nil, err
		}
		all := a.noDefinitions()
		for _, d := range ds.list {
			all.add(d)
		}
		for _, d := range found.list {
			if ds.byKind[d.groupKind] == nil {
				all.add(d)
			}
		}
		return all, nil
	})
	return ds, nil
}

// lookup returns the CRD of an object: the first of those for its kind that serves its
// version. If there is none, the error is a missingError. Other errors mean that the CRDs in
// the input cannot be read. It is safe for concurrent use.
func (ds *definitions) lookup(it *input.Item) (*definition, error) {
	d, err := ds.find(it)
	if err == nil || ds.withInput == nil || it.Kind() == "" || len(ds.byKind[kindOf(it)]) > 0 {
		return d, err
	}
	all, err := ds.withInput()
	if err != nil {
		return nil, err
	}
	return all.find(it)
}

// isBuiltin reports whether an object is of one of Kubernetes' own kinds. A CRD of --crd that
// defines the kind takes precedence.
func (ds *definitions) isBuiltin(it *input.Item) bool {
	return len(ds.byKind[kindOf(it)]) == 0 && ds.builtin.Has(it.APIVersion(), it.Kind())
}

// kindOf returns the group and kind of an object.
func kindOf(it *input.Item) groupKind {
	group, _, ok := strings.Cut(it.APIVersion(), "/")
	if !ok {
		group = ""
	}
	return groupKind{group, it.Kind()}
}

func (ds *definitions) find(it *input.Item) (*definition, error) {
	gk := kindOf(it)
	version := strings.TrimPrefix(it.APIVersion(), gk.group+"/")
	candidates := ds.byKind[gk]
	for _, d := range candidates {
		if d.serves(version) {
			return d, nil
		}
	}
	return nil, ds.missing(it, gk, version, candidates)
}

// kinds returns the defined kinds by group, sorted. All CRDs must have been added.
func (ds *definitions) kinds() map[string][]string {
	ds.kindsOnce.Do(func() {
		ds.kindsByGroup = map[string][]string{}
		for gk := range ds.byKind {
			if gk.group == "" || gk.kind == "" {
				continue // a part of a CRD, such as a patch
			}
			ds.kindsByGroup[gk.group] = append(ds.kindsByGroup[gk.group], gk.kind)
		}
		for _, list := range ds.kindsByGroup {
			slices.Sort(list)
		}
	})
	return ds.kindsByGroup
}

// served returns the names of the versions that the CRD serves.
func (d *definition) served() (names []string) {
	base, err := d.base()
	if err != nil {
		return nil
	}
	for _, v := range base.Versions() {
		if v.Served() {
			names = append(names, v.Name())
		}
	}
	return names
}

// reportOthers reports the CRDs that define the same kind as the one in use, once for each
// kind. It is not safe for concurrent use.
func (ds *definitions) reportOthers(r *report.Reporter, used *definition) {
	if ds.told[used.groupKind] {
		return
	}
	ds.told[used.groupKind] = true
	same := ds.byKind[used.groupKind]
	if same == nil && ds.withInput != nil {
		if all, err := ds.withInput(); err == nil {
			same = all.byKind[used.groupKind]
		}
	}
	for _, d := range same {
		if d == used {
			continue
		}
		it := d.item()
		d.using.Lock()
		r.Report(it, severalFinding(used, "each object uses the first CRD that serves its version"))
		d.using.Unlock()
	}
}

// overridden returns the finding about a CRD in the input that is not used, because --crd
// names one for the same kind.
func (ds *definitions) overridden(it *input.Item) []analysis.Finding {
	used := ds.byKind[definedKind(it.JSON)]
	if len(used) == 0 || slices.ContainsFunc(used, func(d *definition) bool { return d.sum == it.Sum() }) {
		return nil
	}
	return []analysis.Finding{severalFinding(used[0], "CRDs of --crd take precedence over those in the input")}
}

// severalFinding returns the finding for a CRD of the same kind as the one in use.
func severalFinding(used *definition, which string) analysis.Finding {
	definition := used.item()
	used.using.Lock()
	at := report.At(definition, analysis.Finding{})
	used.using.Unlock()
	return analysis.Finding{
		Rule: ruleSeveral, Severity: analysis.Info, Path: "spec.names.kind", Pointer: "/spec/names/kind",
		Message: fmt.Sprintf("%s in group %s is also defined by the CRD in %s, line %d: %s", used.kind, used.group, at.File, at.Span.Line, which),
	}
}
