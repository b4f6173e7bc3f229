package process

import "syscall"

// attributes returns the attributes of new processes. They end with this one, and have a process group of their
// own: signals of the terminal are for this process, which ends them in order.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
