package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/cmd/espalier/internal/changes"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/internal/yamlx"
)

// loadChanges returns the objects of an input that have changed since the merge base.
func (a *app) loadChanges(ctx context.Context, base *baseRevision, flags input.Flags, r *report.Reporter) (*changes.Set, error) {
	var err error
	o := changes.Options{Name: base.name, Problem: r.Failure, OldProblem: func(p input.Problem) { reportBase(r, p, "its objects count as created") }}
	if o.Old, o.New, err = base.sides(ctx, flags); err != nil {
		return nil, err
	}
	o.Old.Skipped = nil // the same files are counted in the working tree
	// Objects may have moved from files that are not part of the input.
	o.Elsewhere = o.Old.With(input.GitPath(base.rev, ""))
	o.Elsewhere.Exclude, o.Elsewhere.Recursive = nil, true
	set, err := changes.Load(ctx, o)
	if err != nil {
		return nil, err
	}
	s := r.Summary()
	s.Note = fmt.Sprintf("%d created, %d updated, %d removed, %d unchanged", set.Created, set.Updated, len(set.Removed), set.Unchanged)
	s.Extra = map[string]any{"created": set.Created, "updated": set.Updated, "removed": len(set.Removed), "unchanged": set.Unchanged}
	if set.Empty {
		s.Verdict, s.Note = "nothing changed since the merge base "+base.rev, ""
	}
	return set, nil
}

// withoutIgnored returns flags that skip files and directories that are ignored and not tracked: they
// are not part of the repository.
func (b *baseRevision) withoutIgnored(ctx context.Context, flags input.Flags) (input.Flags, error) {
	list, err := b.repository.Ignored(ctx)
	if err != nil || len(list) == 0 {
		return flags, err
	}
	ignored := map[string]bool{}
	for _, name := range list {
		ignored[strings.TrimSuffix(name, "/")] = true
	}
	skip := flags.Skip
	flags.Skip = func(name string, isDir bool) bool {
		return skip != nil && skip(name, isDir) || ignored[b.name(name)]
	}
	return flags, nil
}

// name returns the path of a file of the revision or of the working tree, relative to the root of
// the repository.
func (b *baseRevision) name(file string) string {
	if name, ok := strings.CutPrefix(file, input.GitPath(b.rev, "")); ok {
		return name
	}
	name, ok := b.relative(file)
	if !ok {
		return filepath.ToSlash(file)
	}
	return name
}

// reportBase reports input that cannot be read at the merge base. That a file is malformed is a
// warning: the change may be what repairs it. That the clone lacks it is a failure, because the
// change cannot be judged.
func reportBase(r *report.Reporter, p input.Problem, effect string) {
	if p.Rule == input.Unreadable {
		r.Failure(p)
		return
	}
	r.Add(report.Finding{
		Object: p.Object, File: p.File, Span: yamlx.Position{Line: p.Line, Column: p.Column}, Source: p.Source,
		Finding: analysis.Finding{Rule: ruleUnreadableBase, Severity: analysis.Warning,
			Message: "cannot be read at the merge base, so " + effect + ": " + p.Message},
	})
}

// beforeChange returns a function that returns the object before a change.
func beforeChange(set *changes.Set) func(*input.Item) (*input.Item, []analysis.Finding) {
	old := map[*input.Item]*input.Item{}
	for _, o := range set.Objects() {
		old[o.New] = o.Old
	}
	return func(it *input.Item) (*input.Item, []analysis.Finding) { return old[it], nil }
}
