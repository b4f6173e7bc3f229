// Package analysis defines the findings of Espalier's tools: what was found, its severity,
// and how to fix it. Its subpackages produce findings:
//
//   - lookup: the CRD or kind of an object, and what was probably meant if there is none
//   - object: what the API server does to an object, and why
//   - lint: problems in CRDs
//   - fix: rewrites CRDs, and reports what needs a decision
//   - explain: the documentation of fields, and sample objects
//   - assist: completion, hover, definitions and quick fixes for editors
//   - suite: test suites for CRDs and built-in kinds
//   - impact: what a change to a CRD means for stored objects and clients
//
// Nothing here does I/O. Locations are JSON pointers (RFC 6901) into the document; the
// caller maps them to lines.
package analysis
