// Package lint reports problems in CRDs: errors, doubtful and ambiguous parts.
//
// Its input is the JSON of definitions as their authors wrote them, in either
// version: what the types do not have is seen too. Run takes several at a time,
// because names can collide. Everything found is a finding of a Rule: rules have a
// name, a severity, a page of documentation, and can be turned off.
//
// Differences is for those who have a definition in hand already and want to know
// whether the two semantics read it differently.
package lint
