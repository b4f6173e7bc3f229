package ledger

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A Proof is a subtest that is named after a row, directly below a top-level test.
type Proof struct {
	Row    string
	Dir    string // the directory of the package, from the directory that was searched
	Test   string // the top-level test
	Name   string // the subtest, as go test prints it
	Prefix bool   // Name is only the beginning: the rest is computed
}

// Find returns the proofs in all packages below a directory. It reads the tests and does
// not run them. A proof is
//
//   - a call of Run whose name begins with an ID;
//   - a string that begins with an ID in a table of a test that calls Run with a name from
//     elsewhere;
//   - a file named after an ID that a glob pattern in a test matches.
func Find(root string) ([]Proof, error) {
	var proofs []Proof
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		found, err := findInFile(path)
		for _, p := range found {
			p.Dir = filepath.ToSlash(dir)
			proofs = append(proofs, p)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find proofs: %w", err)
	}
	return proofs, nil
}

func findInFile(path string) ([]Proof, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var proofs []Proof
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Recv != nil || f.Body == nil || !strings.HasPrefix(f.Name.Name, "Test") || f.Name.Name == "TestMain" {
			continue
		}
		names, err := subtests(filepath.Dir(path), f.Body)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, f.Name.Name, err)
		}
		for _, n := range names {
			proofs = append(proofs, Proof{Row: id.FindString(n.text), Test: f.Name.Name, Name: subtestName(n.text), Prefix: n.prefix})
		}
	}
	return proofs, nil
}

// A name is the name of a subtest, or its constant beginning.
type name struct {
	text   string
	prefix bool
}

// subtests returns the names of a test's subtests, as far as they begin with an ID. The
// subtests of subtests are not among them.
func subtests(dir string, body *ast.BlockStmt) ([]name, error) {
	var run, table, files []name
	var failed error
	computed := false // a subtest has a name that is not a constant
	var inTable func(ast.Node) bool
	visit := func(n ast.Node, text func(string)) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Run" && len(n.Args) == 2 {
				_, sum := n.Args[0].(*ast.BinaryExpr)
				if s, ok := leftmost(n.Args[0]); !ok {
					computed = true
				} else if begins(s) {
					run = append(run, name{s, sum})
				}
				return false
			}
		case *ast.CompositeLit:
			for _, e := range n.Elts {
				ast.Inspect(e, inTable)
			}
			return false
		case *ast.BasicLit:
			if s, ok := leftmost(n); ok {
				text(s)
			}
		}
		return true
	}
	inTable = func(n ast.Node) bool {
		return visit(n, func(s string) {
			if begins(s) {
				table = append(table, name{text: s})
			}
		})
	}
	ast.Inspect(body, func(n ast.Node) bool {
		return visit(n, func(s string) {
			if !strings.Contains(s, "testdata/") || !strings.ContainsAny(s, "*?[") {
				return
			}
			matches, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(s)))
			if err != nil {
				failed = fmt.Errorf("%s: %w", s, err)
			}
			for _, m := range matches {
				if base := filepath.Base(m); begins(base) {
					files = append(files, name{text: strings.TrimSuffix(base, filepath.Ext(base))})
				}
			}
		})
	})
	if computed {
		run = append(append(run, table...), files...)
	}
	slices.SortFunc(run, func(a, b name) int { return strings.Compare(a.text, b.text) })
	return slices.Compact(run), failed
}

// begins reports whether a name begins with an ID.
func begins(name string) bool {
	found := id.FindString(name)
	return found != "" && (len(name) == len(found) || name[len(found)] < '0' || name[len(found)] > '9')
}

// leftmost returns the string with which an expression begins, if that is constant.
func leftmost(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return leftmost(e.X)
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, e.Kind == token.STRING && err == nil
	}
	return "", false
}
