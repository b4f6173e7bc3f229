package typecheck

import (
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"espalier.dev/internal/nearest"
	"espalier.dev/schema"
)

// rewriter changes an expression into one that has the same value for all objects of the kind, and
// fewer type errors.
type rewriter struct {
	*expressions
	ast *ast.AST
	// wrapped are the expressions that have any type.
	wrapped map[int64]bool
	factory ast.ExprFactory
	last    int64
	// copied counts the parts of expressions that foldQuantifier has copied.
	copied int
	// unset are the tests of fields that do not exist.
	unset []schema.TypeIssue
}

func (r *rewriter) new() ast.ExprFactory {
	if r.factory == nil {
		r.factory = ast.NewExprFactory()
	}
	return r.factory
}

// simplify replaces what the kind decides with constants, and removes what is not evaluated then.
func (r *rewriter) simplify(e ast.Expr) {
	switch e.Kind() {
	case ast.SelectKind:
		s := e.AsSelect()
		if r.simplify(s.Operand()); s.IsTestOnly() {
			switch path := qualifiedName(s.Operand()); {
			case r.isNull(s.Operand()):
				e.SetKindCase(r.new().NewLiteral(e.ID(), types.False))
			case r.isRequired(path, s.FieldName()):
				e.SetKindCase(r.new().NewLiteral(e.ID(), types.True))
			}
			return
		}
		name := qualifiedName(e)
		if value, ok := r.constants[name]; ok {
			e.SetKindCase(r.new().NewLiteral(e.ID(), types.String(value)))
		} else if variable, ok := strings.CutPrefix(name, "variables."); ok {
			if value, ok := r.known[variable]; ok {
				e.SetKindCase(r.new().NewLiteral(e.ID(), value))
			}
		}
	case ast.CallKind:
		c := e.AsCall()
		if c.IsMemberFunction() {
			r.simplify(c.Target())
		}
		for _, arg := range c.Args() {
			r.simplify(arg)
		}
		r.fold(e, c)
	case ast.ListKind:
		for _, item := range e.AsList().Elements() {
			r.simplify(item)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			r.simplify(entry.AsMapEntry().Key())
			r.simplify(entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		for _, f := range e.AsStruct().Fields() {
			r.simplify(f.AsStructField().Value())
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		if hides(c.IterVar()) || hides(c.IterVar2()) || hides(c.AccuVar()) {
			return
		}
		for _, part := range []ast.Expr{c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()} {
			r.simplify(part)
		}
		r.foldQuantifier(e, c)
	}
}

// foldQuantifier replaces all and exists of a list of strings if constants decide them, as in
// ['Pod', 'Job'].all(k, k != object.kind).
func (r *rewriter) foldQuantifier(e ast.Expr, c ast.ComprehensionExpr) {
	// Quantifiers can be nested: the copies of one have those of the others.
	const most, mostCopied = 100, 200_000
	if c.IterRange().Kind() != ast.ListKind || c.IterRange().AsList().Size() > most || c.HasIterVar2() || c.LoopStep().Kind() != ast.CallKind ||
		r.copied > mostCopied {
		return
	}
	step := c.LoopStep().AsCall()
	if name := step.FunctionName(); name != operators.LogicalAnd && name != operators.LogicalOr || len(step.Args()) != 2 {
		return
	}
	decides := types.Bool(step.FunctionName() == operators.LogicalOr)
	known := true
	size := parts(step.Args()[1])
	for _, item := range c.IterRange().AsList().Elements() {
		text, ok := literal[types.String](item)
		if r.copied += size; !ok || r.copied > mostCopied {
			return
		}
		condition := r.new().CopyExpr(step.Args()[1])
		r.substitute(condition, c.IterVar(), text)
		r.simplify(condition)
		value, ok := literal[types.Bool](condition)
		if ok && value == decides {
			e.SetKindCase(r.new().NewLiteral(e.ID(), decides))
			return
		}
		known = known && ok
	}
	if known {
		e.SetKindCase(r.new().NewLiteral(e.ID(), !decides))
	}
}

// parts returns the number of the parts of an expression.
func parts(e ast.Expr) (n int) {
	ast.PostOrderVisit(e, ast.NewExprVisitor(func(ast.Expr) { n++ }))
	return n
}

// substitute replaces a local variable.
func (r *rewriter) substitute(e ast.Expr, variable string, value types.String) {
	ast.PostOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.IdentKind && e.AsIdent() == variable {
			e.SetKindCase(r.new().NewLiteral(e.ID(), value))
		}
	}))
}

