// Package explain tells what a CustomResourceDefinition says about a field: what it
// is for, what it takes, what is filled in when it is missing, which rules hold,
// and what becomes of fields that nobody specified.
//
// [Find] finds the resource that somebody named, as loosely as kubectl lets them.
// [Describe] gives a [Doc]: everything there is to know about the resource or one of
// its fields, as data. [Doc.WriteText] prints it for people.
//
// Objects to start from are the business of package sample.
package explain
