package kubectl

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"espalier.dev/internal/program"
)

const repository = "../../.."

// TestReadme follows the quick start of the server in the README: it starts the server and
// runs the commands, which must print the documented output. There are two deviations: the
// program is built first and run in an empty directory with the examples, and it listens on a
// free port.
func TestReadme(t *testing.T) {
	t.Parallel()
	blocks := quickStart(t)
	if len(blocks) < 3 {
		t.Fatalf("the README should have three blocks about the server (start, commands, output), got %q", blocks)
	}
	serve, commands, want := strings.Fields(blocks[0]), blocks[1], blocks[2]
	if len(serve) < 4 || serve[0] != "go" || serve[1] != "run" {
		t.Fatalf("the README starts the server with %q", blocks[0])
	}

	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "examples"), os.DirFS(filepath.Join(repository, "examples"))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	espalier := program.Path(t, program.Complete)

	server := exec.CommandContext(ctx, espalier, append(serve[3:], "--secure-port=0")...)
	server.Dir = dir
	var log bytes.Buffer
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- server.Wait() }()
	kubeconfig := filepath.Join(dir, "espalier-data", "kubeconfig")
	for {
		if _, err := os.Stat(kubeconfig); err == nil {
			break
		}
		select {
		case err := <-exited:
			t.Fatalf("the server exited with %v:\n%s", err, log.Bytes())
		case <-time.After(10 * time.Millisecond):
		}
	}

	env := append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "KUBECONFIG=") }),
		"PATH="+binDir+string(filepath.ListSeparator)+os.Getenv("PATH"), "HOME="+t.TempDir())
	run := func(commands string, env ...string) string {
		shell := exec.CommandContext(ctx, "sh", "-eu")
		shell.Dir = dir
		shell.Stdin = strings.NewReader(commands)
		shell.Env = env
		out, err := shell.CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s\n%s", err, commands, out)
		}
		return string(out)
	}
	equal(t, run(commands, env...), want)
	// Further blocks are commands for the same server.
	for _, commands := range blocks[3:] {
		run(commands, append(slices.Clip(env), "KUBECONFIG="+kubeconfig)...)
	}

	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-exited; err != nil {
		t.Errorf("the server exited with %v:\n%s", err, log.Bytes())
	}
	contains(t, log.String(), "export KUBECONFIG="+kubeconfig)
}

// quickStart returns the code blocks without a language in the README's section about the
// server.
func quickStart(t *testing.T) (blocks []string) {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join(repository, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(readme), "\n## The server\n")
	if !ok {
		t.Fatal("the README has no section on the server")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for i, part := range strings.Split("\n"+section, "\n```") {
		// Every second part is a block; its first line names the language.
		if block, ok := strings.CutPrefix(part, "\n"); ok && i%2 == 1 {
			blocks = append(blocks, block+"\n")
		}
	}
	return blocks
}
