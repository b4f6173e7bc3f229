// Package definitions is the resource customresourcedefinitions, and the
// reconciler that makes a Catalog of them.
//
// The resource is served like any other (see package resources), in v1 and v1beta1, and
// stored as v1beta1, as kube-apiserver does; Kind says what is particular to it. One goroutine follows the stored
// definitions: it computes the status of each, writes it if it differs, and swaps the
// Catalog. A definition that is being deleted is kept until its objects are gone.
//
// A write of a definition returns when the catalog has it: whoever creates a definition can
// create an object right after.
package definitions
