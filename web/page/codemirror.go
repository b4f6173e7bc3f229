//go:build codemirror

package page

import "embed"

// hasBundle is set if the page has CodeMirror.
const hasBundle = true

// bundle is written by make editor.
//
//go:embed bundle/codemirror.js bundle/codemirror-licenses.txt
var bundle embed.FS
