// Package protocol answers the requests of the web page: what happens to an object, what a CRD
// specifies, what changes between two CRDs. A request and its answer are JSON values.
//
// An [Engine] answers the same requests in a browser, compiled to WebAssembly, and in the command
// espalier ui. It does no I/O: requests carry the texts. The answers come from the packages below
// analysis, so that the page says what the command line says. The Engine keeps the CRDs that were
// used last in compiled form, because most requests differ in the object only.
//
// Input is hostile: a page shows what a link contains. Texts have a maximum size, answers have a
// maximum length, and the context of a request ends it.
//
// Offsets in requests and answers count UTF-16 code units, as strings in a browser do.
package protocol
