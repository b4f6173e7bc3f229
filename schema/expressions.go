package schema

import runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

// TypeChecker checks the types of the expressions of admission policies. Package
// schema/rules/typecheck implements it. It is safe for concurrent use.
type TypeChecker interface {
	// Expressions returns a checker for the expressions of a policy that is evaluated for objects
	// of one kind.
	Expressions(ExpressionTypes) (ExpressionChecker, error)
}

// ExpressionTypes are the types of the variables of expressions.
type ExpressionTypes struct {
	// Kind is the kind of object and oldObject, and Resource the resource of the request. They may
	// be empty.
	Kind     runtimeschema.GroupVersionKind
	Resource runtimeschema.GroupVersionResource
	// Operation is that of all requests, such as CREATE, or empty if they differ.
	Operation string
	// Object is the schema of object and oldObject. If it is nil, these can be anything.
	Object *Structural
	// HasParams is set if there are params, and ParamKind is their kind. Params is their schema.
	// If it is nil, they can be anything.
	HasParams bool
	ParamKind runtimeschema.GroupVersionKind
	Params    *Structural
	// Mutating is set if expressions can make patches. They get objects that are not validated yet.
	Mutating bool
	// Published selects the types that kube-apiserver uses for status.typeChecking. They are those of
	// the published schemas. Objects that a policy gets have other ones: a time is a string, a
	// quantity is a number or a string, unknown fields may have been preserved, and everything can be
	// null. Expressions are then checked as a whole, including what they never evaluate for objects
	// of this kind.
	Published bool
}

// ExpressionChecker checks the expressions of a policy, one after the other.
type ExpressionChecker interface {
	// Declare checks the expression of a variable and makes it known to the expressions that follow.
	Declare(name, expression string) TypedExpression
	// Check checks an expression.
	Check(expression string) TypedExpression
}

// TypedExpression is the result of checking an expression.
type TypedExpression struct {
	Issues []TypeIssue
	// Unset are tests of fields that the kind does not have, in has() or with .?, each with a field
	// that was probably meant. The tests are no errors, but useless if it is so for all kinds.
	Unset []TypeIssue
	// False is set if the expression is false for all objects of the kind.
	False bool
}

// TypeIssue is an error in an expression. It is plain data.
type TypeIssue struct {
	// Line and Column count from 1.
	Line, Column int
	// Message is that of CEL.
	Message string
	// Field is the field that does not exist, and Nearest the one that was probably meant. Both can
	// be empty.
	Field, Nearest string
}
