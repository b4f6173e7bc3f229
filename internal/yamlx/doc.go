// Package yamlx reads streams of YAML and JSON documents. It returns each document's value as
// JSON text, exactly as sigs.k8s.io/yaml (and so kubectl) converts it, and the position of
// every node in the file. Package yamledit changes documents.
//
// There are two ways to read a value. The subset of YAML that nearly all manifests use is
// read in one pass, which writes JSON directly and allocates no nodes. Everything else
// (anchors, tags, complex keys, errors) is left to go.yaml.in/yaml/v2, the library below
// sigs.k8s.io/yaml, so that this library decides on values and errors.
//
// The tree of nodes with their offsets is built on the first call of Find or Tree.
package yamlx
