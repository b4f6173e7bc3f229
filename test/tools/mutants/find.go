package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
)

// A mutant is a change of the source that somebody could make by mistake.
type mutant struct {
	id  int
	pkg string // the directory of the package
	// file, function and the changed lines identify the mutant; its line in the file changes
	// too easily.
	file, function string
	old, new       []string
	line           int
	edits          []edit
}

// position returns the place of the mutant, for people.
func (m *mutant) position() string { return fmt.Sprintf("%s:%d (%s)", m.file, m.line, m.function) }

// diff returns the changed lines.
func (m *mutant) diff() string {
	return "-" + strings.Join(m.old, "\n-") + "\n+" + strings.Join(m.new, "\n+")
}

// An edit replaces length bytes of a file by a text, in which # is the number of the mutant.
// Edits of a file keep its lines as they are, so that messages of the compiler are of use.
type edit struct {
	offset, length int
	text           string
	closes         bool // the text ends an expression that began before the offset
	order          int  // of nested expressions: the outer one has the smaller number
}

// name is the name of the package toggle in mutated files.
const name = "toggle0"

// A finder finds the mutants of a file.
type finder struct {
	fset     *token.FileSet
	info     *types.Info
	pkg      string
	file     string // below the root
	text     string
	function string
	order    int
	found    []*mutant
}

// find returns all mutants of packages, in the order of their sources, and the paths and texts
// of the files.
func find(root string, list []*packages.Package) (found []*mutant, files map[string]*source, err error) {
	files = map[string]*source{}
	for _, p := range list {
		for i, syntax := range p.Syntax {
			path, err := filepath.Rel(root, p.CompiledGoFiles[i])
			if err != nil || ast.IsGenerated(syntax) {
				continue
			}
			src, err := newSource(p.CompiledGoFiles[i], p.Fset.Position(syntax.Name.End()).Offset)
			if err != nil {
				return nil, nil, err
			}
			path = filepath.ToSlash(path)
			f := &finder{fset: p.Fset, info: p.TypesInfo, pkg: filepath.ToSlash(filepath.Dir(path)), file: path, text: src.text}
			for _, decl := range syntax.Decls {
				f.declaration(decl)
			}
			files[path] = src
			found = append(found, f.found...)
		}
	}
	return found, files, nil
}

func (f *finder) declaration(decl ast.Decl) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		f.function = d.Name.Name
		if d.Recv != nil && len(d.Recv.List) == 1 {
			f.function = receiver(d.Recv.List[0].Type) + "." + f.function
		}
	case *ast.GenDecl:
		f.function = d.Tok.String()
		if len(d.Specs) > 0 {
			if v, ok := d.Specs[0].(*ast.ValueSpec); ok {
				f.function = v.Names[0].Name
			}
		}
	}
	ast.PreorderStack(decl, nil, f.node)
}

// receiver returns the name of the type of a method.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

// node adds the mutants of a node. It reports whether to go on with the nodes in it.
func (f *finder) node(n ast.Node, stack []ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok == token.VAR // constants cannot call the switch
	case *ast.IfStmt:
		f.negate(n.Cond)
		f.always(n.Cond, false)
		if n.Else != nil {
			f.always(n.Cond, true)
		}
	case *ast.ForStmt:
		if n.Cond != nil {
			f.negate(n.Cond)
		}
	case *ast.RangeStmt:
		f.leave(n.Body.Lbrace)
	case *ast.CaseClause:
		f.clause(n, stack[len(stack)-2])
	case *ast.BinaryExpr:
		f.binary(n)
	case *ast.ReturnStmt:
		f.results(n, stack)
	case *ast.BasicLit:
		f.literal(n, stack[len(stack)-1])
	}
	return true
}

// add adds a mutant. In the report, it replaces the source from one position to another.
func (f *finder) add(from, to token.Pos, replacement string, edits ...edit) {
	start, end := f.offset(from), f.offset(to)
	first := strings.LastIndexByte(f.text[:start], '\n') + 1
	last := len(f.text)
	if i := strings.IndexByte(f.text[end:], '\n'); i >= 0 {
		last = end + i
	}
	for i := range edits {
		edits[i].order = f.order
	}
	f.order++
	f.found = append(f.found, &mutant{
		pkg: f.pkg, file: f.file, function: f.function, line: f.fset.Position(from).Line, edits: edits,
		old: lines(f.text[first:last]), new: lines(f.text[first:start] + replacement + f.text[end:last]),
	})
}

