// Package espalier is the root of a module that does to Kubernetes-style objects
// what the CustomResourceDefinition system does: prune, default, validate.
//
// It exports nothing yet. The engine is package espalier.dev/schema; the types of
// schemas and CustomResourceDefinitions are in espalier.dev/api.
package espalier
