// Package yamledit changes YAML and JSON documents in place: it replaces, adds, removes,
// renames, moves and copies values at JSON pointers, and leaves comments, order, quoting and
// indentation of all other text unchanged.
//
// It applies each edit twice: to the text, at the positions that package yamlx returns, and
// to the value. It never returns a text that does not have the edited value.
package yamledit
