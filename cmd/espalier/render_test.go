package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestRenderSignal terminates the program while helm hangs: neither helm nor a copy of the chart is
// left.
func TestRenderSignal(t *testing.T) {
	t.Parallel()
	bin, temp, p := t.TempDir(), t.TempDir(), newPlace(t)
	started := filepath.Join(bin, "started")
	if err := syscall.Mkfifo(started, 0o600); err != nil {
		t.Skip(err)
	}
	writeFile(t, filepath.Join(bin, "helm"), []byte("#!/bin/sh\ntrap '' TERM INT\necho $$ > "+started+"\nwhile :; do sleep 1; done\n"))
	if err := os.Chmod(filepath.Join(bin, "helm"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.write("Chart.yaml", "name: c\n")
	program := startIn(t, p.dir, nil, []string{"TMPDIR=" + temp, "PATH=" + bin + ":/usr/bin:/bin"}, "validate", ".")
	hangs := make(chan error, 1)
	go func() {
		_, err := os.ReadFile(started) // it waits for helm
		hangs <- err
	}()
	select {
	case err := <-hangs:
		if err != nil {
			t.Fatal(err)
		}
	case <-program.exited:
		t.Fatalf("exits with %s", &program.stderr)
	case <-time.After(time.Minute):
		t.Fatal("helm is not started")
	}
	if err := program.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := program.exit(t); code != 143 {
		t.Errorf("exits with %d: %s", code, &program.stderr)
	}
	if entries, err := os.ReadDir(temp); err != nil || len(entries) > 0 {
		t.Errorf("%v is left, %v", entries, err)
	}
}
