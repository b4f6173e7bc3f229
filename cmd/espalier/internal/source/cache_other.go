//go:build !unix

package source

import "io/fs"

const openFlags = 0

// isPrivate reports whether only the user can write to a file, which its mode does not tell here: the
// directory of caches is that of the user.
func isPrivate(fs.FileInfo) bool { return true }
