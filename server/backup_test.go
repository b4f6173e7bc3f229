package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"espalier.dev/server/etcd"
	"espalier.dev/server/keys"
	"espalier.dev/server/snapshot"
)

// putSemantics makes an etcd one that a server has used.
func putSemantics(t *testing.T, endpoint string) {
	t.Helper()
	c, err := etcd.Connect(t.Context(), etcd.Endpoints{URLs: []string{endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Put(t.Context(), keys.NewRoot("/registry").Semantics(), "kep"); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestBackupSources backs up the data of all kinds of servers.
func TestBackupSources(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, data := range map[string]string{
		"short": filepath.Join(dir, "d"),
		"long":  filepath.Join(dir, strings.Repeat("d", 120)), // the socket is elsewhere
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // requests to members that do not answer take some seconds
			lock, err := lockDataDir(data)
			if err != nil {
				t.Fatal(err)
			}
			m, err := etcd.Start(t.Context(), etcd.Config{Dir: filepath.Join(data, "etcd"), UnsafeNoFsync: true})
			if err != nil {
				t.Fatal(err)
			}
			putSemantics(t, m.Endpoint())
			o := NewOptions()
			o.DataDir = data
			path := filepath.Join(t.TempDir(), "backup.db")
			if got, err := Backup(t.Context(), o, BackupOptions{Path: path}); err != nil || got.Keys != 1 {
				t.Errorf("running: %+v (%v)", got, err)
			}
			external := NewOptions()
			external.DataDir = t.TempDir()
			external.Etcd.URLs = []string{"unix://" + filepath.Join(dir, "nobody"), m.Endpoint()}
			if got, err := Backup(t.Context(), external, BackupOptions{Path: path, Force: true}); err != nil || got.Keys != 1 {
				t.Errorf("external, one member down: %+v (%v)", got, err)
			}
			m.Close()
			if _, err := Backup(t.Context(), o, BackupOptions{Path: path, Force: true}); err == nil {
				t.Error("a backup of a server whose etcd does not answer")
			}
			if err := lock.Close(); err != nil {
				t.Fatal(err)
			}
			if got, err := Backup(t.Context(), o, BackupOptions{Path: path, Force: true}); err != nil || got.Keys != 1 {
				t.Errorf("stopped: %+v (%v)", got, err)
			}
			// The last backup that succeeded is complete, and restores to where no server was.
			o.DataDir = filepath.Join(t.TempDir(), "a", "b")
			if _, err := Restore(t.Context(), o, RestoreOptions{Path: path, Bump: snapshot.Bump, DryRun: true}); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(o.DataDir); !os.IsNotExist(err) {
				t.Errorf("a dry run has created the directory: %v", err)
			}
			if _, err := Restore(t.Context(), o, RestoreOptions{Path: path, Bump: snapshot.Bump}); err != nil {
				t.Error(err)
			}
			if info, err := os.Stat(filepath.Join(o.DataDir, "etcd", "member")); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("%v %v", info, err)
			}
		})
	}
}
