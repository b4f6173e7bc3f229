package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// commitTime is the time of the commits in tests.
const commitTime = "2026-03-04T05:06:07Z"

// newRepository returns a Git repository with a tiny program in place of the product.
func newRepository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"main.go", "server.go", "noserver.go"} {
		text, err := os.ReadFile("testdata/tiny/" + name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, "cmd", "espalier", name), string(text))
	}
	for name, text := range map[string]string{
		"go.mod":                    "module espalier.dev\n\ngo 1.26.0\n",
		"LICENSE":                   "license\n",
		"README.md":                 "# Espalier\n[examples](examples/crontab), [docs](docs/a.md), [site](https://example.com), [below](#below)\n",
		"CHANGELOG.md":              "# Changelog\n\n## [1.2.3]\n[docs](docs/a.md#b)\n\n## [1.2.4]\n\n## [1.2.5]\n",
		"examples/crontab/crd.yaml": "kind: CustomResourceDefinition\n",
		".gitignore":                "/dist/\n",
	} {
		writeFile(t, filepath.Join(dir, name), text)
	}
	if err := os.CopyFS(filepath.Join(dir, "deploy"), os.DirFS("../deploy")); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "init", "--quiet", "--initial-branch=main")
	commit(t, dir, "first")
	return dir
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func commit(t *testing.T, dir, message string) {
	t.Helper()
	git(t, dir, "add", "--all")
	git(t, dir, "commit", "--quiet", "--allow-empty", "--message", message)
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	c := exec.Command("git", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_AUTHOR_DATE="+commitTime,
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_COMMITTER_DATE="+commitTime)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// A result is what a run of the command returned and printed.
type result struct {
	code           int
	stdout, stderr string
}

// run runs the command in the environment env, without that of the test.
func run(t *testing.T, env map[string]string, args ...string) result {
	t.Helper()
	var stdout, stderr buffer
	p := program{func(name string) string { return env[name] }, &stdout, &stderr}
	code := p.run(t.Context(), args)
	return result{code, stdout.String(), stderr.String()}
}

// A buffer accepts concurrent writes, as standard error does.
type buffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string { return b.text.String() }

// writeKey writes a new private key in PEM, and returns the name of the file.
func writeKey(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "key.pem")
	writeFile(t, name, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	return name
}

func ed25519Key(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// mustRun runs the command and fails the test if the command fails.
func mustRun(t *testing.T, env map[string]string, args ...string) result {
	t.Helper()
	r := run(t, env, args...)
	if r.code != 0 {
		t.Fatalf("release %s: exit code %d\n%s", strings.Join(args, " "), r.code, r.stderr)
	}
	return r
}

// files returns the contents of the files in dir.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(data)
	}
	return all
}
