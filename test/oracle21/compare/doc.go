// Package compare holds the product against kube-apiserver 1.21 in what concerns
// v1beta1: the CustomResourceDefinitions themselves and the objects that are made of
// them. The reference is a process, espalier.dev/test/oracle21, which the tests
// build and start; this module has the product in its build, that one has the
// reference, and they cannot be one.
//
// The product does what kube-apiserver 1.37 does, not 1.21, so differences are to be
// expected where Kubernetes changed in between. [Drifts] lists them all, each with
// the code that changed. Whatever else differs is a finding.
//
//	go test ./...                                                the corpus, and a short generated run
//	ORACLE21_CASES=200000 go test -run TestGenerated -timeout 0 -v   a long generated run
//	ORACLE21_SEED=7 ORACLE21_FIRST=1234 ORACLE21_CASES=1 go test -run TestGenerated -v
//	                                                             one case of a run again
//
// The corpus of CustomResourceDefinitions is found by ESPALIER_CORPUS, or beside the
// repository; without it the tests that need it are skipped.
package compare
