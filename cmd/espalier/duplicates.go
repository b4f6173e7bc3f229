package main

import (
	"fmt"
	"hash/maphash"
	"path/filepath"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lookup"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/internal/yamlx"
)

// duplicates finds objects of a file or a directory that have the same identity. Its memory is
// small for each object: it has hashes and places, no objects. The zero value is ready to use.
type duplicates struct {
	seed maphash.Seed
	// first has the place of the first object of an identity, in each directory.
	first map[uint64]objectPlace
	// second has the objects that are in a second file of the directory, in their order, and files
	// the number of objects that two files have in common.
	second []duplicateObject
	index  map[uint64]int
	files  map[[2]string]int
}

// objectPlace is where an object is.
type objectPlace struct {
	file string
	// line is the line of the document, and base the pointer to the object in it.
	line int
	base string
	// shown is the line that messages have, or 0 if it is unknown: a program has rendered the object.
	shown int
}

// String returns the place in another file than the finding's.
func (p objectPlace) String() string {
	if p.shown == 0 {
		return p.file
	}
	return fmt.Sprintf("%s, line %d", p.file, p.shown)
}

// duplicateObject is an object with the identity of another one.
type duplicateObject struct {
	first, at objectPlace
	identity  input.Identity
	// more is set if there are further files with the object.
	more bool
}

// placeOf returns where an object is. Objects of a cluster are in no file: their place is zero.
func placeOf(it *input.Item) objectPlace {
	if it.Doc == nil {
		return objectPlace{}
	}
	at := objectPlace{it.File, it.Doc.Line(), it.Base, it.Doc.Line()}
	if it.Rendered() {
		at.shown = it.Position("").Value.Line
	}
	return at
}

// add adds an object and its place. It returns a finding if it is in the same file as another one
// with its identity.
func (d *duplicates) add(it *input.Item, at objectPlace) (analysis.Finding, bool) {
	id := it.Identity()
	if at.file == "" || id.Name == "" || strings.HasSuffix(id.Name, "*") || id.Kind == "" || id.APIVersion == "" {
		return analysis.Finding{}, false
	}
	if d.first == nil {
		d.seed, d.first = maphash.MakeSeed(), map[uint64]objectPlace{}
		d.index, d.files = map[uint64]int{}, map[[2]string]int{}
	}
	dir := filepath.Dir(it.File)
	if kustomization := it.Kustomization(); kustomization != "" {
		dir = "kustomization " + kustomization // others may build the same object
	}
	key := maphash.Comparable(d.seed, [5]string{dir, lookup.KindOf(it).Group, id.Kind, id.Namespace, id.Name})
	first, ok := d.first[key]
	switch {
	case !ok:
		d.first[key] = at
		return analysis.Finding{}, false
	case first == at:
		return analysis.Finding{}, false // two kustomizations have it
	case first.file != at.file && lookup.IsTestData(at.file):
		return analysis.Finding{}, false
	case first.file != at.file:
		if i, ok := d.index[key]; ok {
			d.second[i].more = true
			return analysis.Finding{}, false
		}
		d.index[key] = len(d.second)
		d.second = append(d.second, duplicateObject{first: first, at: at, identity: id})
		d.files[[2]string{first.file, at.file}]++
		return analysis.Finding{}, false
	}
	line := first.line
	if line == at.line && first.base != "" && it.Doc != nil {
		line = it.Doc.Find(first.base).Value.Line // an item of the same list
	}
	where := fmt.Sprintf("in line %d", line)
	if it.Rendered() {
		where = "elsewhere in what the file renders"
	}
	return analysis.Finding{
		Rule: ruleDuplicateObject, Severity: analysis.Warning, Path: "metadata.name", Pointer: "/metadata/name",
		Message: fmt.Sprintf("%s is also %s: only one of them takes effect", it, where),
	}, true
}

// report reports the objects that two files of a directory have in common. Files with several of
// them are alternatives, and objects of more than two files are variants or the like.
func (d *duplicates) report(r *report.Reporter) {
	for _, o := range d.second {
		if o.more || d.files[[2]string{o.first.file, o.at.file}] > 1 {
			continue
		}
		r.Add(report.Finding{
			Finding: analysis.Finding{
				Rule: ruleDuplicateObject, Severity: analysis.Warning, Path: "metadata.name", Pointer: "/metadata/name",
				Message: fmt.Sprintf("%s is also in %v: only one of them takes effect", o.identity, o.first),
			},
			Object: o.identity, File: o.at.file, Span: yamlx.Position{Line: o.at.shown, Column: 1},
		})
	}
}