// lines splits a text into lines, without those in the middle if there are many.
func lines(text string) []string {
	list := strings.Split(text, "\n")
	if len(list) > 4 {
		list = []string{list[0], "\t…", list[len(list)-1]}
	}
	return list
}

// wrap adds a mutant with texts around an expression.
func (f *finder) wrap(e ast.Expr, before, after string, from, to token.Pos, replacement string) {
	f.add(from, to, replacement, edit{offset: f.offset(e.Pos()), text: before}, edit{offset: f.offset(e.End()), text: after, closes: true})
}

func (f *finder) offset(p token.Pos) int { return f.fset.Position(p).Offset }

func (f *finder) source(n ast.Node) string { return f.text[f.offset(n.Pos()):f.offset(n.End())] }

// negate adds the mutant of a condition that is negated.
func (f *finder) negate(e ast.Expr) {
	if f.isBool(e) {
		f.wrap(e, "((", ") != "+name+".On(#))", e.Pos(), e.End(), "!("+f.source(e)+")")
	}
}

// always adds the mutant of a condition that is always true or always false: without the other
// branch.
func (f *finder) always(e ast.Expr, value bool) {
	switch {
	case !f.isBool(e):
	case value:
		f.wrap(e, "("+name+".On(#) || (", "))", e.Pos(), e.End(), "true")
	default:
		f.wrap(e, "(!"+name+".On(#) && (", "))", e.Pos(), e.End(), "false")
	}
}

// leave adds the mutant of a block that is left before its first statement.
func (f *finder) leave(before token.Pos) {
	f.add(before+1, before+1, " break", edit{offset: f.offset(before) + 1, text: " if " + name + ".On(#) { break };"})
}

// clause adds the mutants of a case: of its conditions, or without its statements.
func (f *finder) clause(c *ast.CaseClause, of ast.Node) {
	if s, ok := of.(*ast.SwitchStmt); ok && s.Tag == nil && c.List != nil {
		for _, e := range c.List {
			f.negate(e)
			f.always(e, false)
		}
		return
	}
	var body *ast.BlockStmt
	switch s := of.(type) {
	case *ast.SwitchStmt:
		body = s.Body
	case *ast.TypeSwitchStmt:
		body = s.Body
	}
	if len(c.Body) > 0 && ends(body) {
		f.leave(c.Colon)
	}
}

// ends reports whether the statements after a switch are reached. Otherwise, a function may need
// them once there is a break in it.
func ends(body *ast.BlockStmt) bool {
	complete := false
	for _, s := range body.List {
		c := s.(*ast.CaseClause)
		complete = complete || c.List == nil
		if len(c.Body) == 0 {
			return true
		}
		switch last := c.Body[len(c.Body)-1].(type) {
		case *ast.AssignStmt, *ast.IncDecStmt, *ast.RangeStmt, *ast.DeclStmt, *ast.DeferStmt:
			return true
		case *ast.IfStmt:
			if last.Else == nil {
				return true
			}
		}
	}
	return !complete
}

// boundaries has the functions of the comparisons, and the comparisons in the mutants.
var boundaries = map[token.Token][2]string{
	token.LSS: {"Less", "<="}, token.LEQ: {"LessEqual", "<"},
	token.GTR: {"Greater", ">="}, token.GEQ: {"GreaterEqual", ">"},
}

// binary adds the mutants of an expression without one of its conditions, or with another
// boundary.
func (f *finder) binary(b *ast.BinaryExpr) {
	if f.info.Types[b].Value != nil {
		return
	}
	switch b.Op {
	case token.LAND, token.LOR:
		before, after := "("+name+".On(#) || (", "))"
		if b.Op == token.LOR {
			before = "(!" + name + ".On(#) && ("
		}
		if f.isBool(b.X) && f.isBool(b.Y) {
			f.wrap(b.X, before, after, b.Pos(), b.End(), f.source(b.Y))
			f.wrap(b.Y, before, after, b.Pos(), b.End(), f.source(b.X))
		}
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		to := boundaries[b.Op]
		f.add(b.OpPos, b.OpPos+token.Pos(len(b.Op.String())), to[1],
			edit{offset: f.offset(b.Pos()), text: name + "." + to[0] + "(#, "},
			edit{offset: f.offset(b.OpPos), length: len(b.Op.String()), text: ","},
			edit{offset: f.offset(b.End()), text: ")", closes: true})
	}
}

