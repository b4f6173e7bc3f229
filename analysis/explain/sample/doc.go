// Package sample generates valid objects of a CustomResourceDefinition: a minimal one with
// the required fields, and a full one with every field.
//
// It first generates an object from the schema alone: defaults, examples, enums, bounds,
// formats, and strings that match a pattern. Then it validates the object as the API server
// does, including CEL rules, and repairs it: each violation suggests a few edits, and the
// edits that reduce the violations are kept. The search is bounded. If it fails, the best
// attempt is returned with the remaining violations.
package sample
