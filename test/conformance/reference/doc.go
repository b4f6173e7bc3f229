// Package reference runs the integration suite of k8s.io/apiextensions-apiserver, as it
// is, against the espalier binary. One file of it is replaced, the one that starts the
// server. Which tests pass is a golden file, so that a change shows as a difference.
package reference
