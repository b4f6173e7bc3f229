package input

import "syscall"

// dropPrivileges makes the file system treat the current thread as an ordinary user.
func dropPrivileges() error { return syscall.Setfsuid(65534) }
