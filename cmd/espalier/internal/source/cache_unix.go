//go:build unix

package source

import (
	"io/fs"
	"os"
	"syscall"
)

// openFlags let links and pipes in the place of a cached CRD fail.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// isPrivate reports whether only the user can write to a file.
func isPrivate(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid() && info.Mode().Perm()&0o022 == 0
}
