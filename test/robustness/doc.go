// Package robustness checks a running server while its environment fails.
//
// The server is the espalier binary, and its etcd is a cluster of real processes. Clients
// read, write and watch custom resources while etcd members are killed, paused, compacted and
// separated from each other or from the server, while the server is killed, and while CRDs
// change. Afterwards the history of the requests is checked for linearizability, and each
// watch against the revisions that etcd has recorded.
//
// TestInMemory does the same with a server in this process that keeps its objects in memory: the truth
// is its own history.
//
// Other tests check that memory stays bounded under slow or numerous clients, and that
// failures are reported in a way that says what to do.
//
// Short versions are part of the usual tests, apart from those of memory. Environment variables change them:
//
//	ROBUSTNESS_TIME  run for at least this long, for example 10m, and measure memory
//	ROBUSTNESS_SEED  repeat the choices of an earlier run
//	ROBUSTNESS_OUT   directory for the history of a failure (default: a temporary directory)
package robustness
