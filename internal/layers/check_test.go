package layers

import (
	"fmt"
	"slices"
	"strings"
)

// A pkg is a package to check.
type pkg struct {
	// dir is its directory below the module's root, "." for the root itself.
	dir string
	// imports are the imports of its code, testImports those of its tests.
	imports, testImports []string
}

// check returns the violations of the rules among the packages of module.
func check(module string, ls []layer, fs []fence, pkgs []pkg) []string {
	var bad []string
	for _, p := range pkgs {
		from, ok := layerOf(ls, p.dir)
		if !ok {
			bad = append(bad, fmt.Sprintf("%s is in no layer", p.dir))
			continue
		}
		beneath := closure(ls, from)
		for _, imp := range p.imports {
			dir, ours := within(module, imp)
			if !ours {
				continue
			}
			to, ok := layerOf(ls, dir)
			if !ok || !beneath[to] {
				bad = append(bad, fmt.Sprintf("%s imports %s, which is not beneath it", p.dir, dir))
			}
		}
		for _, f := range fs {
			imports := p.imports
			if f.tests {
				imports = slices.Concat(imports, p.testImports)
			}
			for _, imp := range imports {
				if _, fenced := within(f.path, imp); fenced && !slices.Contains(f.by, from) {
					bad = append(bad, fmt.Sprintf("%s imports %s", p.dir, imp))
				}
			}
		}
	}
	return bad
}

// checkModules returns a violation for each forbidden module that the module depends on.
func checkModules(fs []fence, required []string) []string {
	var bad []string
	for _, f := range fs {
		if f.tests && slices.Contains(required, f.path) {
			bad = append(bad, "the module depends on "+f.path)
		}
	}
	return bad
}

// layerOf returns the layer that dir belongs to: the innermost one.
func layerOf(ls []layer, dir string) (string, bool) {
	best := ""
	for _, l := range ls {
		if _, in := within(l.dir, dir); in && len(l.dir) > len(best) {
			best = l.dir
		}
	}
	return best, best != ""
}

// closure returns the layer and all layers beneath it.
func closure(ls []layer, name string) map[string]bool {
	seen := map[string]bool{}
	var visit func(string)
	visit = func(name string) {
		if seen[name] {
			return
		}
		seen[name] = true
		for _, l := range ls {
			if l.dir == name {
				for _, o := range l.on {
					visit(o)
				}
			}
		}
	}
	visit(name)
	return seen
}

// within reports whether path is at or below root, and returns the rest, "." for root.
func within(root, path string) (string, bool) {
	if path == root {
		return ".", true
	}
	return strings.CutPrefix(path, root+"/")
}
