// Command oracle36 is the reference for Kubernetes' own kinds: the registry strategies of
// kube-apiserver 1.36, behind a pipe. They cannot be built together with the k8s.io modules
// that Espalier uses, so they are a separate module and process. The tests that use it are in
// espalier.dev/test/oracle.
//
// It reads one request from each line of its input and writes one answer to each line of its
// output, in the same order. Both are JSON. A request has an "op":
//
//	{"op":"default","apiVersion":"v1","resource":"pods","object":{…}}
//	    decodes an object and fills in its defaults: "object".
//	{"op":"create","apiVersion":"v1","resource":"pods","namespace":"default","object":{…}}
//	    what a POST does to an object before it is stored.
//	{"op":"update",…,"subresource":"status","object":{…},"old":{…}}
//	    the same for a PUT that replaces old, a stored object.
//	{"op":"admit","plugin":"Priority","operation":"CREATE",…,"object":{…},"old":{…},"existing":[…]}
//	    one admission plugin on a write of an object, with the objects that exist. It may have a
//	    "configuration".
//	{"op":"quota","operation":"CREATE",…,"object":{…},"old":{…},"existing":[…]}
//	    charges a write to the quotas that exist: "object" has what is "charged" then, and what the
//	    other objects that exist use, as it is "counted".
//	{"op":"rbac","existing":[…],"attributes":[{"user":{…},"verb":…,"resource":…},…]}
//	    "decisions" of the RBAC authorizer about requests, with the roles and bindings that
//	    exist. Attributes with "rules" ask whether the user may grant them in a namespace.
//	{"op":"policy"}
//	    "objects": the roles and bindings that a server has from the start.
//	{"op":"review","apiVersion":"authorization.k8s.io/v1","resource":"subjectaccessreviews","object":{…}}
//	    the answer to a review. Its authorizer decides by the verb: allow, deny, fail, others.
//	{"op":"table","object":{"apiVersion":"v1","kind":"Pod",…}}
//	    "table": the columns and the row of an object; "object": the object with its defaults.
//	{"op":"resources"}
//	    "resources": the API group, resource, kind, scope and subresources of all that it knows.
//	{"op":"fields"}
//	    "fields": the JSON names of the fields of each Go type.
//
// A request may have "user" (name, uid, groups, extra) and, for a create, the "uid" that the
// object gets. Its creation time is always that of the constant creationTime, and a generated
// name ends in the constant generatedSuffix.
//
// An answer has either the "object" as it would be stored, in the storage version, or "error",
// the message of the Status, with its "reason", its "code" and its causes as "errors" (type,
// field, message). "warnings" are those of the strategy. A panic is answered with "panic", and
// a request that cannot be understood with "badRequest".
//
// Objects are decoded as the API server does it without strict field validation. Feature
// gates have their defaults, and privileged containers are allowed.
package main
