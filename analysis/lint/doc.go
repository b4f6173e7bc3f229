// Package lint reports problems in CRDs: errors, doubtful and ambiguous parts.
//
// The input is the JSON of CRDs as their authors wrote them, in v1 or v1beta1, so fields
// that the Go types lack are found too. Run lints several CRDs together, because names can
// collide. Each finding belongs to a Rule. A rule has a name, a severity and a
// documentation page, and can be disabled.
//
// Policies lints admission policies, their bindings and the configurations of webhooks, together with
// the CRDs and built-in kinds that they match. CEL is injected, as for the rules of CRDs.
//
// Differences compares the two schema semantics for a decoded CRD.
package lint
