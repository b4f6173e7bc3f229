//go:build unix && !linux

package process

import (
	"os"
	"syscall"
)

// attributes returns the attributes of new processes. They have a process group of their own: signals of
// the terminal are for this process, which ends them in order.
func attributes(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// limitMemory does nothing: the limits of another process cannot be changed.
func limitMemory(*os.Process, uint64) {}
