//go:build unix

package render

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// program writes a shell script and returns its path.
func program(t *testing.T, script string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestRunFaults runs programs that fail in several ways.
func TestRunFaults(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		command Command
		want    string
	}{
		"missing":   {Command{Program: "espalier-no-such-program"}, "espalier-no-such-program is not in PATH: executable file not found in $PATH"},
		"hangs":     {Command{Program: program(t, "sleep 600\n"), Timeout: time.Second}, "did not end within 1s"},
		"endless":   {Command{Program: program(t, "while echo 0123456789; do :; done\n"), MaxOutput: 1 << 20}, "it renders more than 1 MiB"},
		"message":   {Command{Program: program(t, "echo 'Error: no good' >&2; exit 3\n")}, "program: no good"},
		"no reason": {Command{Program: program(t, "exit 3\n")}, "program: exit status 3"},
		"killed":    {Command{Program: program(t, "kill -9 $$\n")}, "program: signal: killed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, err := Run(t.Context(), test.command); err == nil || !strings.HasSuffix(err.Error(), test.want) {
				t.Errorf("got %q, %v, want %s", out, err, test.want)
			}
		})
	}
}

// TestRunConfined runs programs that need much memory, and that look for a network. Other systems than Linux, and some
// containers, cannot keep them from it.
func TestRunConfined(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux limits the memory of programs")
	}
	const large = "sleep 0.2; head -c 300000000 /dev/zero | tail -c 200000000 > /dev/null || { echo 'fatal error: runtime: out of memory' >&2; exit 2; }\n"
	if out, err := Run(t.Context(), Command{Program: program(t, large), MaxMemory: 64 << 20}); err == nil || !strings.HasSuffix(err.Error(), "it needs more than 64 MiB of memory") {
		t.Errorf("got %q, %v", out, err)
	}
	if out, err := Run(t.Context(), Command{Program: program(t, large)}); err != nil {
		t.Errorf("got %q, %v", out, err)
	}
	if exec.Command("unshare", "-n", "true").Run() != nil && exec.Command("unshare", "-Un", "true").Run() != nil {
		t.Skip("the user may not create network namespaces")
	}
	network := program(t, "readlink /proc/self/ns/net\n")
	with, err := Run(t.Context(), Command{Program: network, Network: true})
	if err != nil {
		t.Fatal(err)
	}
	if without, err := Run(t.Context(), Command{Program: network}); err != nil || bytes.Equal(with, without) {
		t.Errorf("the network is %q with Network and %q without, %v", with, without, err)
	}
}

// TestRunCancelled cancels a run whose child ignores signals and has a child itself: none of them is
// left.
func TestRunCancelled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := program(t, "trap '' TERM INT HUP\nsh -c 'trap \"\" TERM INT HUP; echo $$ > "+dir+"/child; while :; do sleep 1; done' &\nwait\n")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var child int
	go func() {
		defer cancel()
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			data, _ := os.ReadFile(filepath.Join(dir, "child"))
			if child, _ = strconv.Atoi(strings.TrimSpace(string(data))); child > 0 {
				return
			}
		}
	}()
	if _, err := Run(ctx, Command{Program: script}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-ctx.Done()
	if child <= 0 {
		t.Fatal("the program has not started")
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		// A zombie that nobody waits for is gone as well.
		status, _ := os.ReadFile("/proc/" + strconv.Itoa(child) + "/stat")
		if err := syscall.Kill(child, 0); errors.Is(err, syscall.ESRCH) || strings.Contains(string(status), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			_ = syscall.Kill(child, syscall.SIGKILL)
			t.Fatalf("process %d is left", child)
		}
	}
}

// TestCache renders once, and again after a run that was cancelled.
func TestCache(t *testing.T) {
	t.Parallel()
	var c Cache
	runs, rendered := 0, 0
	c.Rendered = func() { rendered++ }
	get := func(ctx context.Context) {
		if _, err := c.Get(ctx, "x", func() ([]byte, error) { runs++; return nil, ctx.Err() }); !errors.Is(err, ctx.Err()) {
			t.Errorf("got %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	get(ctx)
	get(t.Context())
	get(t.Context())
	if runs != 2 || rendered != 1 {
		t.Errorf("got %d runs, %d rendered", runs, rendered)
	}
}

// TestRemoveAbandoned removes old directories, and neither new ones nor others.
func TestRemoveAbandoned(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	long := time.Now().Add(-maxTempAge - time.Hour)
	for _, name := range []string{tempPrefix + "new", tempPrefix + "old", "other"} {
		path := filepath.Join(temp, name)
		err := errors.Join(os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(path, "Chart.yaml"), nil, 0o600))
		if !strings.HasSuffix(name, "new") {
			err = errors.Join(err, os.Chtimes(path, long, long))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	removeAbandoned(temp)
	if left, err := filepath.Glob(filepath.Join(temp, "*")); err != nil || len(left) != 2 || filepath.Base(left[0]) != tempPrefix+"new" {
		t.Errorf("%q are left, %v", left, err)
	}
}

// TestEnvironment limits the memory of programs, unless the user has set a limit.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ given, want string }{{"A=b", "A=b GOGC=400 GOMEMLIMIT=1GiB"}, {"GOMEMLIMIT=2GiB", "GOMEMLIMIT=2GiB GOGC=400"}} {
		if got := strings.Join(Command{Env: []string{test.given}, Network: true}.environment(), " "); got != test.want {
			t.Errorf("got %s, want %s", got, test.want)
		}
	}
}
