//go:build unix

package lsp

import (
	"errors"

	"golang.org/x/sys/unix"
)

// processExists reports whether a process exists.
func processExists(pid int) bool { return !errors.Is(unix.Kill(pid, 0), unix.ESRCH) }
