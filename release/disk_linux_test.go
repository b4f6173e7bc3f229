package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// A full disk is an error that names it, and leaves nothing.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	})
	r := run(t, nil, "build", "--version", "v1.2.3", "--source", newRepository(t), "--output", filepath.Join(disk, "out"), "--unsigned",
		"--platforms", runtime.GOOS+"/"+runtime.GOARCH)
	if r.code != 1 || !strings.Contains(r.stderr, "no space left on device") {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
	if entries, err := os.ReadDir(disk); err != nil || len(entries) > 0 {
		t.Errorf("left on the disk: %v, %v", entries, err)
	}
}