// results adds the mutants of a return statement: other truth values, no error, zero values.
func (f *finder) results(r *ast.ReturnStmt, stack []ast.Node) {
	var signature *types.Signature
	for _, n := range stack {
		switch n := n.(type) {
		case *ast.FuncDecl:
			signature = f.info.Defs[n.Name].Type().(*types.Signature)
		case *ast.FuncLit:
			signature = f.info.TypeOf(n).(*types.Signature)
		}
	}
	if signature == nil || signature.Results().Len() != len(r.Results) {
		return
	}
	for i, e := range r.Results {
		want, is := signature.Results().At(i).Type(), f.info.Types[e]
		switch {
		case is.IsNil():
		case types.Identical(want, types.Typ[types.Bool]):
			replacement := "!(" + f.source(e) + ")"
			if is.Value != nil {
				replacement = strconv.FormatBool(!constant.BoolVal(is.Value))
			}
			f.wrap(e, "((", ") != "+name+".On(#))", e.Pos(), e.End(), replacement)
		case types.Identical(want, types.Universe.Lookup("error").Type()):
			f.wrap(e, name+".Zero[error](#, ", ")", e.Pos(), e.End(), "nil")
		case is.Value != nil:
			if is.Value.Kind() == constant.String && constant.StringVal(is.Value) != "" && types.Identical(want, types.Typ[types.String]) {
				f.wrap(e, name+".Zero(#, ", ")", e.Pos(), e.End(), `""`)
			}
		case types.Identical(is.Type, want) && !isZero(e) && !isShift(e):
			if zero := zero(want); zero != "" {
				f.wrap(e, name+".Zero(#, ", ")", e.Pos(), e.End(), zero)
			}
		}
	}
}

// isZero reports whether an expression is a composite literal without elements.
func isZero(e ast.Expr) bool {
	lit, ok := e.(*ast.CompositeLit)
	return ok && len(lit.Elts) == 0
}

// isShift reports whether an expression is a shift. The type of a shifted constant is that of the
// context, which an argument of a function would change.
func isShift(e ast.Expr) bool {
	b, ok := e.(*ast.BinaryExpr)
	return ok && (b.Op == token.SHL || b.Op == token.SHR)
}

// zero returns the zero value of a type, for people. It is empty for types whose values may be
// untyped, which the type parameter of a function does not accept.
func zero(t types.Type) string {
	if _, ok := t.(*types.TypeParam); ok {
		return "*new(T)"
	}
	switch u := t.Underlying().(type) {
	case *types.Basic:
		switch {
		case u.Info()&types.IsString != 0:
			return `""`
		case u.Info()&types.IsNumeric != 0:
			return "0"
		}
		return ""
	case *types.Struct, *types.Array:
		return "{}"
	}
	return "nil"
}

// literal adds the mutants of an integer that is one more, and one less.
func (f *finder) literal(lit *ast.BasicLit, parent ast.Node) {
	if lit.Kind != token.INT {
		return
	}
	if e, ok := parent.(ast.Expr); ok && f.info.Types[e].Value != nil {
		return
	}
	switch p := parent.(type) {
	case *ast.ArrayType:
		return
	case *ast.KeyValueExpr:
		if p.Key == lit {
			return
		}
	case *ast.CallExpr:
		// A capacity has no effect.
		if fun, ok := p.Fun.(*ast.Ident); ok && fun.Name == "make" && len(p.Args) == 3 && p.Args[2] == lit {
			return
		}
	}
	t, ok := f.info.TypeOf(lit).(*types.Basic)
	if !ok || t.Info()&types.IsUntyped != 0 {
		return
	}
	f.wrap(lit, name+".Add(#, "+t.Name()+"(", "), 1)", lit.Pos(), lit.End(), lit.Value+"+1")
	f.wrap(lit, name+".Sub(#, "+t.Name()+"(", "), 1)", lit.Pos(), lit.End(), lit.Value+"-1")
}

// isBool reports whether an expression is a bool that is no constant. The switch is of no named
// type.
func (f *finder) isBool(e ast.Expr) bool {
	is := f.info.Types[e]
	b, ok := types.Unalias(is.Type).(*types.Basic)
	return ok && b.Info()&types.IsBoolean != 0 && is.Value == nil
}
