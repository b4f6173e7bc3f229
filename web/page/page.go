// Package page has the files of the web page, except the engine: HTML, CSS and JavaScript.
//
// The sources are in src. The program test/tools/page compiles them to static, which is committed, so
// that go install needs nothing else; a test beside the program checks that static is current.
package page

import (
	"embed"
	"io/fs"
)

//go:embed static
var static embed.FS

// Files returns the files of the page. index.html asks for an engine in WebAssembly, espalier.wasm and
// wasm_exec.js, unless its meta element espalier-engine is changed to native.
func Files() fs.FS {
	files, err := fs.Sub(static, "static")
	if err != nil {
		panic(err) // the directory is embedded
	}
	return files
}
