package process

import (
	"fmt"
	"os"
	"strings"
	"testing"
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

// alive reports whether a process exists.
func alive(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(status), ") Z ") // a zombie has ended
}
