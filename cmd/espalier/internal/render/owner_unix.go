//go:build unix

package render

import (
	"io/fs"
	"os"
	"syscall"
)

// isOwn reports whether a file is one of the user.
func isOwn(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
