package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/analysis"
	"espalier.dev/analysis/assist"
	"espalier.dev/analysis/lookup"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/lsp"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/yamlx"
	"espalier.dev/schema"
)

// lookedUp is an object in a file of which only apiVersion and kind are known.
type lookedUp struct{ apiVersion, kind, file string }

func (o lookedUp) APIVersion() string { return o.apiVersion }
func (o lookedUp) Kind() string       { return o.kind }
func (lookedUp) Field(string) byte    { return 0 }

// Path returns the file, because the closest CRD counts.
func (o lookedUp) Path() string { return o.file }

// typedDocument is the document of a text that a cursor is in.
type typedDocument struct {
	env assist.Env
	// offset is the cursor, and text that of the file: assist finds the document.
	text   []byte
	offset int
	// uses is the CRD of the document, or nil.
	uses *definition
}

// typed returns what is known about the document at an offset.
func (s *lspSession) typed(ctx context.Context, text *lsp.Text, offset int) (*typedDocument, *workspaceView, error) {
	path, ok := text.URI().Path()
	if !ok {
		path = ""
	}
	w := s.of(path)
	view, err := w.view(ctx)
	if err != nil {
		return nil, nil, err
	}
	d := &typedDocument{text: text.Bytes(), offset: offset}
	place := assist.Locate(d.text, offset)
	d.env = assist.Env{
		Kinds: func() []assist.Kind { return view.kinds(s.builtin) },
		Resource: func(apiVersion, kind string) *crd.Version {
			v, _ := view.version(s.builtin, lookedUp{apiVersion, kind, path})
			return v
		},
		Names: view.names,
		Rules: func(v *crd.Version) *schema.RuleReport {
			return cel.Checker{}.CheckRules(ctx, crd.RuleCheck{Root: v.Structural()})
		},
	}
	d.env.Version, d.uses = view.version(s.builtin, lookedUp{place.Root["apiVersion"], place.Root["kind"], path})
	d.env.BuiltIn = d.env.Version != nil && d.uses == nil
	if place.Root["kind"] == "CustomResourceDefinition" {
		d.env.Definition = definedBy(text, path, offset, view.semantics)
	}
	return d, view, nil
}

// definedBy returns the CRD of the document at an offset, or nil if it is none.
func definedBy(text *lsp.Text, path string, offset int, sem schema.Semantics) *crd.Definition {
	line, _ := text.LineColumn(offset)
	doc := documentAt(documentsOf(text.Bytes()), line)
	if doc == nil {
		return nil
	}
	src, err := doc.JSON()
	if err != nil {
		return nil
	}
	it, err := input.NewItem(path, src)
	if err != nil || !isDefinition(it) {
		return nil
	}
	d, err := newDefinition(it, sem).base()
	if err != nil {
		return nil
	}
	return d
}

// workspaceView is what a workspace knows at one moment. It never changes, so that requests need not
// wait for a diagnosis.
type workspaceView struct {
	definitions *definitions
	// served are the CRDs of the cluster, or nil.
	served    *servedCRDs
	files     []*workspaceFile
	semantics schema.Semantics
}

// view returns what the workspace knew after it was last read, and reads it the first time.
func (w *workspace) view(ctx context.Context) (*workspaceView, error) {
	if v := w.viewed.Load(); v != nil {
		return v, nil
	}
	if err := w.lock(ctx); err != nil {
		return nil, err
	}
	defer w.unlock()
	if err := w.refresh(ctx); err != nil {
		return nil, err
	}
	return w.viewed.Load(), nil
}

// version returns the version of an object, and its CRD unless it is of a built-in kind.
func (v *workspaceView) version(builtin *builtinVersions, o lookedUp) (*crd.Version, *definition) {
	gvk := runtimeschema.FromAPIVersionAndKind(o.apiVersion, o.kind)
	if v.definitions.IsBuiltin(o) || gvk.Kind == "CustomResourceDefinition" {
		return builtin.of(gvk), nil
	}
	d, err := v.definitions.Find(o)
	if err != nil {
		return nil, nil
	}
	base, err := d.base()
	if err != nil {
		return nil, nil
	}
	return base.Version(gvk.Version), d
}

