// Package custom serves custom resources, CRDs and virtual resources: everything between an
// authorized HTTP request and the storage. Package builtin serves Kubernetes' own kinds.
//
// A Handler looks up a request's resource in the catalog. Common reads and all writes of custom
// resources have handlers of their own, which avoid the work of decoding, copying and encoding
// objects more than once. All other requests, and all for CRDs, have the handlers of
// k8s.io/apiserver, which package rest chooses. What these need is built when a version is first
// requested: a codec based on the engine's Decode, strategies based on its Validate, and types for
// server-side apply based on the schema. When the CRD changes, they are rebuilt; running requests
// finish with the old ones, and watches are closed so that clients reconnect.
//
// Reads of custom resources as plain JSON do not build objects: a reader answers them with the
// stored bytes (read.go, view.go).
//
// Every served resource is a Definition, including customresourcedefinitions. A Kind
// implements what is specific to one type of object; package definitions has its own.
package custom
