package kubectl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"espalier.dev/espaliertest"
)

// binDir holds kubectl, once TestMain has built it.
var binDir string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "kubectl-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		// Releases set the version at link time, and `kubectl version` needs one.
		const version = "-w -X k8s.io/component-base/version.gitVersion=v1.37.2"
		build := exec.Command("go", "build", "-ldflags", version, "-o", filepath.Join(dir, "kubectl"), "./kubectl")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build kubectl: %v\n%s", err, out)
			return 1
		}
		binDir = dir
		return m.Run()
	}())
}

// timeout bounds one run of kubectl.
const timeout = time.Minute

// session is a working directory with a server that kubectl is configured for.
type session struct {
	dir    string
	env    []string
	server *espaliertest.Server
}

// newSession starts a server with the CRD in testdata.
func newSession(t *testing.T, opts ...espaliertest.Option) *session {
	t.Helper()
	server := espaliertest.Start(t, opts...)
	s := sessionOf(t, server)
	s.ok(t, "create", "-f", s.testdata(t, "crd.yaml"))
	s.ok(t, "wait", "--for=condition=Established", "crd/backups.storage.example.com", "--timeout=30s")
	return s
}

func sessionOf(t *testing.T, server *espaliertest.Server) *session {
	t.Helper()
	s := &session{dir: t.TempDir(), server: server}
	s.env = append(os.Environ(), "KUBECONFIG="+server.Kubeconfig(), "HOME="+s.dir, "KUBECACHEDIR="+filepath.Join(s.dir, "cache"))
	return s
}

func (s *session) testdata(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// command prepares a run of kubectl that ends with the test at the latest.
func (s *session) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, filepath.Join(binDir, "kubectl"), args...)
	cmd.Dir, cmd.Env = s.dir, s.env
	return cmd
}

// run runs kubectl and returns its output and exit code.
func (s *session) run(t *testing.T, args ...string) (string, int) {
	t.Helper()
	cmd := s.command(t, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// ok runs kubectl, which must succeed, and returns its output.
func (s *session) ok(t *testing.T, args ...string) string {
	t.Helper()
	out, code := s.run(t, args...)
	if code != 0 {
		t.Fatalf("kubectl %s exited with %d:\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// fails runs kubectl, which must fail with an output that contains want.
func (s *session) fails(t *testing.T, want string, args ...string) {
	t.Helper()
	out, code := s.run(t, args...)
	if code == 0 || code < 0 {
		t.Fatalf("kubectl %s exited with %d, want a failure with %q:\n%s", strings.Join(args, " "), code, want, out)
	}
	contains(t, out, want)
}

// write writes a file and returns its path.
func (s *session) write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// editor returns the session with a shell script as the editor.
func (s *session) editor(t *testing.T, script string) *session {
	t.Helper()
	path := s.write(t, "editor.sh", "#!/bin/sh\n"+script+"\n")
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	with := *s
	with.env = append(append([]string{}, s.env...), "KUBE_EDITOR="+path)
	return &with
}

// backup writes a file with a Backup; spec is the content of its spec, indented.
func (s *session) backup(t *testing.T, name, spec string) string {
	t.Helper()
	return s.write(t, name+".yaml", fmt.Sprintf(`apiVersion: storage.example.com/v1
kind: Backup
metadata:
  name: %s
spec:
%s
`, name, spec))
}

// created creates a Backup.
func (s *session) created(t *testing.T, name, spec string) {
	t.Helper()
	s.ok(t, "create", "-f", s.backup(t, name, spec))
}

// field returns the result of a JSONPath on a Backup.
func (s *session) field(t *testing.T, name, path string) string {
	t.Helper()
	return s.ok(t, "get", "backup", name, "-o", "jsonpath="+path)
}

func equal(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func contains(t *testing.T, out string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(out, w) {
			t.Errorf("%q is not in:\n%s", w, out)
		}
	}
}

// columns normalizes the spaces of a table without spaces in its cells, and drops ages.
func columns(table string) string {
	var lines []string
	for line := range strings.Lines(table) {
		words := strings.Fields(line)
		lines = append(lines, strings.Join(words, " "))
	}
	return strings.Join(lines, "\n")
}
