// Package policies evaluates ValidatingAdmissionPolicies and MutatingAdmissionPolicies, and decides
// which webhooks are called, as k8s.io/apiserver does.
//
// The server and the command line share it. The server gives it policies, parameters and namespaces
// from its store; see package server/admission. An [Evaluator] has them in memory, from files, and
// needs no server:
//
//	e, problems, err := policies.New(ctx, policies.Config{Objects: objects})
//	result, err := e.Evaluate(ctx, policies.Request{Object: deployment})
//
// Both use the same code to compile policies, to find their bindings, parameters and namespaces, and
// to merge what they change.
package policies
