// Package goapi lists the exported Go API of packages, one line for each name, from their source.
// The test compares it with the list of what has been released.
package goapi

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/printer"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// List returns the exported API of the package in a directory, sorted. Types are as in the source,
// so that a type that moves behind an alias is reported, too.
func List(dir, path string) ([]string, error) {
	p, err := build.ImportDir(dir, 0)
	if err != nil {
		return nil, err
	}
	l := &list{fset: token.NewFileSet(), prefix: "pkg " + path + ", "}
	for _, name := range append(p.GoFiles, p.CgoFiles...) {
		f, err := parser.ParseFile(l.fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				l.function(d)
			case *ast.GenDecl:
				l.declaration(d)
			}
		}
	}
	slices.Sort(l.lines)
	return l.lines, nil
}

type list struct {
	fset   *token.FileSet
	prefix string
	lines  []string
}

func (l *list) add(format string, args ...any) {
	l.lines = append(l.lines, l.prefix+fmt.Sprintf(format, args...))
}

// function adds a function, or a method of an exported type.
func (l *list) function(d *ast.FuncDecl) {
	if !d.Name.IsExported() {
		return
	}
	signature := strings.TrimPrefix(l.source(d.Type), "func")
	if d.Recv == nil {
		l.add("func %s%s", d.Name.Name, signature)
		return
	}
	receiver := l.source(d.Recv.List[0].Type)
	if ast.IsExported(strings.TrimLeft(receiver, "*")) {
		l.add("method (%s) %s%s", receiver, d.Name.Name, signature)
	}
}

// declaration adds constants, variables and types.
func (l *list) declaration(d *ast.GenDecl) {
	var kind ast.Expr // the type of constants without one is that of the previous constant
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.ValueSpec:
			if s.Type != nil || len(s.Values) > 0 || d.Tok == token.VAR {
				kind = s.Type
			}
			for i, n := range s.Names {
				if !n.IsExported() {
					continue
				}
				line := d.Tok.String() + " " + n.Name
				if kind != nil {
					line += " " + l.source(kind)
				}
				if literal, ok := value(s, i).(*ast.BasicLit); ok && d.Tok == token.CONST {
					line += " = " + literal.Value
				}
				l.add("%s", line)
			}
		case *ast.TypeSpec:
			if s.Name.IsExported() {
				l.namedType(s)
			}
		}
	}
}

// value returns a value of a declaration, or nil.
func value(s *ast.ValueSpec, i int) ast.Expr {
	if i < len(s.Values) {
		return s.Values[i]
	}
	return nil
}

// namedType adds a type with its exported fields and methods.
func (l *list) namedType(s *ast.TypeSpec) {
	name := s.Name.Name
	if s.TypeParams != nil {
		var params []string
		for _, f := range s.TypeParams.List {
			for _, n := range f.Names {
				params = append(params, n.Name+" "+l.source(f.Type))
			}
		}
		name += "[" + strings.Join(params, ", ") + "]"
	}
	var fields *ast.FieldList
	switch t := s.Type.(type) {
	case *ast.StructType:
		l.add("type %s struct", name)
		fields = t.Fields
	case *ast.InterfaceType:
		l.add("type %s interface", name)
		fields = t.Methods
	default:
		assign := ""
		if s.Assign.IsValid() {
			assign = "= "
		}
		l.add("type %s %s%s", name, assign, l.source(t))
		return
	}
	_, isInterface := s.Type.(*ast.InterfaceType)
	hidden := false
	for _, f := range fields.List {
		text := " " + l.source(f.Type)
		if isInterface && len(f.Names) > 0 {
			text = strings.TrimPrefix(text, " func")
		}
		if len(f.Names) == 0 {
			if embedded := text[strings.LastIndexAny(text, " .*")+1:]; ast.IsExported(embedded) {
				l.add("type %s, embedded%s", name, text)
			}
		}
		for _, n := range f.Names {
			if !n.IsExported() {
				hidden = true
				continue
			}
			tag := ""
			if f.Tag != nil {
				tag = " " + f.Tag.Value
			}
			l.add("type %s, %s%s%s", name, n.Name, text, tag)
		}
	}
	if isInterface && hidden {
		l.add("type %s, unexported methods", name)
	}
}

var space = regexp.MustCompile(`\s+`)

// source returns the source of a node on one line.
func (l *list) source(n ast.Node) string {
	var out bytes.Buffer
	if err := printer.Fprint(&out, l.fset, n); err != nil {
		panic(err) // nothing fails in memory
	}
	return space.ReplaceAllString(out.String(), " ")
}
