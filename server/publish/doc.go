// Package publish serves discovery and OpenAPI: discovery as a list for each group and
// version and as one aggregated list (apidiscovery.k8s.io), and OpenAPI v2 and v3.
//
// Everything is derived from the Catalog on request. Results are cached as long as they are
// valid: the lists as long as the Catalog is the same, an OpenAPI document as long as its
// CRDs are. An established CRD is published in the versions that it serves.
package publish
