// Package explain explains what a CustomResourceDefinition specifies for a field: its
// documentation, type, default, constraints and rules, and whether unknown fields in it are
// preserved.
//
// [Find] finds the resource for a name, with the shorthands that kubectl accepts.
// [Describe] returns a [Doc]: the description of the resource or one of its fields, as
// data. [Doc.WriteText] prints it.
//
// Package sample generates objects to start from.
package explain
