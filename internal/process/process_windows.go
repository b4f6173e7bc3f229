package process

import (
	"os"
	"syscall"
)

// attributes returns the attributes of new processes.
func attributes(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// limitMemory does nothing.
func limitMemory(*os.Process, uint64) {}

// terminate ends a process: it cannot be asked.
func terminate(p *os.Process) error { return p.Kill() }

// killGroup does nothing: there are no groups of processes.
func killGroup(*os.Process) {}
