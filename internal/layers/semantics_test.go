package layers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const semanticsPackage = module + "/schema"

// TestSemantics checks that only two files compare schema.Semantics values. All other code
// uses the predicates in these files, or Other.
func TestSemantics(t *testing.T) {
	predicates := map[string]bool{"schema/semantics.go": false, "crd/semantics.go": false}
	for path, file := range parseModule(t, root) {
		found := comparesSemantics(file, strings.HasPrefix(path, "schema/") && file.Name.Name == "schema")
		if _, ok := predicates[path]; ok {
			predicates[path] = len(found) > 0
			continue
		}
		for _, name := range found {
			t.Errorf("%s: compares a schema.Semantics with %s: add a predicate to schema/semantics.go", path, name)
		}
	}
	for path, seen := range predicates {
		if !seen {
			t.Errorf("no comparison was found in %s, which has many", path)
		}
	}
}

func TestComparesSemantics(t *testing.T) {
	for source, want := range map[string][]string{
		`package p; import "espalier.dev/schema"; var b = s == schema.KEP`:                               {"KEP"},
		`package p; import "espalier.dev/schema"; var b = schema.Kubernetes != s`:                        {"Kubernetes"},
		`package p; import engine "espalier.dev/schema"; var b = s == (engine.KEP)`:                      {"KEP"},
		`package p; import "espalier.dev/schema"; var b = schema.KEP + schema.Kubernetes - s`:            {"KEP", "Kubernetes"},
		`package p; import "espalier.dev/schema"; func f() { switch s { case schema.KEP: } }`:            {"KEP"},
		`package p; import "espalier.dev/schema"; var a = [...]schema.Semantics{schema.KEP, s}`:          nil,
		`package p; import "espalier.dev/schema"; func f() { options.Semantics = schema.KEP }`:           nil,
		`package p; import "espalier.dev/schema"; var b = schema.KEP.KnowsUnions() == s.KnowsReadOnly()`: nil,
		`package p; import "k8s.io/apimachinery/pkg/runtime/schema"; var b = s == schema.KEP`:            nil,
		`package p; var b = s == KEP`: nil,
		`package schema; func (s Semantics) String() string { if s == Kubernetes { return "" }; return ""}`: {"Kubernetes"},
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "p.go", source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := comparesSemantics(file, file.Name.Name == "schema"); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", source, got, want)
		}
	}
}

// comparesSemantics returns the constants of type schema.Semantics that file compares or
// calculates with. inside is set for files of package schema.
func comparesSemantics(file *ast.File, inside bool) (names []string) {
	prefix := importName(file, semanticsPackage)
	isConstant := func(name string) bool { return name == "KEP" || name == "Kubernetes" }
	look := func(e ast.Expr) {
		switch e := ast.Unparen(e).(type) {
		case *ast.Ident:
			if inside && isConstant(e.Name) {
				names = append(names, e.Name)
			}
		case *ast.SelectorExpr:
			if x, ok := e.X.(*ast.Ident); ok && prefix != "" && x.Name == prefix && isConstant(e.Sel.Name) {
				names = append(names, e.Sel.Name)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			look(n.X)
			look(n.Y)
		case *ast.CaseClause:
			for _, e := range n.List {
				look(e)
			}
		}
		return true
	})
	return names
}

// importName returns the name under which file imports the package, or "".
func importName(file *ast.File, path string) string {
	for _, spec := range file.Imports {
		if imp, err := strconv.Unquote(spec.Path.Value); err != nil || imp != path {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path[strings.LastIndex(path, "/")+1:]
	}
	return ""
}

// parseModule parses the files of the module at root, without tests, by their paths below
// root.
func parseModule(t *testing.T, root string) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	err := walkModule(root, func(path string) error {
		if strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(rel)] = f
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// walkModule visits the Go files of the module at root, except those of nested modules.
func walkModule(root string, visit func(path string) error) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path == root {
				return nil
			}
			name := d.Name()
			if name == "testdata" || name == "vendor" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
				return fs.SkipDir // a nested module
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		return visit(path)
	})
}
