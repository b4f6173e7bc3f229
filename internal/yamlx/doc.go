// Package yamlx reads streams of YAML and JSON documents: each document's value as
// JSON text, exactly the value that sigs.k8s.io/yaml (and so kubectl) gives it, and the
// position of every node in the file. Package yamledit changes documents.
//
// There are two ways to the value. The plain subset of YAML that nearly all
// manifests are written in is read in one pass that writes JSON as it goes and
// builds nothing. Whatever is unusual (anchors, tags, complex keys, errors) is left
// to go.yaml.in/yaml/v2, the library that sigs.k8s.io/yaml stands on, which
// therefore decides what it means or why it is wrong.
//
// The tree of a document's nodes with their offsets is only built on the first call
// of Find or Tree.
package yamlx
