// Package oracle compares the engine with the reference: the Go packages of kube-apiserver
// that process schemas and objects.
//
// A case is a schema and some bytes. Both sides read the schema, check that it is structural,
// decode the bytes with it (parse, prune, drop nulls, coerce metadata, apply defaults) and
// validate the result. Every difference is a bug unless known.go lists it with a reason.
//
// Cases come from three sources: the corpus of real CRDs and objects, the same objects with
// small changes, and a generator ([Generator]) of schemas that the API server accepts and of
// mostly valid objects. The seed and the number of a generated case are enough to reproduce
// it.
//
//	go test ./...                                              a part of the corpus, and a short generated run
//	ESPALIER_WHOLE_CORPUS=1 go test ./...                      all of the corpus: make corpus
//	ORACLE_CASES=1000000 go test -run TestGenerated -timeout 0 a long generated run, on all cores
//	ORACLE_SEED=7 ORACLE_FIRST=1234 ORACLE_CASES=8 go test -run TestGenerated -v
//	                                                           one batch of a run
//	ORACLE_SEED=7 ORACLE_FIELD_STEPS=100000 go test -run TestFields -timeout 0
//	                                                           a long run of the field manager
//	go test -fuzz FuzzDecode                                   fuzzing
//	./coverage.sh                                              how much of the reference a run covers
package oracle
