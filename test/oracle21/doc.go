// Command oracle21 is the reference of version 0.21, the last one that serves v1beta1: the Go
// packages of kube-apiserver 1.21, behind a pipe. They cannot be built together with the
// current ones, which package espalier.dev/test/oracle uses, so they are a separate module
// and process. The tests that use it are in the module below,
// espalier.dev/test/oracle21/compare.
//
// It reads one request from each line of its input and writes one answer to each line of its
// output, in the same order. Both are JSON. A request has an "op":
//
//	{"op":"convert","crd":{…}}
//	    reads a CustomResourceDefinition of either version, fills in its defaults and
//	    converts it: "v1beta1" and "v1".
//	{"op":"create","crd":{…}}
//	    the same as a POST does to it in the version that it is written in: "errors",
//	    and the object in both versions.
//	{"op":"update","old":{…},"crd":{…}}
//	    the same for a PUT that replaces old, which is taken as it is, status included.
//	{"op":"structural","schema":{…}}
//	    is a schema structural: "error" if it has no structural form, else "errors".
//	{"op":"objects","schema":{…},"group":…,"version":…,"kind":…,"namespaced":…,"preserve":…,"objects":[…]}
//	    what the server does to objects of a custom resource: each of "objects" has an
//	    "object" and may have "old", the stored object that it replaces, or
//	    "fromStorage". Each of the "results" has "error" if the object was not decoded,
//	    else the decoded "object" and the "errors" of validation.
//
// Errors have "field", "type", "detail" and "text", as k8s.io/apimachinery writes them, and
// "value" if the bad value is JSON and not a Go structure. A request that cannot be read is
// answered with "error", and a panic with "panic".
//
// Feature gates are as they were in 1.21.
package main
