// Package publish tells clients what the server serves: discovery, in its old form of a
// list for each group and version and in its new form of one list for all
// (apidiscovery.k8s.io), and OpenAPI in versions 2 and 3.
//
// Everything follows from the Catalog, and is made when somebody asks. What was made is
// kept as long as it holds: the lists as long as the Catalog is the same, an OpenAPI
// document as long as the definitions that it describes are. A definition is published
// while it is established, in the versions that it serves.
package publish
