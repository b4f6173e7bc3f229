// Package page has the files of the web page, except the engine: HTML, CSS and JavaScript.
//
// The sources are in src. The program test/tools/page compiles them to static, which is committed, so
// that go install needs nothing else; a test beside the program checks that static is current.
//
// The editor of the page is a plain one. With the build tag codemirror it is CodeMirror, from bundle:
// make editor writes it, with packages from npm, which are not in the repository.
package page

import (
	"bytes"
	"embed"
	"errors"
	"io/fs"
)

//go:embed static
var static embed.FS

// Read returns a file of the page. index.html asks for an engine in WebAssembly, espalier.wasm and
// wasm_exec.js, unless its meta element espalier-engine is changed to native.
func Read(name string) ([]byte, error) {
	text, err := static.ReadFile("static/" + name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return bundle.ReadFile("bundle/" + name)
	case name == "index.html" && hasBundle:
		// A script that cannot be loaded leaves the plain editor.
		own := []byte(`<script src="page.js"`)
		text = bytes.Replace(text, own, append([]byte("<script src=\"codemirror.js\" defer></script>\n"), own...), 1)
	}
	return text, err
}
