// Package rules compiles and evaluates x-kubernetes-validations, the CEL rules of a
// schema.
//
// A rule is an expression over self, the value of the schema that has the rule, and, in a
// transition rule, over oldSelf, the value that self replaces. [Compiler] compiles the
// rules of a schema; pass it to schema.Compile:
//
//	p, err := schema.Compile(s, schema.WithRules(rules.Compiler()))
//
// Rules are evaluated as in kube-apiserver, with the same libraries, limits and messages.
// There are three limits. A single evaluation may cost at most [PerCallLimit], and all
// evaluations for one object [Budget]: when a limit is exceeded, validation fails and no
// further rule is evaluated. Before there are objects, [Check] estimates what a rule can
// cost for the largest object that fits into a request; a CRD whose estimates exceed
// [schema.RuleCostLimit] or [schema.SchemaCostLimit] is rejected. The remedies of a
// [schema.RuleCost] are bounds in the schema that would bring an estimate below the limit.
//
// The package has no state of its own. k8s.io/apiserver, which it uses, does: the base CEL
// environments, which are created once for each compatibility version; the compatibility
// version itself, which a server sets when it starts and which determines what Check
// allows in new rules; and metrics, which this package does not update.
package rules
