// Package definitions implements the resource customresourcedefinitions and its reconciler,
// which maintains the Catalog.
//
// The resource is served like any other (see package custom), in v1 and v1beta1, and
// stored as v1beta1, as in kube-apiserver; Kind implements what is specific to it. One
// goroutine follows the stored CRDs: it computes the status of each, writes it if it differs,
// and replaces the Catalog. A CRD that is being deleted is kept until its objects are gone.
//
// A write of a CRD returns when it is in the catalog: clients can create objects immediately
// after it.
package definitions
