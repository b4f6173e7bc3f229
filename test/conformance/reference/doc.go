// Package reference runs the integration suite of k8s.io/apiextensions-apiserver, unchanged
// except for the file that starts the server, against the espalier binary. The passing tests
// are in a golden file, so that changes show up as a difference.
package reference
