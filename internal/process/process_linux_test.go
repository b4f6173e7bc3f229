package process

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestKilledParent kills a process that has started another one: both end.
func TestKilledParent(t *testing.T) {
	t.Parallel()
	var out output
	parent, err := Start(program("parent", &out))
	if err != nil {
		t.Fatal(err)
	}
	var child int
	await(t, "the child", func() bool {
		line, _, ok := strings.Cut(out.String(), "\n")
		_, err := fmt.Sscanf(line, "child %d", &child)
		return ok && err == nil
	})
	if !alive(child) {
		t.Fatal("the child has ended")
	}
	if err := parent.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	await(t, "the end of the child", func() bool { return !alive(child) })
}

// TestOffline runs a program that connects to this machine.
func TestOffline(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var out output
	connect := program("connect", &out)
	connect.Env = append(connect.Env, "PROCESS_TEST_ADDRESS="+l.Addr().String())
	if err := Run(t.Context(), connect, 0); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	namespaces := exec.Command("/bin/true")
	namespaces.SysProcAttr = attributes(true)
	if err := namespaces.Run(); err != nil {
		t.Skipf("the user may not create network namespaces: %v", err)
	}
	connect.Offline = true
	if err := Run(t.Context(), connect, 0); err == nil || !strings.Contains(out.String(), "network is unreachable") {
		t.Errorf("%v: %s", err, out.String())
	}
}

// alive reports whether a process exists.
func alive(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(status), ") Z ") // a zombie has ended
}

// TestGroup ends programs that have started another one, which ignores signals: both end.
func TestGroup(t *testing.T) {
	t.Parallel()
	ways := map[string]func(*Process){
		"stop": func(p *Process) { p.Stop(time.Minute) },
		"kill": (*Process).Kill,
		"exit": func(p *Process) { // by itself
			if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
			<-p.Done()
		},
	}
	for name, end := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const script = `(trap "" TERM; while :; do sleep 1; done) & echo "child $!"; wait`
			var out output
			p, err := Start(Program{Name: "shell", Path: "/bin/sh", Args: []string{"-c", script}, Stdout: &out})
			if err != nil {
				t.Fatal(err)
			}
			var child int
			await(t, "the child", func() bool {
				_, err := fmt.Sscanf(out.String(), "child %d\n", &child)
				return err == nil
			})
			t.Cleanup(func() { _ = syscall.Kill(child, syscall.SIGKILL) }) // if the test fails
			end(p)
			await(t, "the end of the child", func() bool { return !alive(child) })
		})
	}
}
