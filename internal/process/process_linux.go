package process

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes returns the attributes of new processes. They end with this one, and have a process group of their
// own: signals of the terminal are for this process, which ends them in order. Those that are offline have a network
// of their own, in which nothing can be reached.
func attributes(offline bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if !offline {
		return a
	}
	a.Cloneflags = syscall.CLONE_NEWNET
	// Only root may create one, or a user in a user namespace. In that, root could not read files of others.
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	}
	return a
}

// limitMemory limits the memory that a process can write to.
func limitMemory(p *os.Process, bytes uint64) {
	_ = unix.Prlimit(p.Pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: bytes, Max: bytes}, nil) // it may have ended
}
