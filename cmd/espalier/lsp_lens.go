package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"weak"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lookup"
	"espalier.dev/analysis/object"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/lsp"
	"espalier.dev/internal/yamlx"
)

// maxLensObjects is the maximum number of objects that are validated for a code lens.
const maxLensObjects = 2000

// lensData identifies the CRD of a code lens that is not resolved.
type lensData struct {
	URI  lsp.URI `json:"uri"`
	Line int     `json:"line"`
	Name string  `json:"name"`
}

// lensTitle is the title of a code lens, and what it depends on.
type lensTitle struct {
	view  weak.Pointer[workspaceView]
	sum   input.Sum
	title string
}

// maxLensTitles is the maximum number of titles that are kept.
const maxLensTitles = 1000

// CodeLenses returns a code lens above each CRD. What it shows is found when the client shows it.
func (s *lspSession) CodeLenses(ctx context.Context, _ *lsp.Documents, text *lsp.Text) ([]lsp.CodeLens, error) {
	path, ok := text.URI().Path()
	if !ok {
		return nil, nil
	}
	lenses := []lsp.CodeLens{}
	for doc := range documentsOf(text.Bytes()) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		for _, it := range definitionsIn(doc, path) {
			at := it.Position("").Value
			first, end := text.Line(max(at.Line, doc.Line()) - 1)
			data, err := json.Marshal(lensData{URI: text.URI(), Line: doc.Line(), Name: it.Name()})
			if err != nil {
				return nil, err
			}
			lenses = append(lenses, lsp.CodeLens{Range: text.Range(first, end), Data: data})
		}
	}
	return lenses, nil
}

// definitionsIn returns the CRDs of a document.
func definitionsIn(doc *yamlx.Document, path string) []*input.Item {
	if !bytes.Contains(doc.Source(), []byte("CustomResourceDefinition")) {
		return nil
	}
	items, _ := (&input.Document{Document: doc, File: path}).Items()
	return slices.DeleteFunc(slices.Clone(items), func(it *input.Item) bool { return !isDefinition(it) })
}

// ResolveCodeLens shows how many objects of the workspace use a CRD, and how many of them the edit
// breaks: those that are valid with the last committed CRD, and not with this one.
func (s *lspSession) ResolveCodeLens(ctx context.Context, docs *lsp.Documents, lens *lsp.CodeLens) (*lsp.CodeLens, error) {
	var data lensData
	if err := json.Unmarshal(lens.Data, &data); err != nil {
		return nil, err
	}
	lens.Command = &lsp.Command{} // shows nothing
	path, ok := data.URI.Path()
	text := docs.Get(data.URI)
	if text == nil || !ok {
		return lens, nil
	}
	doc := documentAt(documentsOf(text.Bytes()), data.Line)
	if doc == nil {
		return lens, nil
	}
	crds := definitionsIn(doc, path)
	i := slices.IndexFunc(crds, func(it *input.Item) bool { return it.Name() == data.Name })
	if i < 0 {
		return lens, nil // the text has changed, and the client asks again
	}
	view, err := s.of(path).view(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	known, ok := s.lenses[data]
	s.mu.Unlock()
	if !ok || known.view != weak.Make(view) || known.sum != crds[i].Sum() {
		places := &placer{dir: s.a.dir, client: s.client, docs: docs, texts: map[string]*lsp.Text{}}
		known = lensTitle{weak.Make(view), crds[i].Sum(), s.effect(ctx, view, places, crds[i], committedCRDs(ctx, path)[data.Name])}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		s.mu.Lock()
		if len(s.lenses) >= maxLensTitles {
			clear(s.lenses)
		}
		s.lenses[data] = known
		s.mu.Unlock()
	}
	lens.Command.Title = known.title
	return lens, nil
}

// committedCRDs returns the CRDs of a file in the last commit, by name. There are none if the file is
// in no repository, or new.
func committedCRDs(ctx context.Context, path string) map[string]*input.Item {
	all := map[string]*input.Item{}
	repositories := input.NewRepositories(ctx, "")
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
