// Package assist knows what an editor shows while a manifest is typed: completion, hover, where a
// field is defined and used, and edits that fix findings. It serves a language server and a web
// page, and does no I/O.
//
// A document is in the midst of being written, so it need not parse. [Locate] finds the place of the
// cursor in any text: the path to it, and whether a key or a value is being typed. [Complete],
// [HoverAt] and [SchemaAt] then ask the schema at that path. An [Env] has what they need to know of
// the world: the version of the CRD or built-in kind that the document is of, the other kinds and
// objects in the workspace, and the cost of CEL rules.
//
// In a CRD, [FieldAt] finds the field that a schema describes, and [Field.In] where an object has it.
// [Fixes] returns edits for a finding about an object.
//
// All offsets are bytes.
package assist