// kinds returns all kinds that a document can have.
func (v *workspaceView) kinds(builtin *builtinVersions) (all []assist.Kind) {
	seen := map[string]bool{}
	add := func(k assist.Kind) {
		if id := k.APIVersion + " " + k.Kind; k.Kind != "" && !seen[id] {
			seen[id] = true
			all = append(all, k)
		}
	}
	definitions := v.definitions.All()
	for _, f := range v.files {
		for _, o := range f.objects {
			if o.crd != nil {
				definitions = append(slices.Clip(definitions), o.crd.definition)
			}
		}
	}
	for _, d := range definitions {
		for _, version := range d.served() {
			gvk := d.kind.WithVersion(version.name)
			add(assist.Kind{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Deprecated: version.deprecated})
		}
	}
	if v.served != nil {
		for _, k := range v.served.kinds {
			add(k)
		}
	}
	for gk, k := range builtin.kinds() {
		for _, version := range k.Versions {
			add(assist.Kind{APIVersion: gk.WithVersion(version.Name).GroupVersion().String(), Kind: gk.Kind})
		}
	}
	return all
}

// maxNames is the maximum number of names of objects that are offered.
const maxNames = 1000

// names returns the names of objects that a field can refer to.
func (v *workspaceView) names(r assist.Reference) (all []string) {
	for _, f := range v.files {
		for _, o := range f.objects {
			gk, name := lookup.KindOf(o.item), o.item.Name()
			if gk.Kind != r.Kind || !r.AnyGroup && gk.Group != r.Group || name == "" || strings.HasSuffix(name, "*") ||
				r.Namespace != "" && o.item.Namespace() != "" && o.item.Namespace() != r.Namespace {
				continue
			}
			if all = append(all, name); len(all) == maxNames {
				return all
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Completion completes what is typed at an offset.
func (s *lspSession) Completion(ctx context.Context, _ *lsp.Documents, text *lsp.Text, offset int, _ lsp.CompletionContext) (*lsp.CompletionList, error) {
	d, _, err := s.typed(ctx, text, offset)
	if err != nil {
		return nil, err
	}
	snippets := s.client.Capabilities().TextDocument.Completion.CompletionItem.SnippetSupport
	list := &lsp.CompletionList{Items: []lsp.CompletionItem{}}
	for _, item := range assist.Complete(d.text, d.offset, d.env) {
		out := lsp.CompletionItem{
			Label: item.Label, Kind: completionKind(item.Kind), Detail: item.Detail, FilterText: item.Filter, SortText: item.Sort,
			Preselect: item.Preselect, InsertTextFormat: lsp.InsertPlainText, InsertTextMode: lsp.InsertAsIs,
			TextEdit: &lsp.TextEdit{Range: text.Range(item.Range.Start, item.Range.End), NewText: item.Insert},
		}
		if item.Documentation != "" {
			out.Documentation = &lsp.MarkupContent{Kind: lsp.Markdown, Value: item.Documentation}
		}
		if item.Snippet && snippets {
			out.InsertTextFormat = lsp.InsertSnippet
		} else if item.Snippet {
			out.TextEdit.NewText = item.Plain
		}
		if item.Deprecated {
			out.Tags = []lsp.DiagnosticTag{1}
		}
		list.Items = append(list.Items, out)
	}
	return list, ctx.Err()
}

// completionKind returns the symbol that editors show.
func completionKind(k assist.ItemKind) lsp.CompletionItemKind {
	switch k {
	case assist.FieldItem:
		return lsp.CompletionField
	case assist.ValueItem, assist.ExampleItem:
		return lsp.CompletionValue
	case assist.EntryItem:
		return lsp.CompletionStruct
	case assist.KindItem:
		return lsp.CompletionClass
	case assist.NameItem:
		return lsp.CompletionReference
	case assist.KeywordItem:
		return lsp.CompletionProperty
	case assist.VariableItem:
		return lsp.CompletionVariable
	}
	return lsp.CompletionFunction
}

// Hover describes the field at an offset.
func (s *lspSession) Hover(ctx context.Context, _ *lsp.Documents, text *lsp.Text, offset int) (*lsp.Hover, error) {
	d, _, err := s.typed(ctx, text, offset)
	if err != nil {
		return nil, err
	}
	h := assist.HoverAt(d.text, d.offset, d.env)
	if h == nil || h.Markdown == "" {
		return nil, ctx.Err()
	}
	r := text.Range(h.Range.Start, h.Range.End)
	return &lsp.Hover{Contents: lsp.MarkupContent{Kind: lsp.Markdown, Value: h.Markdown}, Range: &r}, nil
}

// Definition returns the schema of the field at an offset or, in a CRD, the objects that have it.
func (s *lspSession) Definition(ctx context.Context, docs *lsp.Documents, text *lsp.Text, offset int) ([]lsp.Location, error) {
	d, view, err := s.typed(ctx, text, offset)
	if err != nil {
		return nil, err
	}
	places := &placer{dir: s.a.dir, client: s.client, docs: docs, texts: map[string]*lsp.Text{}}
	if f := assist.FieldAt(d.text, d.offset); f != nil {
		return s.users(ctx, view, places, f)
	}
	ref := assist.SchemaAt(d.text, d.offset, d.env)
	if ref == nil || d.uses == nil {
		return nil, nil
	}
	it, err := d.uses.load()
	if err != nil {
		return nil, err
	}
	d.uses.using.Lock()
	at := report.LocationOf(it, ref.Pointer)
	d.uses.using.Unlock()
	if found, ok := places.location(&at); ok {
		return []lsp.Location{found}, nil
	}
	return nil, nil
}

// References returns the objects that have the field whose schema is at an offset of a CRD.
func (s *lspSession) References(ctx context.Context, docs *lsp.Documents, text *lsp.Text, offset int, _ bool) ([]lsp.Location, error) {
	d, view, err := s.typed(ctx, text, offset)
	if err != nil {
		return nil, err
	}
	f := assist.FieldAt(d.text, d.offset)
	if f == nil {
		return nil, nil
	}
	return s.users(ctx, view, &placer{dir: s.a.dir, client: s.client, docs: docs, texts: map[string]*lsp.Text{}}, f)
}

// maxUsers is the maximum number of places in objects that are listed for a schema.
const maxUsers = 1000

// users returns the places of the objects of a workspace that have a field.
func (s *lspSession) users(ctx context.Context, view *workspaceView, places *placer, f *assist.Field) (all []lsp.Location, err error) {
	for _, file := range view.files {
		if !slices.ContainsFunc(file.objects, func(o workspaceObject) bool {
			return lookup.KindOf(o.item) == runtimeschema.GroupKind{Group: f.Group, Kind: f.Kind}
		}) {
			continue
		}
		text := places.text(file.path)
		if text == nil {
			continue
		}
		for doc := range documentsOf(text.Bytes()) {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			base := int(doc.Offset())
			for _, r := range f.In(doc.Source()) {
				if all = append(all, lsp.Location{URI: text.URI(), Range: text.Range(base+r.Start, base+r.End)}); len(all) == maxUsers {
					return all, nil
				}
			}
		}
	}
	return all, nil
}

// documentsOf returns the documents of a file that are not empty. One that cannot be read is skipped.
func documentsOf(src []byte) iter.Seq[*yamlx.Document] {
	return func(yield func(*yamlx.Document) bool) {
		r := yamlx.NewBytesReader(src, yamlx.Options{})
		for {
			d, err := r.Next()
			var bad *yamlx.Error
			switch {
			case err == nil && !d.Empty():
				if !yield(d) {
					return
				}
			case errors.Is(err, io.EOF), err != nil && !errors.As(err, &bad):
				return
			}
		}
	}
}

// assistFixes returns fixes for a finding about an object that the finding itself does not have.
func (s *lspSession) assistFixes(ctx context.Context, text *lsp.Text, doc *yamlx.Document, f *report.Finding) []analysis.Fix {
	d, _, err := s.typed(ctx, text, int(doc.Offset())+len(doc.Source())-len(bytes.TrimLeft(doc.Source(), "-# \t\r\n")))
	if err != nil {
		return nil
	}
	return assist.Fixes(doc.Source(), f.Finding, d.env)
}
