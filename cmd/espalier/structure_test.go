package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCommandsStandAlone makes sure that no command uses declarations in the file of another
// command: shared code belongs into a file of its own. The file of a command is the one with
// its constructor.
func TestCommandsStandAlone(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	parsed := map[string]*ast.File{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		if parsed[name], err = parser.ParseFile(token.NewFileSet(), name, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	// owner maps each name that a command's file declares, including methods of app, to the file.
	owner := map[string]string{}
	commands := 0
	for name, f := range parsed {
		if own, isCommand := declared(f); isCommand {
			commands++
			for _, n := range own {
				owner[n] = name
			}
		}
	}
	if commands < 10 {
		t.Fatalf("found only %d commands", commands)
	}
	for name, f := range parsed {
		for _, used := range references(f) {
			if at := owner[used]; at != "" && at != name {
				t.Errorf("%s uses %s, which belongs to the command in %s", name, used, at)
			}
		}
	}
}

// declared returns the package-level names that a file declares, and whether it declares a
// command. It omits the command's constructor, which the root command uses.
func declared(f *ast.File) (names []string, isCommand bool) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			switch {
			case d.Recv == nil && strings.HasPrefix(d.Name.Name, "new") && strings.HasSuffix(d.Name.Name, "Command"):
				isCommand = d.Name.Name != "newRootCommand"
			case d.Recv == nil:
				names = append(names, d.Name.Name)
			case receiver(d) == "app":
				names = append(names, "a."+d.Name.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					names = append(names, s.Name.Name)
				case *ast.ValueSpec:
					for _, n := range s.Names {
						names = append(names, n.Name)
					}
				}
			}
		}
	}
	return names, isCommand
}

func receiver(d *ast.FuncDecl) string {
	t := d.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	name, _ := t.(*ast.Ident)
	return name.Name
}

// references returns the package-level names that a file uses but does not declare, and the
// methods of app that it calls on a variable named a.
func references(f *ast.File) (names []string) {
	for _, n := range f.Unresolved {
		names = append(names, n.Name)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "a" {
				names = append(names, "a."+s.Sel.Name)
			}
		}
		return true
	})
	return names
}

// TestFileLength limits the length of files.
func TestFileLength(t *testing.T) {
	const most = 600
	seen := 0
	for _, root := range []string{".", filepath.Join("..", "..", "analysis")} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
				return err
			}
			seen++
			text, err := os.ReadFile(path)
			if n := bytes.Count(text, []byte("\n")); n > most {
				t.Errorf("%s has %d lines, more than %d: split it", path, n, most)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen < 50 {
		t.Errorf("found only %d files", seen)
	}
}
