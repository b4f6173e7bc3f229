// Package typescript writes the types of CRDs as TypeScript interfaces.
//
// The interfaces describe objects as the API server returns them. What TypeScript cannot
// express, such as bounds and patterns, is in the doc comments: see [generate.Doc].
package typescript
