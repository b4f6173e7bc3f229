// Package object reports what an API server does to an object and why: which
// fields it prunes, which defaults it fills in, what makes it reject the object, and
// where the two schema semantics disagree about it.
//
// A [Checker] does so for the objects of one CRD, and a [KindChecker] for those of Kubernetes' own
// kinds. [Checker.Check] covers a request that
// creates or updates an object, [Checker.Prune] the object as it is read back, and
// [Checker.PruneStored] the object as it is stored. All return findings: data with a rule, a
// severity, a JSON pointer into the object, and a message.
// The package does no I/O. It evaluates CEL rules if the [crd.Definition] has a rule
// checker, but does not depend on a CEL runtime.
package object
