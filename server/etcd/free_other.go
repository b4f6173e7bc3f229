//go:build !linux && !darwin

package etcd

// freeBytes reports that the free space of a file system is unknown.
func freeBytes(string) (uint64, bool) { return 0, false }
