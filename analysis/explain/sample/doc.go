// Package sample makes objects of a CustomResourceDefinition that are valid: a
// minimal one, with what cannot be left out, and a full one, with every field.
//
// An object is first made from the schema alone: defaults, examples, enums, bounds,
// formats, strings that match a pattern. Then it is put to the very checks that a
// server makes, rules in CEL included, and what they find is fixed: each violation
// suggests a few changes, and those that leave less to fix stay. That is a search,
// and it is bounded; where it fails, the best attempt is returned with the
// violations that stand in the way.
package sample