// isRequired reports whether all objects of the kind have a field, in the object at a path such as
// object.spec. Objects that are not validated yet may lack any.
func (r *rewriter) isRequired(path, field string) bool {
	variable, path, _ := strings.Cut(path, ".")
	if variable != "object" && variable != "oldObject" || variable == r.null || r.Object == nil || r.Mutating {
		return false
	}
	s := r.Object
	for path != "" {
		var name string
		name, path, _ = strings.Cut(path, ".")
		if s = s.Properties[name]; s == nil {
			return false
		}
	}
	return s.ValueValidation != nil && slices.Contains(s.ValueValidation.Required, field)
}

// hides reports whether a local variable has the name of one whose fields are constant.
func hides(name string) bool {
	return name == "object" || name == "oldObject" || name == "request" || name == "variables"
}

// fold replaces a call whose result follows from constants.
func (r *rewriter) fold(e ast.Expr, c ast.CallExpr) {
	args := c.Args()
	set := func(value bool) { e.SetKindCase(r.new().NewLiteral(e.ID(), types.Bool(value))) }
	switch c.FunctionName() {
	case operators.LogicalAnd, operators.LogicalOr:
		// The constant that decides the result hides errors on both sides. The other one is neutral.
		decides := types.Bool(c.FunctionName() == operators.LogicalOr)
		var rest []ast.Expr
		for _, arg := range args {
			value, ok := literal[types.Bool](arg)
			if ok && value == decides {
				set(bool(decides))
				return
			}
			if !ok {
				rest = append(rest, arg)
			}
		}
		if len(rest) == 0 {
			set(!bool(decides))
		} else if len(rest) == 1 && len(args) == 2 && rest[0].Kind() != ast.LiteralKind {
			r.replace(e, rest[0])
		}
	case operators.LogicalNot:
		if value, ok := literal[types.Bool](args[0]); ok {
			set(!bool(value))
		}
	case operators.Conditional:
		if value, ok := literal[types.Bool](args[0]); ok {
			if bool(value) {
				r.replace(e, args[1])
			} else {
				r.replace(e, args[2])
			}
		}
	case operators.Equals, operators.NotEquals:
		a, ok := literal[types.String](args[0])
		b, also := literal[types.String](args[1])
		if ok && also {
			set((a == b) == (c.FunctionName() == operators.Equals))
		} else if (r.isNull(args[0]) || r.isNull(args[1])) && hasNull(args) {
			set(c.FunctionName() == operators.Equals)
		}
	case operators.In:
		value, ok := literal[types.String](args[0])
		if !ok || args[1].Kind() != ast.ListKind {
			return
		}
		found := false
		for _, item := range args[1].AsList().Elements() {
			text, isText := literal[types.String](item)
			if !isText {
				return
			}
			found = found || text == value
		}
		set(found)
	}
}

// replace puts a part of an expression in its place, with the position of the part.
func (r *rewriter) replace(e, part ast.Expr) {
	info := r.ast.SourceInfo()
	if at, ok := info.GetOffsetRange(part.ID()); ok {
		info.SetOffsetRange(e.ID(), at)
	}
	e.SetKindCase(part)
}

// qualifiedName returns the name of a field of a variable, such as object.kind, or "".
func qualifiedName(e ast.Expr) string {
	switch e.Kind() {
	case ast.IdentKind:
		return e.AsIdent()
	case ast.SelectKind:
		if s := e.AsSelect(); !s.IsTestOnly() {
			if name := qualifiedName(s.Operand()); name != "" {
				return name + "." + s.FieldName()
			}
		}
	}
	return ""
}

