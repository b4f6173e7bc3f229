package kubectl

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"espalier.dev/internal/pages"
	"espalier.dev/internal/program"
)

var update = flag.Bool("update", false, "write the output of commands into the pages below docs")

// TestDocs follows the pages below docs that need a server, from top to bottom, in a shell. There is one
// deviation: servers listen on a free port. The tests of cmd/espalier follow the other pages.
func TestDocs(t *testing.T) {
	t.Parallel()
	root := pages.Root(t)
	followed := 0
	for _, p := range pages.Below(t, root, "docs") {
		if !p.NeedsServer() {
			continue
		}
		followed++
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := p.Prepare(root, dir); err != nil {
				t.Fatal(err)
			}
			espalier := program.Path(t, program.Complete)
			s := &shell{dir: dir, env: append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "KUBECONFIG=") }),
				"PATH="+binDir+string(filepath.ListSeparator)+filepath.Dir(espalier)+string(filepath.ListSeparator)+os.Getenv("PATH"), "HOME="+t.TempDir())}
			p.Run(t, pages.Runner{Dir: dir, Run: s.run, Start: s.start, Update: *update, Path: filepath.Join(root, filepath.FromSlash(p.Name))})
		})
	}
	if followed == 0 {
		t.Error("no page needs a server")
	}
}

// A shell runs the commands of a page one by one.
type shell struct {
	dir string
	env []string
	// settings are the lines that change the shell itself, for the commands that follow.
	settings []string
}

func (s *shell) run(t *testing.T, line string) string {
	t.Helper()
	if strings.HasPrefix(line, "export ") || strings.HasPrefix(line, "cd ") {
		s.settings = append(s.settings, line)
		return ""
	}
	c := s.command(t, line)
	// The exit code is not compared: commands that report problems exit with 1.
	out, _ := c.CombinedOutput()
	return string(out)
}

// start starts a server, which stops at the end of the test, and waits for a file.
func (s *shell) start(t *testing.T, line, file string) {
	t.Helper()
	c := s.command(t, "exec "+line+" --secure-port=0")
	var log bytes.Buffer
	c.Stdout, c.Stderr = &log, &log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- c.Wait() }()
	t.Cleanup(func() {
		if err := c.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := <-exited; err != nil {
			t.Errorf("%s: %v\n%s", line, err, log.Bytes())
		}
	})
	deadline := time.Now().Add(time.Minute)
	for {
		if _, err := os.Stat(filepath.Join(s.dir, file)); err == nil {
			return
		}
		select {
		case err := <-exited:
			exited <- err
			t.Fatalf("%s: %v\n%s", line, err, log.Bytes())
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: there is no %s after a minute", line, file)
		}
	}
}

func (s *shell) command(t *testing.T, line string) *exec.Cmd {
	t.Helper()
	c := exec.Command("sh", "-c", strings.Join(append(slices.Clone(s.settings), line), "\n"))
	c.Dir, c.Env = s.dir, s.env
	return c
}
