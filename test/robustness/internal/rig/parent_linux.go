package rig

import (
	"os/exec"
	"syscall"
)

// dieWithParent kills the process when the test binary is killed, in which case no cleanup
// runs.
func dieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
