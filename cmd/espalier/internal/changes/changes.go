// Package changes compares the objects of a working tree with those of a commit: which of them
// were created, updated or removed. It reads only the files that differ.
package changes

import (
	"bytes"
	"context"
	"path"
	"strings"

	"espalier.dev/analysis/lookup"
	"espalier.dev/cmd/espalier/internal/input"
)

// Options configure [Load].
type Options struct {
	// Old and New read the files of the commit and of the working tree that differ. Elsewhere reads
	// other files of the commit that differ, and maybe those of Old too: objects may have moved from
	// there. Old and New may have no paths.
	Old, Elsewhere, New input.Flags
	// Name returns the path of a file relative to the root of the repository. It is the same for
	// both sides.
	Name func(file string) string
	// Problem is called for files and documents of the working tree that cannot be read, and
	// OldProblem for those of the commit.
	Problem, OldProblem func(input.Problem)
}

// Set has the differences between a commit and the working tree.
type Set struct {
	// Documents has the documents with objects that were created or updated, in the order of the
	// input.
	Documents []Document
	// Removed has the objects of the commit that are not in the working tree.
	Removed []*input.Item
	// Created, Updated and Unchanged count objects of the working tree. Only those in files that
	// differ are known to be unchanged.
	Created, Updated, Unchanged int
	// Empty is set if no file with a document differs.
	Empty bool
}

// Document is a document of the working tree. Its objects share the document, which is not safe
// for concurrent use.
type Document []Object

// Object is an object that was created or updated.
type Object struct {
	New *input.Item
	// Old is the object before the update. It is nil for an object that was created.
	Old *input.Item
}

// Objects returns the objects of all documents.
func (s *Set) Objects() (all []Object) {
	for _, d := range s.Documents {
		all = append(all, d...)
	}
	return all
}

// Load reads the files that differ, and matches their objects by group, kind, namespace and name.
// A file can be renamed, and an object moved to another file. If several objects have the same
// identity, those in the same file belong together.
func Load(ctx context.Context, o Options) (*Set, error) {
	m := &matcher{byIdentity: map[input.Identity][]*candidate{}, name: o.Name, unread: map[string]bool{}}
	old, oldProblems, _, err := read(ctx, o.Old)
	if err != nil {
		return nil, err
	}
	files := m.add(old, false)
	new, newProblems, templates, err := read(ctx, o.New)
	if err != nil {
		return nil, err
	}
	problems := len(oldProblems) + len(newProblems)
	oldProblems, newProblems = withoutEqual(oldProblems, newProblems, o.Name)
	for _, p := range oldProblems {
		o.OldProblem(p.Problem)
	}
	for _, p := range newProblems {
		// What has not changed cannot have what was removed.
		m.unread[o.Name(p.File)] = true
		o.Problem(p.Problem)
	}
	if len(new) > 0 {
		o.Elsewhere.Skip = without(o.Elsewhere.Skip, func(file string) bool { return files[o.Name(file)] })
		others, _, _, err := read(ctx, o.Elsewhere)
		if err != nil {
			return nil, err
		}
		m.add(others, true)
	}
	set := &Set{Empty: len(old)+len(new)+problems == 0}
	for _, file := range templates {
		m.unread[o.Name(file)] = true
	}
	m.match(set, new)
	return set, nil
}

// without returns a function for [input.Flags.Skip] that skips files too.
func without(skip func(string, bool) bool, file func(string) bool) func(string, bool) bool {
	return func(name string, isDir bool) bool {
		return skip != nil && skip(name, isDir) || !isDir && file(name)
	}
}

// problem is what cannot be read, with the text of the document, or nil if it is not known.
type problem struct {
	input.Problem
	text []byte
}

// withoutEqual returns the problems of both sides without documents that are the same in a file of
// both: they are as wrong as before.
func withoutEqual(old, new []problem, name func(string) string) (fewerOld, fewerNew []problem) {
	type document struct{ file, text string }
	keyOf := func(p problem) document { return document{name(p.File), string(p.text)} }
	known := map[document]int{}
	for _, p := range old {
		if p.text != nil {
			known[keyOf(p)]++
		}
	}
	equal := map[document]int{}
	for _, p := range new {
		if key := keyOf(p); p.text != nil && equal[key] < known[key] {
			equal[key]++
		} else {
			fewerNew = append(fewerNew, p)
		}
	}
	for _, p := range old {
		if key := keyOf(p); p.text != nil && equal[key] > 0 {
			equal[key]--
		} else {
			fewerOld = append(fewerOld, p)
		}
	}
	return fewerOld, fewerNew
}

