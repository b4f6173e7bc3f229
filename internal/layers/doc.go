// Package layers defines which packages may import which, and where schema semantics may be
// compared. Its tests enforce these rules on this module.
package layers
