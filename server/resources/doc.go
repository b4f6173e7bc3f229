// Package resources serves custom resources: everything between an authorized HTTP
// request and the storage.
//
// A Handler looks a request's resource up in the catalog and hands it to the
// handlers of k8s.io/apiserver, which know REST. What they need to know of the
// resource is made when a version is first asked for: a codec that is the engine's
// Decode, strategies that are the engine's Validate, types for server-side apply
// that are the schema's. A change of the definition makes them anew; requests under way
// finish with the old ones, watches are closed so that clients come back.
//
// Everything served is a Definition, customresourcedefinitions too: what is
// particular to a kind of object is in a Kind, and package definitions has its own.
package resources