// read returns the objects of files, by document, what cannot be read, and the files that have
// templates which are not rendered.
func read(ctx context.Context, flags input.Flags) (documents [][]*input.Item, problems []problem, templates []string, err error) {
	if len(flags.Paths) == 0 {
		return nil, nil, nil, nil
	}
	type found struct {
		items    []*input.Item
		problem  *problem
		template string
	}
	work := func(d *input.Document) (f found) {
		items, p := d.Items()
		if f.items = items; p != nil {
			f.problem = &problem{*p, d.Source()}
		}
		if len(items) == 0 && bytes.Contains(d.Source(), []byte("{{")) {
			f.template = d.File
		}
		return f
	}
	emit := func(f found) error {
		documents = append(documents, f.items)
		if f.template != "" {
			templates = append(templates, f.template)
		}
		if f.problem != nil {
			problems = append(problems, *f.problem)
		}
		return nil
	}
	// No path is standard input.
	err = input.Parallel(ctx, strings.NewReader(""), flags, work, emit, func(p input.Problem) {
		if p.Rule != input.Empty { // there may be nothing that differs
			problems = append(problems, problem{Problem: p})
		}
	})
	return documents, problems, templates, err
}

// candidate is an object of the commit.
type candidate struct {
	item *input.Item
	// file is the path relative to the root of the repository.
	file string
	// elsewhere is set for an object that is not part of the input.
	elsewhere, taken bool
}

// matcher matches the objects of the working tree with those of the commit.
type matcher struct {
	// list has all objects of the commit.
	list       []*candidate
	byIdentity map[input.Identity][]*candidate
	name       func(file string) string
	// unread are the files and directories of the working tree that are not read completely, because
	// of templates that are not rendered, or of errors. They may have objects of the commit.
	unread map[string]bool
}

// add adds objects of the commit, and returns the names of their files.
func (m *matcher) add(documents [][]*input.Item, elsewhere bool) map[string]bool {
	files := map[string]bool{}
	for _, items := range documents {
		for _, it := range items {
			c := &candidate{item: it, file: m.name(it.File), elsewhere: elsewhere}
			files[c.file] = true
			m.list = append(m.list, c)
			id := Identity(it)
			m.byIdentity[id] = append(m.byIdentity[id], c)
		}
	}
	return files
}

// take takes the first object of the commit with the identity of an object for which ok returns
// true, or nil.
func (m *matcher) take(it *input.Item, ok func(*candidate) bool) *input.Item {
	for _, c := range m.byIdentity[Identity(it)] {
		if !c.taken && ok(c) {
			c.taken = true
			return c.item
		}
	}
	return nil
}

// match adds the differences to a set.
func (m *matcher) match(set *Set, documents [][]*input.Item) {
	files := map[string]string{}
	for _, items := range documents {
		for _, it := range items {
			if _, ok := files[it.File]; !ok {
				files[it.File] = m.name(it.File)
			}
		}
	}
	olds := map[*input.Item]*input.Item{}
	// The better matches come first, so that a worse one does not take an object away.
	for _, ok := range []func(c *candidate, it *input.Item) bool{
		func(c *candidate, it *input.Item) bool { return same(c.item, it) && c.file == files[it.File] },
		func(c *candidate, it *input.Item) bool { return named(it) && c.file == files[it.File] },
		func(c *candidate, it *input.Item) bool { return same(c.item, it) },
		func(_ *candidate, it *input.Item) bool { return named(it) },
	} {
		for _, items := range documents {
			for _, it := range items {
				if olds[it] == nil {
					if old := m.take(it, func(c *candidate) bool { return ok(c, it) }); old != nil {
						olds[it] = old
					}
				}
			}
		}
	}
	for _, items := range documents {
		var d Document
		for _, it := range items {
			switch old := olds[it]; {
			case old == nil:
				set.Created++
				d = append(d, Object{New: it})
			case same(old, it):
				set.Unchanged++
			default:
				set.Updated++
				d = append(d, Object{New: it, Old: old})
			}
		}
		if len(d) > 0 {
			set.Documents = append(set.Documents, d)
		}
	}
	for _, c := range m.list {
		if !c.taken && !c.elsewhere && !m.mayHave(c.file) {
			set.Removed = append(set.Removed, c.item)
		}
	}
}

// mayHave reports whether a file, or a directory that contains it, is not read completely.
func (m *matcher) mayHave(file string) bool {
	for len(m.unread) > 0 {
		if m.unread[file] {
			return true
		}
		above := path.Dir(file)
		if above == file || above == "." {
			return m.unread[""]
		}
		file = above
	}
	return false
}

// same reports whether two objects are equal. Comments and indentation are no parts of objects.
func same(a, b *input.Item) bool { return bytes.Equal(a.JSON, b.JSON) }

// named reports whether the identity of an object is complete.
func named(it *input.Item) bool {
	return it.Kind() != "" && it.Name() != "" && !strings.HasSuffix(it.Name(), "*")
}

// Identity returns the identity that an object keeps on update, when its version may change.
func Identity(it *input.Item) input.Identity {
	gk := lookup.KindOf(it)
	namespace := it.Namespace()
	if namespace == "" {
		namespace = "default"
	}
	return input.Identity{APIVersion: gk.Group, Kind: gk.Kind, Namespace: namespace, Name: it.Name()}
}
