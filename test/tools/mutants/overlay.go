package main

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
)

//go:embed toggle/toggle.go
var switchText []byte

// switchDir is where mutated code finds the package toggle. It exists in the overlay alone.
const switchDir = "internal/toggle"

// A source is a file of the product.
type source struct {
	path, text string
	imports    int // the offset of the end of the package clause
}

func newSource(path string, imports int) (*source, error) {
	text, err := os.ReadFile(path)
	return &source{path: path, text: string(text), imports: imports}, err
}

// load returns the syntax and types of packages. Packages that only tests import are not among them.
func load(root string, patterns []string) ([]*packages.Package, error) {
	var dirs []string
	for _, p := range patterns {
		dirs = append(dirs, "./"+p)
	}
	list, err := packages.Load(&packages.Config{
		Dir: root,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedSyntax |
			packages.NeedTypes | packages.NeedTypesInfo | packages.NeedModule,
	}, dirs...)
	if err != nil {
		return nil, fmt.Errorf("load packages: %w", err)
	}
	for _, p := range list {
		if len(p.Errors) > 0 {
			return nil, fmt.Errorf("load packages: %s: %w", p.PkgPath, p.Errors[0])
		}
	}
	return slices.DeleteFunc(list, func(p *packages.Package) bool { return p.Imports["testing"] != nil }), nil
}

// choose returns a sample of mutants: of each package at least three, and the rest in proportion
// to the number of its mutants. The seed and the text of a mutant decide whether it is in the
// sample, so a change of one function does not replace the mutants of others.
func choose(all []*mutant, size int, seed uint64) []*mutant {
	const least = 3
	byPackage := map[string][]*mutant{}
	rank := map[*mutant]uint64{}
	times := map[string]int{}
	for _, m := range all {
		byPackage[m.pkg] = append(byPackage[m.pkg], m)
		text := m.file + "\n" + m.function + "\n" + m.diff()
		h := fnv.New64a()
		fmt.Fprintln(h, seed, times[text], text)
		times[text]++
		rank[m] = h.Sum64()
	}
	var chosen []*mutant
	for _, list := range byPackage {
		slices.SortFunc(list, func(a, b *mutant) int { return cmp.Compare(rank[a], rank[b]) })
		share := max(least, size*len(list)/len(all))
		chosen = append(chosen, list[:min(len(list), share)]...)
	}
	slices.SortFunc(chosen, func(a, b *mutant) int {
		return cmp.Or(cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line), cmp.Compare(rank[a], rank[b]))
	})
	for i, m := range chosen {
		m.id = i
	}
	return chosen
}

// instrument returns a source with mutants, each with its switch.
func (s *source) instrument(mutants []*mutant, module string) string {
	edits := []edit{{offset: s.imports, text: "; import " + name + " " + strconv.Quote(module+"/"+switchDir)}}
	for _, m := range mutants {
		for _, e := range m.edits {
			e.text = strings.ReplaceAll(e.text, "#", strconv.Itoa(m.id))
			edits = append(edits, e)
		}
	}
	slices.SortStableFunc(edits, func(a, b edit) int {
		switch {
		case a.offset != b.offset:
			return cmp.Compare(a.offset, b.offset)
		case a.closes != b.closes:
			if a.closes {
				return -1
			}
			return 1
		case a.closes:
			return cmp.Compare(b.order, a.order)
		}
		return cmp.Compare(a.order, b.order)
	})
	var b strings.Builder
	at := 0
	for _, e := range edits {
		b.WriteString(s.text[at:e.offset])
		b.WriteString(e.text)
		at = e.offset + e.length
	}
	b.WriteString(s.text[at:])
	return b.String()
}

// writeOverlay writes an overlay with all mutants to a directory and returns the path of its
// index.
func writeOverlay(root, dir, module string, mutants []*mutant, files map[string]*source) (string, error) {
	byFile := map[string][]*mutant{}
	for _, m := range mutants {
		byFile[m.file] = append(byFile[m.file], m)
	}
	replace := map[string]string{}
	write := func(path string, text []byte) error {
		copied := filepath.Join(dir, fmt.Sprintf("source-%d.go", len(replace)))
		replace[path] = copied
		return os.WriteFile(copied, text, 0o644)
	}
	if err := write(filepath.Join(root, filepath.FromSlash(switchDir), "toggle.go"), switchText); err != nil {
		return "", err
	}
	for file, list := range byFile {
		if err := write(files[file].path, []byte(files[file].instrument(list, module))); err != nil {
			return "", err
		}
	}
	index, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, index, 0o644)
}
