package server_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"espalier.dev/server"
	"espalier.dev/server/etcd/kine"
)

// TestKineCrash is TestCrash with kine. The next server in the same directory starts at once.
// One in another directory waits until the lease of the server that was killed expires.
// ESPALIER_KINE is the path of kine; `make kine` builds it and sets the variable.
func TestKineCrash(t *testing.T) {
	if testing.Short() {
		t.Skip("kills servers")
	}
	binary := os.Getenv("ESPALIER_KINE")
	if binary == "" {
		t.Skip("needs kine: run make kine")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "--listen-address", address, "--metrics-bind-address", "0",
		"--endpoint", "sqlite://"+filepath.Join(t.TempDir(), "kine.db")+"?_journal=WAL&cache=shared&_busy_timeout=30000&_txlock=immediate")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if conn, err := net.Dial("tcp", address); err == nil {
			_ = conn.Close()
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatal("kine does not start")
		}
	}
	c := &crash{T: t, dir: t.TempDir(), etcd: "http://" + address, objects: map[string]*crashObject{}, crds: newCrashCRDs()}
	c.run(5)

	rejected := 0
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		o := server.NewOptions()
		o.DataDir, o.SecurePort, o.Etcd.URLs = filepath.Join(t.TempDir(), "other"), 0, []string{c.etcd}
		s, err := server.Start(t.Context(), o)
		if err == nil {
			if err := s.Stop(); err != nil {
				t.Error(err)
			}
			break
		}
		if rejected++; !errors.Is(err, kine.ErrTaken) || time.Since(began) > 6*o.ServerLease {
			t.Fatal(err)
		}
	}
	if rejected == 0 {
		t.Error("a server in another directory has started at once")
	}
}
