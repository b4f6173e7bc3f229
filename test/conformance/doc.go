// Package conformance runs external tests and tools against the espalier binary: the
// reference's integration suite, kubectl, client-go.
package conformance
