package snapshot

import "golang.org/x/sys/unix"

// exchange exchanges two directories atomically.
func exchange(a, b string) error { return unix.RenamexNp(a, b, unix.RENAME_SWAP) }
