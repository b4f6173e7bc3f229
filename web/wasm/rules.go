//go:build js && wasm && !small

package main

import (
	"espalier.dev/crd/cel"
	kindscel "espalier.dev/kinds/cel"
	"espalier.dev/web/protocol"
)

// options returns the options of the complete engine.
func options() protocol.Options {
	return protocol.Options{Rules: cel.Checker{}, CEL: kindscel.New()}
}
