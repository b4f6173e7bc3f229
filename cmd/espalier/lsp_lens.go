package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lookup"
	"espalier.dev/analysis/object"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/lsp"
)

// maxLensObjects is the maximum number of objects that are validated for a code lens.
const maxLensObjects = 2000

// CodeLenses shows above each CRD how many objects of the workspace use it, and how many of them the
// edit breaks: those that are valid with the last committed CRD, and not with this one.
func (s *lspSession) CodeLenses(ctx context.Context, docs *lsp.Documents, text *lsp.Text) ([]lsp.CodeLens, error) {
	path, ok := text.URI().Path()
	if !ok {
		return nil, nil
	}
	view, err := s.of(path).view(ctx)
	if err != nil {
		return nil, err
	}
	places := &placer{client: s.client, docs: docs, texts: map[string]*lsp.Text{}}
	var committed map[string]*input.Item
	lenses := []lsp.CodeLens{}
	for doc := range documentsOf(text.Bytes()) {
		items, _ := (&input.Document{Document: doc, File: path}).Items()
		for _, it := range items {
			if !isDefinition(it) || ctx.Err() != nil {
				continue
			}
			if committed == nil {
				committed = committedCRDs(ctx, path)
			}
			at := it.Position("").Value
			first, end := text.Line(max(at.Line, doc.Line()) - 1)
			lenses = append(lenses, lsp.CodeLens{Range: text.Range(first, end), Command: &lsp.Command{
				Title: s.effect(ctx, view, places, it, committed[it.Name()])}})
		}
	}
	return lenses, ctx.Err()
}

// committedCRDs returns the CRDs of a file in the last commit, by name. There are none if the file is
// in no repository, or new.
func committedCRDs(ctx context.Context, path string) map[string]*input.Item {
	all := map[string]*input.Item{}
	repositories := input.NewRepositories(ctx)
	defer repositories.Close()
	flags := input.Flags{Paths: []string{input.GitPath("HEAD", "./"+filepath.Base(path))}, GitDir: filepath.Dir(path), Git: repositories}
	// What cannot be read counts as new.
	_ = input.Read(ctx, emptyInput{}, flags, func(it *input.Item) error {
		if isDefinition(it) {
			all[it.Name()] = it
		}
		return nil
	}, func(input.Problem) {})
	return all
}

// effect describes the objects of a CRD, and what has changed for them since it was committed.
func (s *lspSession) effect(ctx context.Context, view *workspaceView, places *placer, it, committed *input.Item) string {
	used := objectsOf(view, places, newDefinition(it, view.semantics))
	count := analysis.Plural(len(used), "object") + " in the workspace"
	switch {
	case committed == nil:
		return count + ", not committed yet"
	case committed.Sum() == it.Sum():
		return count
	}
	before, oldErr := newDefinition(committed, view.semantics).checker()
	after, newErr := newDefinition(it, view.semantics).checker()
	if oldErr != nil || newErr != nil {
		return count
	}
	used = used[:min(len(used), maxLensObjects)]
	broken := 0
	for _, o := range used {
		fails := func(c *object.Checker) bool {
			return slices.ContainsFunc(c.Check(ctx, o.JSON, nil, object.Ignore), func(f analysis.Finding) bool { return f.Severity == analysis.Error })
		}
		if fails(after) && !fails(before) {
			broken++
		}
		if ctx.Err() != nil {
			return count
		}
	}
	if broken == 0 {
		return fmt.Sprintf("%s, none breaks by the changes since the last commit", count)
	}
	return fmt.Sprintf("%s, the changes since the last commit break %d", count, broken)
}

// objectsOf returns the objects of the workspace that a CRD defines.
func objectsOf(view *workspaceView, places *placer, d *definition) (all []*input.Item) {
	for _, file := range view.files {
		if !slices.ContainsFunc(file.objects, func(o workspaceObject) bool { return lookup.KindOf(o.item) == d.kind }) {
			continue
		}
		text := places.text(file.path)
		if text == nil {
			continue
		}
		for doc := range documentsOf(text.Bytes()) {
			items, _ := (&input.Document{Document: doc, File: file.path}).Items()
			for _, it := range items {
				if lookup.KindOf(it) == d.kind {
					all = append(all, it)
				}
			}
		}
	}
	return all
}
