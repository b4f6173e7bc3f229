package input

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strconv"
	"strings"

	"espalier.dev/internal/jsonptr"
	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/yamlx"
)

// builtDocuments visits the documents that kustomize has built, each with the file that it comes
// from: those that are unchanged are the documents of the files.
func (r *reader) builtDocuments(x rendering, text []byte) error {
	sources := r.resources(x)
	generated := file{path: x.in.join(x.path, x.kustomization), rendered: &template{by: byKustomize, root: x.path}}
	for documents := yamlx.NewBytesReader(text, r.options()); ; {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		d, err := documents.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			r.badDocument(generated.path, err)
			continue
		case d.Empty():
			continue
		}
		f, visited := generated, d
		switch source, same := sourceOf(sources, d); {
		case source == nil:
		case same && source.Base == "":
			f, visited = file{path: source.File, in: x.in, regular: true}, source.Doc
		default:
			f = file{path: source.File, rendered: &template{by: byKustomize, root: x.path, source: source}}
		}
		if err := r.document(f, visited); err != nil {
			return err
		}
	}
}

// resources returns the objects in the files that a kustomization names, and those that it includes.
func (r *reader) resources(x rendering) (all []*Item) {
	seen := map[string]bool{}
	for _, dir := range r.directories(x.in, x.path) {
		k := r.kustomization(x.in, dir)
		if k.Kustomization == nil {
			continue
		}
		for _, name := range k.Resources() {
			path := x.in.join(dir, name)
			if seen[path] {
				continue
			}
			seen[path] = true
			data, err := contentOf(x.in, path)
			if err != nil {
				continue // kustomize has read it
			}
			for documents := yamlx.NewBytesReader(data, r.options()); ; {
				d, err := documents.Next()
				if err != nil {
					break
				}
				if d.Empty() {
					continue
				}
				items, _ := (&Document{File: path, Document: d, in: x.in, regular: true, maxDocument: r.flags.MaxDocument}).Items()
				all = append(all, items...)
			}
		}
	}
	return all
}

// sourceOf returns the object that a document was built from, and whether it is unchanged. It returns
// nil if that is not certain. Kustomize may add a prefix and a suffix to a name, and set the
// namespace.
func sourceOf(sources []*Item, built *yamlx.Document) (source *Item, same bool) {
	text, err := built.JSON()
	if err != nil {
		return nil, false
	}
	id, err := Identify(text)
	if err != nil {
		return nil, false
	}
	var equal, named, similar []*Item
	for _, it := range sources {
		switch {
		case it.APIVersion() != id.APIVersion || it.Kind() != id.Kind || it.Name() == "" || !strings.Contains(id.Name, it.Name()):
		case it.Name() != id.Name:
			similar = append(similar, it)
		case equalJSON(it.JSON, text):
			equal = append(equal, it)
		default:
			named = append(named, it)
		}
	}
	for i, candidates := range [][]*Item{equal, named, similar} {
		if len(candidates) == 1 {
			return candidates[0], i == 0
		} else if len(candidates) > 1 {
			return nil, false
		}
	}
	return nil, false
}

// equalJSON reports whether two texts have the same value, whatever the order of fields is.
func equalJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, err := jsonx.Parse(a)
	if err != nil {
		return false
	}
	y, err := jsonx.Parse(b)
	return err == nil && reflect.DeepEqual(x, y)
}

// locate returns the position in the source of the value that a pointer into a built object names. It
// returns false if the source does not have the value: the kustomization sets it.
func (t *template) locate(it *Item, pointer string) (yamlx.Span, bool) {
	if t.source == nil {
		return yamlx.Span{}, false
	}
	t.once.Do(func() {
		// Both have been parsed before.
		t.built, _ = jsonx.Parse(it.JSON)
		t.was, _ = jsonx.Parse(t.source.JSON)
	})
	if !sameAt(t.built, t.was, pointer) {
		return yamlx.Span{}, false
	}
	return t.source.Doc.Find(t.source.Base + pointer), true
}

// sameAt reports whether two objects have the same value at a pointer, or both lack it at the same
// place. Objects and lists count as the same if both are one: they have values of their own.
func sameAt(a, b any, pointer string) bool {
	for rest := pointer; rest != ""; {
		var token string
		token, rest = jsonptr.Cut(rest)
		nextA, inA := member(a, token)
		nextB, inB := member(b, token)
		if !inA || !inB {
			return inA == inB
		}
		a, b = nextA, nextB
	}
	switch a.(type) {
	case map[string]any, []any:
		return reflect.TypeOf(a) == reflect.TypeOf(b)
	}
	return reflect.DeepEqual(a, b)
}

// member returns the member of an object or the item of a list that a token of a pointer names.
func member(value any, token string) (any, bool) {
	switch value := value.(type) {
	case map[string]any:
		found, ok := value[token]
		return found, ok
	case []any:
		if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(value) {
			return value[i], true
		}
	}
	return nil, false
}
