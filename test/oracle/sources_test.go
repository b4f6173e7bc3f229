package oracle

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"espalier.dev/internal/gomod"
)

// moduleDir returns the directory of a module in the module cache.
func moduleDir(t *testing.T, module, version string) string {
	t.Helper()
	dir, err := gomod.Dir("", module+"@"+version)
	if err != nil {
		t.Skipf("%s is not available: %v", module, err)
	}
	return dir
}

// sourceChanges knows which types and fields of Kubernetes' API have another source code in
// version 1.37 than in 1.36.
type sourceChanges struct {
	before, now map[string]*typeSource // by the names of their definitions
}

// typeSource is the source code of a type.
type typeSource struct {
	doc      string
	fields   map[string]string // by their names in JSON
	embedded []string          // types of the same package
}

func newSourceChanges(t *testing.T) *sourceChanges {
	t.Helper()
	read := func(version string) map[string]*typeSource {
		out := map[string]*typeSource{}
		api := moduleDir(t, "k8s.io/api", version)
		dirs, err := filepath.Glob(filepath.Join(api, "*", "v*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range dirs {
			readSources(t, dir, "io.k8s.api."+filepath.Base(filepath.Dir(dir))+"."+filepath.Base(dir)+".", out)
		}
		for _, name := range []string{"apis/meta/v1", "api/resource", "runtime", "util/intstr"} {
			dir := filepath.Join(moduleDir(t, "k8s.io/apimachinery", version), "pkg", filepath.FromSlash(name))
			readSources(t, dir, "io.k8s.apimachinery.pkg."+strings.ReplaceAll(name, "/", ".")+".", out)
		}
		return out
	}
	return &sourceChanges{before: read("v0.36.3"), now: read("v0.37.2")}
}

// isOld reports whether a type exists in 1.36.
func (c *sourceChanges) isOld(name string) bool { return c.before[name] != nil }

// changed reports whether a field of a type, or its description if the field is "", has
// changed.
func (c *sourceChanges) changed(name, field string) bool {
	if c.before[name] == nil || c.now[name] == nil {
		return true
	}
	return source(c.before, name, field) != source(c.now, name, field)
}

// source returns the source code of a field, which may be in an embedded type.
func source(all map[string]*typeSource, name, field string) string {
	of := all[name]
	if of == nil {
		return ""
	}
	if field == "" {
		return of.doc
	}
	if text, ok := of.fields[field]; ok {
		return text
	}
	for _, embedded := range of.embedded {
		if text := source(all, embedded, field); text != "" {
			return text
		}
	}
	return ""
}

// readSources reads the types of a package.
func readSources(t *testing.T, dir, prefix string, into map[string]*typeSource) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.Contains(filepath.Base(name), "generated") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		between := func(from, to token.Pos) string {
			return string(text[set.Position(from).Offset:set.Position(to).Offset])
		}
		for _, decl := range file.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.TYPE {
				continue
			}
			for _, spec := range gen.Specs {
				spec := spec.(*ast.TypeSpec)
				s := &typeSource{fields: map[string]string{}}
				for _, doc := range []*ast.CommentGroup{gen.Doc, spec.Doc} {
					if doc != nil {
						s.doc = withoutTags(between(doc.Pos(), doc.End()))
					}
				}
				into[prefix+spec.Name.Name] = s
				structure, ok := spec.Type.(*ast.StructType)
				if !ok {
					continue
				}
				for _, f := range structure.Fields.List {
					if f.Tag == nil {
						continue
					}
					json, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
					if embedded, ok := f.Type.(*ast.Ident); ok && len(f.Names) == 0 && json == "" {
						s.embedded = append(s.embedded, prefix+embedded.Name)
					}
					if json != "" {
						start := f.Pos()
						if f.Doc != nil {
							start = f.Doc.Pos()
						}
						s.fields[json] = withoutTags(between(start, f.End()))
					}
				}
			}
		}
	}
}

// withoutTags removes the lines of a comment that other generators read.
func withoutTags(text string) string {
	lines := strings.Split(text, "\n")
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "//"))
		return strings.HasPrefix(line, "+k8s:") || strings.HasPrefix(line, "+featureGate")
	}), "\n")
}