// relax changes the parts of an expression that have a type error, but no error when they are
// evaluated. It reports whether it has changed any.
func (r *rewriter) relax(issues *cel.Issues) (changed bool) {
	byID := map[int64][]ast.Expr{}
	ast.PostOrderVisit(r.ast.Expr(), ast.NewExprVisitor(func(e ast.Expr) { byID[e.ID()] = append(byID[e.ID()], e) }))
	for _, err := range issues.Errors() {
		for _, e := range byID[err.ExprID] {
			if !r.relaxOne(e, err.Message) {
				continue
			}
			changed = true
			// Other kinds have fields with longer names, such as jobTemplate and template.
			if i := r.issue(err); i.Nearest != "" && max(len(i.Nearest), len(i.Field))-min(len(i.Nearest), len(i.Field)) < 2 && !slices.Contains(r.unset, i) {
				r.unset = append(r.unset, i)
			}
		}
	}
	return changed
}

func (r *rewriter) relaxOne(e ast.Expr, message string) bool {
	if _, ok := undefinedField(message); ok {
		return r.absent(e)
	}
	if strings.HasPrefix(message, "expression of type") && strings.Contains(message, "range of a comprehension") {
		return r.mentionsStruct(message) && r.wrap(e)
	}
	if strings.HasPrefix(message, "expected type '") {
		return r.mixed()
	}
	if e.Kind() != ast.CallKind || !strings.HasPrefix(message, "found no matching overload") {
		return false
	}
	c := e.AsCall()
	args := c.Args()
	switch c.FunctionName() {
	case operators.Conditional:
		// Both results are possible, whatever their types are.
		return !r.mentionsCondition(message) && anyOf(r.wrap(args[1]), r.wrap(args[2]))
	case "orValue", "or":
		return c.IsMemberFunction() && anyOf(r.wrap(args[0]), r.wrap(c.Target()))
	}
	if !r.mentionsStruct(message) && !hasNull(args) {
		return false
	}
	changed := false
	for _, arg := range args {
		if arg.Kind() != ast.LiteralKind {
			changed = r.wrap(arg) || changed
		}
	}
	if c.IsMemberFunction() {
		changed = r.wrap(c.Target()) || changed
	}
	return changed
}

// mixed allows lists and maps with values of several types. With objects of unknown types, which the
// API server compiles expressions for, they are less often mixed.
func (r *rewriter) mixed() (changed bool) {
	ast.PostOrderVisit(r.ast.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.ListKind:
			for _, item := range e.AsList().Elements() {
				changed = r.wrap(item) || changed
			}
		case ast.MapKind:
			for _, entry := range e.AsMap().Entries() {
				changed = r.wrap(entry.AsMapEntry().Value()) || changed
			}
		}
	}))
	return changed
}

// mentionsCondition reports whether the condition of ?: is not a boolean.
func (r *rewriter) mentionsCondition(message string) bool {
	_, applied, _ := strings.Cut(message, "applied to '(")
	first, _, _ := strings.Cut(applied, ",")
	return first != "bool" && first != "dyn"
}

func anyOf(changed ...bool) bool {
	for _, c := range changed {
		if c {
			return true
		}
	}
	return false
}

func hasNull(args []ast.Expr) bool {
	for _, arg := range args {
		if _, ok := literal[types.Null](arg); ok {
			return true
		}
	}
	return false
}

// absent replaces tests of a field that does not exist.
func (r *rewriter) absent(e ast.Expr) bool {
	switch e.Kind() {
	case ast.SelectKind:
		if !e.AsSelect().IsTestOnly() {
			return false
		}
		e.SetKindCase(r.new().NewLiteral(e.ID(), types.False))
		return true
	case ast.CallKind:
		if e.AsCall().FunctionName() != operators.OptSelect {
			return false
		}
		e.SetKindCase(r.new().NewCall(e.ID(), "optional.none"))
		return true
	}
	return false
}

// wrap gives an expression any type. It reports whether that is new.
func (r *rewriter) wrap(e ast.Expr) bool {
	if r.wrapped[e.ID()] {
		return false
	}
	inner := r.moved(e)
	if inner == nil {
		return false
	}
	r.wrapped[e.ID()] = true
	e.SetKindCase(r.new().NewCall(e.ID(), "dyn", inner))
	return true
}

