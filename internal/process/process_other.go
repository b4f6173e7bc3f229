//go:build unix && !linux

package process

import "syscall"

// attributes returns the attributes of new processes. They have a process group of their own: signals of
// the terminal are for this process, which ends them in order.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
