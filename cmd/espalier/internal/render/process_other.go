//go:build !unix

package render

import "os/exec"

// endGroup has an effect on Unix only: elsewhere the command itself ends, and not what it has
// started.
func endGroup(*exec.Cmd) {}
