// Package yamledit changes YAML and JSON documents in place: it replaces, adds, removes,
// renames, moves and copies values at JSON pointers, and leaves comments, order, quoting
// and indentation of all other text as they are.
//
// It makes each edit twice: in the text, with the positions that package yamlx gives it,
// and in the value. A text that does not have the edited value is never returned.
package yamledit
