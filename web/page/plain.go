//go:build !codemirror

package page

import "embed"

// hasBundle is set if the page has CodeMirror.
const hasBundle = false

var bundle embed.FS
