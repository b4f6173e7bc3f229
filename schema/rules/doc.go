// Package rules compiles and evaluates x-kubernetes-validations: the rules that a
// schema states in CEL.
//
// A rule is an expression over self, the value of the schema that it stands in,
// and, in a transition rule, over oldSelf, the value that self replaces. [Compiler]
// makes programs of the rules of a schema; hand it to schema.Compile:
//
//	p, err := schema.Compile(s, schema.WithRules(rules.Compiler()))
//
// Rules are evaluated where kube-apiserver evaluates them, with its libraries and
// limits, and what they find reads the same. The limits are three. A single
// evaluation costs [PerCallLimit] at most, all evaluations for one object
// [Budget]: whoever exceeds them gets an error, and no further rule is run. And
// before any object is seen, [Check] estimates what a rule can cost for the
// largest object that a request can hold; a CustomResourceDefinition whose
// estimates exceed [schema.RuleCostLimit] or [schema.SchemaCostLimit] is rejected.
// The remedies of a [schema.RuleCost] are bounds in the schema that would bring an
// estimate below the limit.
//
// The package keeps no state of its own. k8s.io/apiserver, which it stands on,
// does: the base CEL environments, made once for each compatibility version and
// kept; the compatibility version itself, which a server sets when it starts and
// which decides what Check lets new rules use; and metrics, which nothing here
// writes.
package rules
