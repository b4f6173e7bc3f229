// Package oracle holds the engine against the reference: the Go packages of
// kube-apiserver that do the same to a schema and to an object.
//
// A case is a schema and some bytes. Both sides read the schema, report whether it
// is structural, decode the bytes by it (parse, prune, drop nulls, bring metadata
// into shape, fill in defaults) and validate the outcome. Whatever differs is a
// finding, unless known.go says why it may.
//
// Cases come from three places: the corpus of real CustomResourceDefinitions and
// objects, the same objects with small changes, and a generator ([Generator]) that
// makes schemas that a server would accept and objects that are mostly right by
// them. A generated case is named by its seed and number, and by nothing else, so
// that it can be made again.
//
//	go test ./...                                              the corpus, and a short generated run
//	ORACLE_CASES=1000000 go test -run TestGenerated -timeout 0 a long generated run, on all cores
//	ORACLE_SEED=7 ORACLE_FIRST=1234 ORACLE_CASES=8 go test -run TestGenerated -v
//	                                                           one batch of a run again
//	go test -fuzz FuzzDecode                                   what the fuzzer makes of it
//	./coverage.sh                                              how much of the reference a run covers
package oracle
