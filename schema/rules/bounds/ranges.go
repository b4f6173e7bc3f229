package bounds

import (
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	apiservercel "k8s.io/apiserver/pkg/cel"
)

// Ranges makes the loops of an expression read the lists and maps of a custom resource one value at a
// time. Otherwise a loop that ends with its first value costs little, and converts all values before.
func Ranges(tree *ast.AST) cel.ProgramOption {
	ids := map[int64]bool{}
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.ComprehensionKind {
			addRange(ids, e.AsComprehension().IterRange())
		}
	}))
	return cel.CustomDecoratorV2(func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		if !ids[i.ID()] {
			return i, nil
		}
		switch i := i.(type) {
		case interpreter.InterpretableAttribute:
			return &lazyAttribute{i}, nil
		case interpreter.InterpretableCall:
			return &lazyCall{i}, nil
		}
		return i, nil
	})
}

// addRange adds the identifiers that the interpreter gives to an expression: a chain of fields and
// indexes has that of its first part.
func addRange(ids map[int64]bool, e ast.Expr) {
	ids[e.ID()] = true
	switch e.Kind() {
	case ast.SelectKind:
		addRange(ids, e.AsSelect().Operand())
	case ast.CallKind:
		if c := e.AsCall(); c.FunctionName() == operators.Index && len(c.Args()) > 0 {
			addRange(ids, c.Args()[0])
		}
	}
}

type lazyAttribute struct {
	interpreter.InterpretableAttribute
}

// AddQualifier adds a step to the attribute.
func (a *lazyAttribute) AddQualifier(q interpreter.Qualifier) (interpreter.Attribute, error) {
	_, err := a.InterpretableAttribute.AddQualifier(q)
	return a, err
}

// Exec returns the value of the attribute.
func (a *lazyAttribute) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	return lazily(a.InterpretableAttribute.Exec(frame))
}

// Eval returns the value of the attribute.
func (a *lazyAttribute) Eval(in interpreter.Activation) ref.Val {
	return a.Exec(interpreter.AsFrame(in))
}

type lazyCall struct{ interpreter.InterpretableCall }

// Exec returns the result of the call.
func (c *lazyCall) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	return lazily(c.InterpretableCall.Exec(frame))
}

// Eval returns the result of the call.
func (c *lazyCall) Eval(in interpreter.Activation) ref.Val { return c.Exec(interpreter.AsFrame(in)) }

// few is the size of a map of which all keys are read at once.
const few = 64

func lazily(v ref.Val) ref.Val {
	switch v := v.(type) {
	case traits.Lister:
		if _, ok := parsed[[]any](v); ok {
			return lazyList{v}
		}
	case traits.Mapper:
		if m, ok := parsed[map[string]any](v); ok && len(m) > few {
			return lazyMap{v, m}
		}
	}
	return v
}

type lazyList struct{ traits.Lister }

// Iterator returns an iterator that converts a value when it comes to it.
func (l lazyList) Iterator() traits.Iterator { return &items{list: l.Lister, size: length(l.Lister)} }

// items implements [traits.Iterator].
type items struct {
	ref.Val
	list     traits.Lister
	at, size int
}

// HasNext reports whether there are more values.
func (i *items) HasNext() ref.Val { return types.Bool(i.at < i.size) }

// Next returns the next value.
func (i *items) Next() ref.Val {
	i.at++
	return i.list.Get(types.Int(i.at - 1))
}

type lazyMap struct {
	traits.Mapper
	native map[string]any
}

// Iterator returns an iterator that reads a key when it comes to it.
func (m lazyMap) Iterator() traits.Iterator {
	keys := &keys{m: m.Mapper, in: reflect.ValueOf(m.native).MapRange()}
	keys.advance()
	return keys
}

// keys implements [traits.Iterator].
type keys struct {
	ref.Val
	m    traits.Mapper
	in   *reflect.MapIter
	next ref.Val // nil at the end
}

// advance looks for the next key of which the schema knows the value. The names of fields are escaped.
func (k *keys) advance() {
	for k.next = nil; k.in.Next(); {
		name := k.in.Key().String()
		if _, ok := k.m.Find(types.String(name)); ok {
			k.next = types.String(name)
			return
		}
		escaped, ok := apiservercel.Escape(name)
		if !ok {
			continue
		}
		if _, ok := k.m.Find(types.String(escaped)); ok {
			k.next = types.String(escaped)
			return
		}
	}
}

// HasNext reports whether there are more keys.
func (k *keys) HasNext() ref.Val { return types.Bool(k.next != nil) }

// Next returns the next key.
func (k *keys) Next() ref.Val {
	key := k.next
	k.advance()
	return key
}
