// Package conformance puts the espalier binary to the tests and tools of others: the
// reference's integration suite, kubectl, client-go.
package conformance
