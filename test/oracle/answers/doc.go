// Package answers compares the answers of the server with those of kube-apiserver 1.36, which are
// recorded in testdata/answers.jsonl.gz: status, the headers that clients read, and body, of thousands
// of requests for each of the objects in testdata/objects.yaml. The requests are made one after the
// other, so both servers have the same objects when they answer one.
//
// testdata/differences.txt has the requests whose answers differ. It may only get shorter: the test
// fails if another answer differs, and if one of the list does not. ANSWERS_OUTPUT names a file for both
// answers of each. The lines are below the reasons of reasons.go: some differences come from libraries of
// Kubernetes 1.37, some are decisions, and the rest is to be repaired.
package answers
