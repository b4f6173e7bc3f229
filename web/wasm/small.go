//go:build js && wasm && small

package main

import "espalier.dev/web/protocol"

// options returns the options of the engine that a page starts with: without CEL it is loaded in a
// fraction of the time, and answers until the complete one is there.
func options() protocol.Options { return protocol.Options{} }
