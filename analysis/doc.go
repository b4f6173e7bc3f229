// Package analysis has the words in which Espalier's tools speak about documents:
// what was found, how bad it is, and what would fix it. Its subpackages know
// things; this one only names them.
//
//   - object: what an API server does to an object, and why
//   - lint: what is wrong, doubtful or ambiguous in CustomResourceDefinitions
//   - fix: definitions rewritten, and what only a person can decide
//   - explain: the documentation of fields, and sample objects
//   - suite: test suites next to a definition
//   - impact: what a change of a definition means for the objects there are
//
// Nothing here does I/O. Places are JSON pointers (RFC 6901) into the document that
// was handed in; whoever read the document knows at which line that is.
package analysis
