package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestEndProcesses makes sure that no process of a suite outlives it: neither if the suite ends
// without stopping its control plane, nor if the run is interrupted.
func TestEndProcesses(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip("there is no program sleep")
	}
	assets := t.TempDir()
	if err := os.Symlink(sleep, filepath.Join(assets, "etcd")); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, rest string
		interrupt  bool
	}{
		{"left", "", false},
		{"interrupted", " wait", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			link, err := linkAssets(assets, dir)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if test.interrupt {
				go func() { // ends when the program runs
					for ctx.Err() == nil {
						if pids, _, err := processes(dir); err != nil || len(pids) > 0 {
							cancel()
						}
						time.Sleep(10 * time.Millisecond)
					}
				}()
			}
			// As in envtest, the program has a process group of its own.
			cmd := exec.Command("bash", "-c", "set -m; "+filepath.Join(link, "etcd")+" 300 >/dev/null 2>&1 &"+test.rest)
			if _, err := runCommand(ctx, cmd); (err != nil) != test.interrupt {
				t.Errorf("the command ends with %v", err)
			}
			// The shell may end before its child has become the program.
			for begin := time.Now(); !test.interrupt && time.Since(begin) < time.Minute; time.Sleep(10 * time.Millisecond) {
				if pids, _, err := processes(dir); err != nil || len(pids) > 0 {
					break
				}
			}
			if names, err := endProcesses(dir); err != nil || strings.Join(names, " ") != "etcd" {
				t.Errorf("ended %v, %v", names, err)
			}
			if pids, _, err := processes(dir); err != nil || len(pids) > 0 {
				t.Errorf("%v still run, %v", pids, err)
			}
		})
	}
}
