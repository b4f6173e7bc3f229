package policies

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"espalier.dev/schema"
)

// Object is an object in JSON.
type Object struct {
	JSON []byte
	// Namespace is the namespace of a namespaced object whose JSON has none; "default" if it is
	// empty.
	Namespace string
}

// Place is a place in one of the objects of an Evaluator.
type Place struct {
	// Object is the index of the object in [Config].Objects.
	Object int
	// Path is the path of the field, such as spec.validations[0].expression, and Pointer the JSON
	// pointer. Both are empty for the object as a whole.
	Path, Pointer string
}

// Problem is why an object of an Evaluator has no effect, or not the one that is probably intended.
type Problem struct {
	Place Place
	// Code tells the problems apart.
	Code ProblemCode
	// Message is one sentence.
	Message string
	// Other is the index of another object that the message is about, or -1.
	Other int
	// Field is the error of the API server about an object that it rejects, or nil.
	Field *field.Error
}

// ProblemCode is what is wrong with an object of an Evaluator.
type ProblemCode string

// The problems of objects.
const (
	// Rejected objects have no effect: the API server rejects them.
	Rejected ProblemCode = "rejected"
	// Duplicate objects have no effect: another one has the same kind and name.
	Duplicate ProblemCode = "duplicate"
	// Unbound bindings have no effect: their policy does not exist.
	Unbound ProblemCode = "unbound"
	// UnknownParamKind is a policy whose parameters are of an unknown kind. It rejects every request
	// that it matches, unless its failurePolicy is Ignore.
	UnknownParamKind ProblemCode = "unknown-param-kind"
	// MissingParam is a binding whose parameter does not exist.
	MissingParam ProblemCode = "missing-param"
)

// Action is what follows if a validation fails.
type Action string

// The actions. They are those of a binding, in lower case.
const (
	Deny  Action = "deny"
	Warn  Action = "warn"
	Audit Action = "audit"
)

// Decision is a failed validation of a policy, or an error of a policy that rejects the request.
type Decision struct {
	// Policy is the place of the failed expression, or of the policy if it is about none. Name and
	// Binding are the names of the policy and of the binding, which may be empty.
	Policy        Place
	Name, Binding string
	// Mutating is set if the policy is a mutating one.
	Mutating bool
	// Expression is the text at Place.
	Expression string
	// Action is what the binding asks for. A validation with several actions has several decisions.
	Action Action
	// Message is what the API server tells the client: for Deny, the message of the error without
	// the name of the object; for Warn, the warning; for Audit, the message in the audit log.
	Message string
	// Param is the parameter, as namespace/name or name, or empty.
	Param string
	// Failed is set if an expression could not be evaluated, for example because its cost exceeds
	// the budget.
	Failed bool
	// Cost is the cost of the validations and messages of the policy for this parameter, or of the
	// mutation.
	Cost int64
	// Fields are the fields of the object that the expression reads, as paths such as spec.replicas.
	Fields []string
}

// Mutation is a change that a mutating policy has made.
type Mutation struct {
	Policy        Place
	Name, Binding string
	Param         string
	// Paths are the fields that have changed.
	Paths []schema.Path
	Cost  int64
	// Again is set if the mutation was applied again because another one had changed the object.
	Again bool
}

// Unjudged is a policy or a webhook that cannot be evaluated without a server.
type Unjudged struct {
	Policy        Place
	Name, Binding string
	Mutating      bool
	// Reason is why, such as "asks the authorizer".
	Reason string
	// Webhook is set if it is a match condition of a webhook, whose configuration is Name.
	Webhook string
}

// Webhook is a webhook that the API server calls for the request, or whose match condition fails.
type Webhook struct {
	// Place is that of the webhook in its configuration, and Configuration and Name are the names
	// of both.
	Place               Place
	Configuration, Name string
	// Mutating is set if the webhook may change the object.
	Mutating bool
	// Err is the error of a match condition, for which the API server rejects the request, or nil.
	Err error
}

// Result is what policies and webhooks do to a request.
type Result struct {
	// Object is the object that would be stored if it is valid: after mutation, without what only a
	// server knows, such as the UID of a new object.
	Object schema.Object
	// Mutated is the object after the mutating policies, in JSON, as they have left it. It is nil if
	// they have not changed it.
	Mutated   []byte
	Mutations []Mutation
	// Unsettled has the mutations that change the object again when they are applied to their own
	// result. The API server applies a policy twice at most.
	Unsettled []Mutation
	// Rejected is the error with which policies and webhooks make the API server reject the request,
	// or nil.
	Rejected *apierrors.StatusError
	// Decisions are all failed validations, in the order of evaluation. Rejected has the message of
	// the first one that denies the request.
	Decisions []Decision
	// Warnings are those that the client gets from validating policies, and Annotations what they
	// add to the audit log.
	Warnings    []string
	Annotations map[string]string
	// Unjudged are policies and webhooks whose verdict is unknown. Those validations of the policies
	// that are certain to fail are among the decisions.
	Unjudged []Unjudged
	// Webhooks are the webhooks that are called. What they do is not known.
	Webhooks []Webhook
	// AssumedNamespace is the name of a namespace that is not among the objects and whose labels or
	// annotations matter, or empty. It is assumed to have no labels but its name.
	AssumedNamespace string
}

// Budget is the cost that the validations of a policy for one parameter may have in total, and each
// mutation.
const Budget = celconfig.RuntimeCELCostBudget
