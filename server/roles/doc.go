// Package roles authorizes requests by the stored roles and bindings, as Kubernetes does.
//
// An [Authorizer] keeps an index in memory: for each user and group the bindings that name it,
// and for each role its rules in a form that is fast to evaluate. The index is immutable. Who
// needs it next replaces it when roles or bindings have changed in the store, so a change counts
// for all requests that begin after the store has it. There is no goroutine.
//
// A [Guard] keeps users from granting permissions that they do not have. Package aggregation
// fills in the rules of aggregated cluster roles.
package roles
