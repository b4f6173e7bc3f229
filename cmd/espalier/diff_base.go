package main

import (
	"context"
	"fmt"
	"path/filepath"

	"espalier.dev/analysis"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
)

// baseDiff compares CRDs of the working tree with those of the merge base.
type baseDiff struct {
	a    *app
	base *baseRevision
	rev  string
	// flags name what is compared. old and new read the files that differ.
	flags, old, new input.Flags
}

// newBaseDiff prepares a comparison of the files and directories that the arguments name, or of
// everything below the current directory.
func (a *app) newBaseDiff(ctx context.Context, rev string, flags input.Flags, args []string) (b *baseDiff, err error) {
	b = &baseDiff{a: a, rev: rev, flags: flags.With(args...)}
	// Other files may be templates, or not Kubernetes' at all.
	if b.flags.Keep = input.Definitions; len(args) == 0 {
		b.flags.Paths, b.flags.Recursive = []string{"."}, true
	}
	if b.base, err = a.openBase(ctx, rev, b.flags.Paths); err != nil {
		return nil, err
	}
	b.old, b.new, err = b.base.sides(ctx, b.flags)
	return b, err
}

// load reads the old and the new CRDs. Either can be empty: CRDs are added, removed or unchanged.
func (b *baseDiff) load(ctx context.Context, r *report.Reporter) ([]diffSet, error) {
	sets := make([]diffSet, 2)
	var empty []input.Problem
	for i, flags := range []input.Flags{b.old, b.new} {
		sets[i].byName = map[string]*diffSide{}
		if empty = nil; len(flags.Paths) == 0 {
			continue
		}
		problem := func(p input.Problem) {
			switch {
			case p.Rule == ruleNoDefinitions:
			case p.Rule == input.Empty:
				empty = append(empty, p)
			case i == 0:
				reportBase(r, p, "its CRDs count as added")
			default:
				r.Failure(p)
			}
		}
		several := r.Report
		if i == 0 { // nobody can change that anymore
			several = func(*input.Item, analysis.Finding) {}
		}
		var err error
		if sets[i], err = b.a.loadSides(ctx, flags, problem, several); err != nil {
			return nil, err
		}
	}
	old, new := sets[0], sets[1]
	if s := r.Summary(); len(old.byName) == 0 && len(new.byName) == 0 {
		for _, p := range empty {
			r.Failure(p)
		}
		if s.Failures == 0 {
			s.Verdict = fmt.Sprintf("no CRD has changed since the merge base of %s and HEAD", b.rev)
		}
	}
	return sets, b.addMoved(ctx, old, new)
}

// addMoved adds to each side the CRDs that only the other one has, if files that are not compared
// have them: those that differ anywhere in the repository, and those that are the same.
func (b *baseDiff) addMoved(ctx context.Context, old, new diffSet) error {
	before := b.old.With(input.GitPath(b.base.rev, ""))
	before.Recursive = true
	if err := b.add(ctx, old, new, before); err != nil {
		return err
	}
	root := b.base.repository.Root()
	if current, err := b.a.dir.Get(); err == nil {
		if relative, err := filepath.Rel(current, root); err == nil {
			root = relative
		}
	}
	after := b.new.With(root)
	after.Recursive = true
	same := b.flags.With(b.new.Paths...)
	for _, flags := range []input.Flags{after, same} {
		if err := b.add(ctx, new, old, flags); err != nil {
			return err
		}
	}
	return nil
}

// add adds to a set the CRDs of the flags that only the other set has.
func (b *baseDiff) add(ctx context.Context, set, other diffSet, flags input.Flags) error {
	missing := 0
	for name := range other.byName {
		if set.byName[name] == nil {
			missing++
		}
	}
	if missing == 0 || len(flags.Paths) == 0 {
		return nil
	}
	// Problems of the files that are compared are reported, those of others do not matter.
	ds, err := b.a.loadDefinitions(ctx, flags, func(input.Problem) {})
	if err != nil {
		return err
	}
	for _, d := range ds.All() {
		if side, err := newDiffSide(d); err == nil && set.byName[side.crd.Name] == nil && other.byName[side.crd.Name] != nil {
			set.byName[side.crd.Name] = side
		}
	}
	return nil
}
