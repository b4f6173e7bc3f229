package kustomize

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"espalier.dev/cmd/espalier/internal/workdir"
)

// write writes files below a directory. Programs have no extension.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if filepath.Ext(name) == "" {
			mode = 0o755
		}
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRemoteLinks follows links to directories that have been visited, which have an exponential
// number of paths.
func TestRemoteLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"kustomization.yaml":        "resources: [a, b, far]\n",
		"x/y/kustomization.yaml":    "resources: [../base]\n",
		"x/base/kustomization.yaml": "resources: ['https://example.com/x.yaml']\n",
	})
	for link, target := range map[string]string{"a": ".", "b": ".", "far": "x/y"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Skip(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	got, err := Remote(ctx, dir, os.ReadFile)
	if err != nil || strings.Join(got, " ") != "https://example.com/x.yaml" {
		t.Errorf("got %q, %v", got, err)
	}
	cancel()
	if _, err := Remote(ctx, dir, os.ReadFile); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the error of the context", err)
	}
}

// TestRemoteLimit includes more directories than the limit.
func TestRemoteLimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"kustomization.yaml":     "resources: [a, b, a]\n",
		"a/kustomization.yaml":   "resources: [c]\n",
		"a/c/kustomization.yaml": "{}\n",
		"b/kustomization.yaml":   "{}\n",
	})
	if _, err := remote(t.Context(), dir, os.ReadFile, 4); err != nil {
		t.Error(err)
	}
	if _, err := remote(t.Context(), dir, os.ReadFile, 3); err == nil || err.Error() != "it includes more than 3 directories" {
		t.Errorf("got %v", err)
	}
}

// TestBuildArguments builds a directory whose name looks like an option.
func TestBuildArguments(t *testing.T) {
	cwd := t.TempDir()
	const name = "--output=pwned"
	write(t, cwd, map[string]string{
		name + "/kustomization.yaml": "{}\n",
		"one/kustomize":              "#!/bin/sh\necho \"$*\"\n",
		"two/kubectl":                "#!/bin/sh\necho \"$*\"\n",
	})
	for bin, want := range map[string]string{"one": "build ", "two": "kustomize "} {
		t.Setenv("PATH", filepath.Join(cwd, bin))
		want += filepath.Join(cwd, name)
		if got, err := new(Builder).Build(t.Context(), workdir.Dir(cwd), name, os.ReadFile); strings.TrimSpace(string(got)) != want || err != nil {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
}

// TestBuildLimits runs programs that write without end, and one whose child outlives it.
func TestBuildLimits(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"kustomization.yaml": "{}\n",
		"out/kustomize":      "#!/bin/sh\nwhile echo 0123456789012345678901234567890123456789; do :; done\n",
		"err/kustomize":      "#!/bin/sh\ni=0\nwhile [ $i -lt 10000 ]; do echo 0123456789 >&2; i=$((i+1)); done\nexit 1\n",
		"child/kustomize": "#!/bin/sh\n(i=0; while [ ! -e " + dir + "/done ] && [ $i -lt 1200 ]; do sleep 0.1; i=$((i+1)); done) &\n" +
			"touch " + dir + "/started\nwait\n",
	})
	build := func(ctx context.Context, bin string) ([]byte, error) {
		t.Setenv("PATH", filepath.Join(dir, bin)+string(filepath.ListSeparator)+"/usr/bin:/bin")
		b := &Builder{maxOutput: 1 << 20}
		return b.Build(ctx, "", dir, os.ReadFile)
	}
	if _, err := build(t.Context(), "out"); err == nil || err.Error() != "it renders more than 1 MiB" {
		t.Errorf("got %v", err)
	}
	if _, err := build(t.Context(), "err"); err == nil || len(err.Error()) > 5<<10 {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	t.Cleanup(func() { _ = os.WriteFile(filepath.Join(dir, "done"), nil, 0o644) })
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(dir, "started")); err == nil {
				cancel()
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	if _, err := build(ctx, "child"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the error of the context", err)
	}
}

// TestRemoteNested finds what kustomizations load that others include in any way.
func TestRemoteNested(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := map[string]string{"kustomization.yaml": "generators: [g]\ntransformers: [t, missing]\nvalidators: [v.yaml]\n" +
		"components: [c]\nresources: [r.yaml, plain.yaml]\npatches: [{path: p.yaml}]\n", "plain.yaml": "kind: A\n"}
	for _, name := range []string{"g", "t", "v.yaml", "c", "r.yaml", "p.yaml"} {
		files[name+"/kustomization.yaml"] = "resources: ['https://example.com/" + name + "']\n"
	}
	write(t, dir, files)
	got, err := Remote(t.Context(), dir, os.ReadFile)
	want := "https://example.com/c https://example.com/g https://example.com/r.yaml https://example.com/t https://example.com/v.yaml missing"
	if strings.Join(got, " ") != want || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestBuildEnvironment runs kustomize without the network, whatever the user excludes from proxies.
func TestBuildEnvironment(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"kustomization.yaml": "{}\n",
		"bin/kustomize":      "#!/bin/sh\necho \"[$NO_PROXY] [$no_proxy] $https_proxy\"\n",
	})
	t.Setenv("PATH", filepath.Join(dir, "bin"))
	t.Setenv("NO_PROXY", "*")
	t.Setenv("no_proxy", "*")
	for network, want := range map[bool]string{false: "[] [] http://127.0.0.1:9\n", true: "[*] [*] " + os.Getenv("https_proxy") + "\n"} {
		b := &Builder{Network: network}
		if got, err := b.Build(t.Context(), "", dir, os.ReadFile); string(got) != want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
}
