//go:build unix

package render

import (
	"os/exec"
	"syscall"
)

// endGroup makes a cancelled command end with all processes that it has started. A process group
// of its own does not get the signals of the terminal: cancelling is how it ends.
func endGroup(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
}