// moved returns an expression with another ID, because e gets another meaning.
func (r *rewriter) moved(e ast.Expr) ast.Expr {
	if r.last == 0 {
		r.last = ast.MaxID(r.ast)
	}
	r.last++
	id := r.last
	info := r.ast.SourceInfo()
	if at, ok := info.GetOffsetRange(e.ID()); ok {
		info.SetOffsetRange(id, at)
	}
	switch f := r.new(); e.Kind() {
	case ast.CallKind:
		c := e.AsCall()
		if c.IsMemberFunction() {
			return f.NewMemberCall(id, c.FunctionName(), c.Target(), c.Args()...)
		}
		return f.NewCall(id, c.FunctionName(), c.Args()...)
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		if c.HasIterVar2() {
			return f.NewComprehensionTwoVar(id, c.IterRange(), c.IterVar(), c.IterVar2(), c.AccuVar(), c.AccuInit(), c.LoopCondition(),
				c.LoopStep(), c.Result())
		}
		return f.NewComprehension(id, c.IterRange(), c.IterVar(), c.AccuVar(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result())
	case ast.IdentKind:
		return f.NewIdent(id, e.AsIdent())
	case ast.LiteralKind:
		return f.NewLiteral(id, e.AsLiteral())
	case ast.ListKind:
		l := e.AsList()
		return f.NewList(id, l.Elements(), l.OptionalIndices())
	case ast.MapKind:
		return f.NewMap(id, e.AsMap().Entries())
	case ast.SelectKind:
		s := e.AsSelect()
		if s.IsTestOnly() {
			return f.NewPresenceTest(id, s.Operand(), s.FieldName())
		}
		return f.NewSelect(id, s.Operand(), s.FieldName())
	case ast.StructKind:
		s := e.AsStruct()
		return f.NewStruct(id, s.TypeName(), s.Fields())
	}
	return nil
}

// isNull reports whether an expression is the variable that is null in all requests.
func (r *rewriter) isNull(e ast.Expr) bool {
	return r.null != "" && e.Kind() == ast.IdentKind && e.AsIdent() == r.null
}

// nullFields returns where fields of the variable are read that is null in all requests.
func (r *rewriter) nullFields() (issues []schema.TypeIssue) {
	if r.null == "" {
		return nil
	}
	hidden := false
	ast.PostOrderVisit(r.ast.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.ComprehensionKind:
			c := e.AsComprehension()
			hidden = hidden || hides(c.IterVar()) || hides(c.IterVar2()) || hides(c.AccuVar())
		case ast.SelectKind:
			message := r.null + " is null in " + r.Operation + " requests"
			if variable, ok := strings.CutPrefix(qualifiedName(e), "variables."); ok && r.failing[variable] {
				message = "variables." + variable + " reads a field, but " + message
			} else if e.AsSelect().IsTestOnly() || !r.isNull(e.AsSelect().Operand()) {
				return
			}
			at := r.ast.SourceInfo().GetStartLocation(e.ID())
			issues = append(issues, schema.TypeIssue{Line: at.Line(), Column: at.Column() + 1, Message: message})
		}
	}))
	if hidden {
		return nil
	}
	return issues
}

// constructed returns the fields of apply configurations that the schema does not have.
func (r *rewriter) constructed() (issues []schema.TypeIssue) {
	if r.Object == nil {
		return nil
	}
	ast.PostOrderVisit(r.ast.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.StructKind {
			return
		}
		s := e.AsStruct()
		path, ok := strings.CutPrefix(s.TypeName()+".", "Object.")
		if !ok {
			return
		}
		fields := fieldsAt(r.Object, path)
		if fields == nil {
			return
		}
		for _, f := range s.Fields() {
			name := f.AsStructField().Name()
			if fields[name] != nil {
				continue
			}
			at := r.ast.SourceInfo().GetStartLocation(f.ID()) // that of the colon
			issues = append(issues, schema.TypeIssue{Line: at.Line(), Column: at.Column() + 1 - len(name), Message: "undefined field '" + name + "'", Field: name,
				Nearest: nearest.Name(name, keys(fields))})
		}
	}))
	return issues
}
