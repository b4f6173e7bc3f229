package gomod_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"espalier.dev/internal/gomod"
)

// TestDir finds a module with an empty module cache.
func TestDir(t *testing.T) {
	out, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		t.Fatal(err)
	}
	cache, proxies, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	t.Setenv("GOPROXY", "file://"+filepath.Join(cache, "cache", "download")+","+proxies)
	t.Setenv("GOMODCACHE", t.TempDir())
	t.Setenv("GOFLAGS", "-modcacherw") // so that it can be removed
	dir, err := gomod.Dir("", "sigs.k8s.io/yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "LICENSE")); err != nil {
		t.Error(err)
	}
	if dir, err := gomod.Dir("", "example.com/unknown"); err == nil || !strings.Contains(err.Error(), "example.com/unknown") {
		t.Errorf("a module on which nothing depends: %q, %v", dir, err)
	}
}
