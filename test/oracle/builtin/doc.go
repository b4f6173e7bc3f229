// Package builtin compares the rules of Kubernetes' own kinds with the reference: the registry
// strategies of kube-apiserver 1.36, which espalier.dev/test/oracle36 runs in a process of its
// own.
//
// A case is an object that is created, and possibly an update of it. Both sides decode it, fill
// in its defaults, prepare and validate it. They must agree on the object that would be stored,
// or on all errors, whose order is not compared. Every other difference is a bug unless known.go
// lists it with a reason.
//
// Cases are made from realistic manifests (seeds/) by changes that follow the Go types: fields
// are removed, added, and set to valid and invalid values. The number of a case is enough to
// reproduce it. The test is TestBuiltin in package answers:
//
//	go test ./answers -run TestBuiltin                                  a short run for all kinds
//	BUILTIN_KINDS=pods,jobs BUILTIN_CASES=2000 go test ./answers -run TestBuiltin
//	                                                          a longer one for some
//	BUILTIN_KINDS=pods BUILTIN_CASE=123 go test ./answers -run TestBuiltin
//	                                                          one case
//	BUILTIN_SHOW=50 …                                         how many differences to show for each kind
//	BUILTIN_SEED=7 …                                          other cases
//
// All but the first need the reference itself: set ORACLE36=build to build it, or
// ORACLE36=/path/to/oracle36. Otherwise, the tests use recorded answers (testdata/answers.gz), because
// the reference takes minutes to build. `make golden-builtin` records them.
package builtin
