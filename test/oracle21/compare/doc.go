// Package compare compares the product with kube-apiserver 1.21 for v1beta1: the CRDs
// themselves and their objects. The reference is a process, espalier.dev/test/oracle21, which
// the tests build and start. This module depends on the product, that one on the reference;
// they cannot be combined.
//
// The product does what kube-apiserver 1.37 does, not 1.21, so differences are expected where
// Kubernetes has changed. [Drifts] lists them all, each with the code that changed. Every
// other difference is a bug.
//
//	go test ./...                                                a part of the corpus, and a short generated run
//	ESPALIER_WHOLE_CORPUS=1 go test ./...                        all of the corpus: make corpus
//	ORACLE21_CASES=200000 go test -run TestGenerated -timeout 0 -v   a long generated run
//	ORACLE21_SEED=7 ORACLE21_FIRST=1234 ORACLE21_CASES=1 go test -run TestGenerated -v
//	                                                             one case of a run
//
// ESPALIER_CORPUS names the directory of the corpus; the default is beside the repository.
// Tests that need the corpus are skipped without it.
package compare
