//go:build linux || darwin

package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckOwner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "etcd"), 0o700); err != nil {
		t.Fatal(err)
	}
	me := os.Geteuid()
	for _, user := range []int{me, 0} {
		if err := checkOwner(dir, user); err != nil {
			t.Errorf("user %d: %v", user, err)
		}
	}
	if err := checkOwner(dir, me+1); err == nil || !strings.Contains(err.Error(), "chown -R") {
		t.Errorf("another user: error %v, expected what to do", err)
	}
	if err := checkOwner(filepath.Join(dir, "missing"), me+1); err != nil {
		t.Errorf("a directory that does not exist: %v", err)
	}
	// Links and the directory itself may belong to anybody.
	link := filepath.Join(t.TempDir(), "data")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := checkOwner(link, me+1); err == nil || !strings.Contains(err.Error(), filepath.Join(link, "etcd")+" belongs to") {
		t.Errorf("etcd of another user: error %v, expected its path", err)
	}
	if err := os.Remove(filepath.Join(dir, "etcd")); err != nil {
		t.Fatal(err)
	}
	if err := checkOwner(link, me+1); err != nil {
		t.Errorf("an empty directory: %v", err)
	}
}

// TestPermission checks what users read that may not enter the data directory.
func TestPermission(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root has full access")
	}
	o := NewOptions()
	o.DataDir = filepath.Join(t.TempDir(), "data")
	if err := os.MkdirAll(filepath.Join(o.etcdDir(), "member"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(o.DataDir, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(o.DataDir, 0o700) })
	if _, err := Backup(t.Context(), o, BackupOptions{}); err == nil || !strings.Contains(err.Error(), o.etcdDir()+": permission denied") {
		t.Errorf("backup: %v", err)
	}
	if _, err := lockDataDir(o.DataDir); err == nil || !strings.Contains(err.Error(), "no permission to use the data directory "+o.DataDir) {
		t.Errorf("serve: %v", err)
	}
	if err := checkOwner(o.DataDir, os.Geteuid()+1); err == nil || !strings.Contains(err.Error(), o.DataDir+" belongs to") {
		t.Errorf("a directory of another user: %v", err)
	}
}
