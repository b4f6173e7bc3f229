//go:build !js

// Command wasm is the engine of the web page for static hosts, as WebAssembly.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "this program runs in a browser: build it with make web")
	os.Exit(2)
}
