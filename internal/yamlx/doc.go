// Package yamlx reads streams of YAML and JSON documents: each document's value as
// JSON text, exactly the value that sigs.k8s.io/yaml (and so kubectl) gives it, the
// place of every node in the file, and edits that leave all other text as it is.
//
// There are two ways to the value. The plain subset of YAML that nearly all
// manifests are written in is read in one pass that writes JSON as it goes and
// builds nothing. Whatever is unusual (anchors, tags, complex keys, errors) is left
// to go.yaml.in/yaml/v2, the library that sigs.k8s.io/yaml stands on, which
// therefore decides what it means or why it is wrong.
//
// Places are only looked for when somebody asks: a tree of the document's nodes
// with their offsets is built on the first call of Find or Edit.
package yamlx
