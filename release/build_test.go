package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

// platforms are those that tests build: the host, and one with zip archives.
func platforms() string {
	return runtime.GOOS + "/" + runtime.GOARCH + ",windows/amd64"
}

func TestBuild(t *testing.T) {
	t.Parallel()
	dir := newRepository(t)
	out := filepath.Join(dir, "dist", "v1.2.3")
	key := writeKey(t, ed25519Key(t))
	args := func(source, out string) []string {
		return []string{"build", "--version", "v1.2.3", "--source", source, "--output", out, "--platforms", platforms(), "--key", key,
			"--base-url", "https://example.com/releases/", "--image", "example.com/espalier", "--builder", "https://example.com/builder"}
	}
	mustRun(t, nil, args(dir, out)...)
	got := files(t, out)
	host := "_1.2.3_" + runtime.GOOS + "_" + runtime.GOARCH + ".tar.gz"
	for _, name := range []string{"espalier" + host, "espalier-cli" + host,
		"espalier_1.2.3_windows_amd64.zip", "espalier-cli_1.2.3_windows_amd64.zip", checksumsFile,
		"espalier" + host + ".cdx.json", "espalier_1.2.3_windows_amd64.zip.cdx.json", "espalier-chart-1.2.3.tgz", "espalier-kubernetes-1.2.3.yaml", "espalier.yaml",
		"espalier.json", provenanceFile, envelopeFile, signatureFile, publicKeyFile} {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is missing in %v", name, slices.Sorted(maps.Keys(got)))
		}
	}

	t.Run("checksums", func(t *testing.T) {
		lines := strings.Split(strings.TrimSpace(got[checksumsFile]), "\n")
		listed := map[string]bool{}
		for _, line := range lines {
			sum, name, _ := strings.Cut(line, "  ")
			listed[name] = true
			if want := sha256.Sum256([]byte(got[name])); sum != hex.EncodeToString(want[:]) {
				t.Errorf("%s: SHA-256 is %x, %s lists %s", name, want, checksumsFile, sum)
			}
		}
		for name := range got {
			if name != checksumsFile && name != signatureFile && !listed[name] {
				t.Errorf("%s is not in %s", name, checksumsFile)
			}
		}
	})

	t.Run("clean up", func(t *testing.T) {
		entries, err := os.ReadDir(filepath.Dir(out))
		if err != nil || len(entries) != 1 {
			t.Errorf("left beside the output: %v, %v", entries, err)
		}
	})

	t.Run("reproducible", func(t *testing.T) {
		clone := filepath.Join(t.TempDir(), "another", "directory")
		git(t, dir, "clone", "--quiet", dir, clone)
		second := filepath.Join(t.TempDir(), "out")
		mustRun(t, nil, args(clone, second)...)
		same(t, got, files(t, second))
	})

	t.Run("packages", func(t *testing.T) {
		if runtime.GOOS != "linux" {
			t.Skip("only Linux has packages and images")
		}
		for _, name := range []string{"espalier_1.2.3_" + runtime.GOARCH + ".deb", "espalier-cli_1.2.3_" + runtime.GOARCH + ".deb",
			"espalier_1.2.3_oci.tar", "espalier.rb"} {
			if _, ok := got[name]; !ok {
				t.Errorf("%s is missing", name)
			}
		}
	})
	t.Run("provenance", func(t *testing.T) { checkProvenance(t, got, git(t, dir, "rev-parse", "HEAD")) })
	t.Run("sbom", func(t *testing.T) { checkSBOM(t, got["espalier"+host+".cdx.json"]) })
	t.Run("verify", func(t *testing.T) { checkVerify(t, out, key, git(t, dir, "rev-parse", "HEAD")) })
	t.Run("tar.gz", func(t *testing.T) { checkTarGz(t, filepath.Join(out, "espalier"+host)) })
	t.Run("zip", func(t *testing.T) { checkZip(t, filepath.Join(out, "espalier_1.2.3_windows_amd64.zip")) })
}

// same compares the files of two releases.
func same(t *testing.T, a, b map[string]string) {
	t.Helper()
	if x, y := slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b)); !slices.Equal(x, y) {
		t.Fatalf("different files: %v and %v", x, y)
	}
	for name := range a {
		if x, y := a[name], b[name]; x != y {
			i := 0
			for i < min(len(x), len(y)) && x[i] == y[i] {
				i++
			}
			t.Errorf("%s differs at byte %d of %d and %d", name, i, len(x), len(y))
		}
	}
}

// archived lists the files of an archive of the tiny program, without the program.
func archived() []string {
	return []string{"CHANGELOG.md", "LICENSE", "README.md", "THIRD-PARTY-LICENSES", "completions/_espalier", "completions/espalier.bash",
		"completions/espalier.fish", "completions/espalier.ps1", "examples/crontab/crd.yaml", "man/man1/espalier.1"}
}

func checkTarGz(t *testing.T, name string) {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if !z.ModTime.IsZero() || z.Name != "" {
		t.Errorf("gzip header has a time or a name: %v", z.Header)
	}
	var names []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		mode := int64(0o644)
		if h.Name == "espalier" {
			mode = 0o755
		}
		if h.Mode != mode || h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.ModTime.UTC().Format(time.RFC3339) != commitTime {
			t.Errorf("%s: mode %o, uid %d, gid %d, user %q, time %s", h.Name, h.Mode, h.Uid, h.Gid, h.Uname, h.ModTime)
		}
		text, _ := io.ReadAll(r)
		switch h.Name {
		case "man/man1/espalier.1":
			if want := ".TH ESPALIER 1 1772600767\n"; string(text) != want { // the time of the commit
				t.Errorf("manual page %q, expected %q", text, want)
			}
		case "README.md": // docs is not in the archive
			if want := "# Espalier\n[examples](examples/crontab), docs, [site](https://example.com), [below](#below)\n"; string(text) != want {
				t.Errorf("README.md is\n%s, expected\n%s", text, want)
			}
		case "CHANGELOG.md":
			if want := "# Changelog\n\n## [1.2.3]\ndocs\n\n## [1.2.4]\n\n## [1.2.5]\n"; string(text) != want {
				t.Errorf("CHANGELOG.md is\n%s, expected\n%s", text, want)
			}
		case "THIRD-PARTY-LICENSES":
			if !bytes.Contains(text, []byte("\nstd go1.")) || !bytes.Contains(text, []byte("Redistribution and use")) {
				t.Errorf("the license of the standard library is missing:\n%s", text)
			}
		}
	}
	if want := slices.Sorted(slices.Values(append(archived(), "espalier"))); !slices.Equal(names, want) {
		t.Errorf("%s has\n%q, expected\n%q", name, names, want)
	}
}

func checkZip(t *testing.T, name string) {
	z, err := zip.OpenReader(name)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	var names []string
	for _, f := range z.File {
		names = append(names, f.Name)
		if f.Modified.UTC().Format(time.RFC3339) != commitTime {
			t.Errorf("%s: time %s", f.Name, f.Modified)
		}
		if want := f.Name == "espalier.exe"; f.Mode()&0o100 != 0 != want {
			t.Errorf("%s: mode %s", f.Name, f.Mode())
		}
	}
	if want := slices.Sorted(slices.Values(append(archived(), "espalier.exe"))); !slices.Equal(names, want) {
		t.Errorf("%s has\n%q, expected\n%q", name, names, want)
	}
}

// An ignored file that changes the program if it is compiled must not be part of it.
func TestBuildOnlyCommitted(t *testing.T) {
	t.Parallel()
	dir := newRepository(t)
	writeFile(t, filepath.Join(dir, ".gitignore"), "/dist/\nignored.go\n")
	commit(t, dir, "ignore")
	writeFile(t, filepath.Join(dir, "cmd", "espalier", "ignored.go"), "package main\n\nvar version = 1\n")
	mustRun(t, nil, "build", "--version", "v1.2.3", "--source", dir, "--output", filepath.Join(dir, "dist", "x"),
		"--platforms", runtime.GOOS+"/"+runtime.GOARCH, "--flavors", "espalier", "--unsigned")
}

func TestImageName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"espalier": true, "espalier.dev/espalier": true, "localhost:5000/a/b-c__d.e": true, "user/espalier": true,
		"": false, "espalier:1": false, "example.com/Espalier": false, "example.com/": false, "https://example.com/e": false,
		"a b": false, "example.com/espalier@sha256:00": false, "a\nb": false,
	} {
		if got := imageName().MatchString(name); got != want {
			t.Errorf("%q: %t, expected %t", name, got, want)
		}
	}
}

func TestDefaultBuilder(t *testing.T) {
	t.Parallel()
	env := map[string]string{"GITHUB_SERVER_URL": "https://github.com", "GITHUB_WORKFLOW_REF": "o/r/.github/workflows/release.yml@refs/tags/v1.2.3"}
	p := program{getenv: func(name string) string { return env[name] }}
	if got, want := p.defaultBuilder(), "https://espalier.dev/release/local"; got != want {
		t.Errorf("elsewhere: %s, expected %s", got, want)
	}
	env["GITHUB_ACTIONS"] = "true"
	if got, want := p.defaultBuilder(), "https://github.com/o/r/.github/workflows/release.yml@refs/tags/v1.2.3"; got != want {
		t.Errorf("GitHub Actions: %s, expected %s", got, want)
	}
}

func TestSourceDateEpoch(t *testing.T) {
	t.Parallel()
	p := program{getenv: func(string) string { return "86400" }}
	if d, err := p.sourceDate(time.Now()); err != nil || d.Format(time.RFC3339) != "1970-01-02T00:00:00Z" {
		t.Errorf("SOURCE_DATE_EPOCH=86400: %v, %v", d, err)
	}
}

func TestBuildErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		// prepare changes the repository, and may change the arguments and the environment.
		prepare func(t *testing.T, dir string, env map[string]string) (args []string)
		code    int
		message string
	}{
		{"no version", func(*testing.T, string, map[string]string) []string { return []string{"--version", ""} }, 2,
			"a version is required, for example v1.0.0"},
		{"no v", func(*testing.T, string, map[string]string) []string { return []string{"--version", "1.0.0"} }, 2,
			`"1.0.0" is no version of a release: use vX.Y.Z or vX.Y.Z-PRE`},
		{"incomplete version", func(*testing.T, string, map[string]string) []string { return []string{"--version", "v1.0"} }, 2,
			`"v1.0" is no version of a release`},
		{"build metadata", func(*testing.T, string, map[string]string) []string { return []string{"--version", "v1.0.0+x"} }, 2,
			`"v1.0.0+x" is no version of a release`},
		{"pseudo-version", func(*testing.T, string, map[string]string) []string {
			return []string{"--version", "v0.0.0-20260304050607-0123456789ab"}
		}, 2, "is a pseudo-version, which names a commit and no release"},
		{"unknown platform", func(*testing.T, string, map[string]string) []string { return []string{"--platforms", "linux/z80"} }, 2,
			`unknown platform "linux/z80": use one or more of linux/amd64,linux/arm64,darwin/amd64`},
		{"unknown flavor", func(*testing.T, string, map[string]string) []string { return []string{"--flavors", "vanilla"} }, 2,
			`unknown flavor "vanilla"`},
		{"unknown flag", func(*testing.T, string, map[string]string) []string { return []string{"--fast"} }, 2, "-fast"},
		{"argument", func(*testing.T, string, map[string]string) []string { return []string{"x"} }, 2, `build takes no arguments: "x"`},
		{"base URL", func(*testing.T, string, map[string]string) []string { return []string{"--base-url", "releases"} }, 2,
			`--base-url "releases" must be an http or https URL`},
		{"image with a tag", func(*testing.T, string, map[string]string) []string {
			return []string{"--image", "example.com/espalier:1"}
		}, 2,
			`--image "example.com/espalier:1" must be the name of an image without a tag or digest`},
		{"builder", func(*testing.T, string, map[string]string) []string { return []string{"--builder", "me"} }, 2,
			`--builder "me" must be a URI`},
		{"no key", func(*testing.T, string, map[string]string) []string { return nil }, 2,
			"no signing key: use --key FILE or SIGNING_KEY, cosign with an OIDC token of the environment, or --unsigned"},
		{"key does not exist", func(*testing.T, string, map[string]string) []string { return []string{"--key", "missing.pem"} }, 2,
			"read the key: open missing.pem"},
		{"no key in file", func(_ *testing.T, dir string, _ map[string]string) []string {
			return []string{"--key", filepath.Join(dir, "LICENSE")}
		}, 2, "LICENSE: no private key in PEM: create a key with openssl genpkey -algorithm ed25519"},
		{"no key in SIGNING_KEY", func(_ *testing.T, _ string, env map[string]string) []string {
			env["SIGNING_KEY"] = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"
			return nil
		}, 2, "SIGNING_KEY: no private key, only PUBLIC KEY"},
		{"key and unsigned", func(*testing.T, string, map[string]string) []string { return []string{"--key", "x", "--unsigned"} }, 2,
			"--key and --unsigned exclude each other"},
		{"changed file", func(t *testing.T, dir string, _ map[string]string) []string {
			writeFile(t, filepath.Join(dir, "LICENSE"), "changed\n")
			return nil
		}, 2, "the working tree differs from the commit: commit, remove or ignore these files\n   M LICENSE"},
		{"not in the changelog", func(*testing.T, string, map[string]string) []string { return []string{"--version", "v1.2.6"} }, 2,
			`CHANGELOG.md has no section "## [1.2.6]"`},
		{"untracked file", func(t *testing.T, dir string, _ map[string]string) []string {
			writeFile(t, filepath.Join(dir, "new", "file"), "x\n")
			return nil
		}, 2, "?? new/file"},
		{"tag elsewhere", func(t *testing.T, dir string, _ map[string]string) []string {
			git(t, dir, "tag", "-a", "-m", "x", "v1.2.3")
			commit(t, dir, "second")
			return nil
		}, 2, "the tag v1.2.3 exists at "},
		{"no repository", func(t *testing.T, _ string, _ map[string]string) []string { return []string{"--source", t.TempDir()} }, 2,
			"is in no Git repository"},
		{"SOURCE_DATE_EPOCH", func(_ *testing.T, _ string, env map[string]string) []string {
			env["SOURCE_DATE_EPOCH"] = "yesterday"
			return nil
		}, 2, `SOURCE_DATE_EPOCH is "yesterday"`},
		{"output exists", func(t *testing.T, dir string, _ map[string]string) []string {
			writeFile(t, filepath.Join(dir, "dist", "old", "keep"), "x")
			return []string{"--output", filepath.Join(dir, "dist", "old")}
		}, 2, "old exists: remove it, or select another directory with --output"},
		{"output in a file", func(_ *testing.T, dir string, _ map[string]string) []string {
			return []string{"--output", filepath.Join(dir, "LICENSE", "out")}
		}, 2, "LICENSE"},
		{"program does not compile", func(t *testing.T, dir string, _ map[string]string) []string {
			writeFile(t, filepath.Join(dir, "cmd", "espalier", "broken.go"), "package main\n\nvar x int = \"\"\n")
			commit(t, dir, "break")
			return nil
		}, 1, "build espalier for "},
		{"program without main.version", func(t *testing.T, dir string, _ map[string]string) []string {
			name := filepath.Join(dir, "cmd", "espalier", "main.go")
			text, _ := os.ReadFile(name)
			writeFile(t, name, strings.Replace(string(text), "var version,", `const version = "devel"`+"\n\nvar", 1))
			commit(t, dir, "break")
			return nil
		}, 1, `the program reports version "devel"`},
		{"program without the tag noserver", func(t *testing.T, dir string, _ map[string]string) []string {
			writeFile(t, filepath.Join(dir, "cmd", "espalier", "server.go"), "package main\n\nconst server = \"true\"\n")
			if err := os.Remove(filepath.Join(dir, "cmd", "espalier", "noserver.go")); err != nil {
				t.Fatal(err)
			}
			commit(t, dir, "break")
			return nil
		}, 1, `espalier-cli: the program reports server: true, expected false: the build tag "noserver`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir, env := newRepository(t), map[string]string{}
			args := append([]string{"build", "--version", "v1.2.3", "--source", dir, "--output", filepath.Join(dir, "dist", "out"),
				"--platforms", runtime.GOOS + "/" + runtime.GOARCH}, c.prepare(t, dir, env)...)
			if !strings.Contains(c.name, "key") {
				args = append(args, "--unsigned")
			}
			r := run(t, env, args...)
			if r.code != c.code || !strings.Contains(r.stderr, c.message) {
				t.Errorf("exit code %d, expected %d:\n%s\nexpected: %s", r.code, c.code, r.stderr, c.message)
			}
			if c.name == "output exists" {
				if _, err := os.Stat(filepath.Join(dir, "dist", "old", "keep")); err != nil {
					t.Error(err)
				}
				return
			}
			if _, err := os.Stat(filepath.Join(dir, "dist")); !os.IsNotExist(err) {
				t.Errorf("something was written to dist: %v", err)
			}
		})
	}
}

// CI releases from a tag at HEAD.
func TestTagAtHead(t *testing.T) {
	t.Parallel()
	dir := newRepository(t)
	git(t, dir, "tag", "-a", "-m", "x", "v1.2.3")
	git(t, dir, "tag", "v1.2.4")
	for _, version := range []string{"v1.2.3", "v1.2.4", "v1.2.5"} {
		_, c, err := checkSource(t.Context(), dir, version)
		if err != nil || c.Hash != git(t, dir, "rev-parse", "HEAD") || c.Time.Format(time.RFC3339) != commitTime {
			t.Errorf("%s: %v, %v", version, c, err)
		}
	}
}

func TestNoGit(t *testing.T) {
	dir := newRepository(t)
	t.Setenv("PATH", t.TempDir())
	r := run(t, nil, "build", "--version", "v1.2.3", "--source", dir, "--output", filepath.Join(dir, "dist", "out"), "--unsigned")
	if r.code != 2 || !strings.Contains(r.stderr, "git not found in PATH") {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
}

func TestUnwritableOutput(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("root can write to any directory")
	}
	dir := newRepository(t)
	closed := t.TempDir()
	if err := os.Chmod(closed, 0o555); err != nil {
		t.Fatal(err)
	}
	r := run(t, nil, "build", "--version", "v1.2.3", "--source", dir, "--output", filepath.Join(closed, "out"), "--unsigned")
	if r.code != 2 || !strings.Contains(r.stderr, "permission denied") {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
}

// An interrupt while the program is compiled leaves nothing.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	dir := newRepository(t)
	out := filepath.Join(dir, "dist", "out")
	ctx, cancel := context.WithCancel(t.Context())
	var stderr cancelWriter
	stderr.cancel = cancel
	p := program{func(string) string { return "" }, io.Discard, &stderr}
	code := p.run(ctx, []string{"build", "--version", "v1.2.3", "--source", dir, "--output", out, "--unsigned"})
	if code != 1 || !strings.Contains(stderr.String(), "interrupted, nothing was written") {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
	if _, err := os.Stat(filepath.Join(dir, "dist")); !os.IsNotExist(err) {
		t.Errorf("something is left in dist: %v", err)
	}
}

// A cancelWriter calls cancel when the first build is logged.
type cancelWriter struct {
	buffer
	cancel context.CancelFunc
}

func (w *cancelWriter) Write(p []byte) (int, error) {
	if strings.HasPrefix(string(p), "build ") {
		w.cancel()
	}
	return w.buffer.Write(p)
}

// The page of released programs has CodeMirror, and the archives have its licenses.
func TestBuildEditor(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("npm is not installed")
	}
	dir := newRepository(t)
	const licenses = "@codemirror/view 6.0.0 (MIT)"
	for name, text := range map[string]string{
		"web/page/codemirror/package.json":      `{"name": "editor", "private": true}`,
		"web/page/codemirror/package-lock.json": `{"name": "editor", "lockfileVersion": 3, "packages": {"": {"name": "editor"}}}`,
		"test/tools/go.mod":                     "module espalier.dev/test/tools\n\ngo 1.26.0\n",
		"test/tools/page/main.go": "package main\n\nimport \"os\"\n\nfunc main() {\n\tdir := os.Args[2] + \"/web/page/bundle\"\n" +
			"\tif os.Args[1] != \"-editor\" || os.MkdirAll(dir, 0o755) != nil || os.WriteFile(dir+\"/codemirror-licenses.txt\", []byte(\"" + licenses + "\\n\"), 0o644) != nil {\n" +
			"\t\tpanic(\"not written\")\n\t}\n}\n",
	} {
		writeFile(t, filepath.Join(dir, name), text)
	}
	commit(t, dir, "editor")
	host := runtime.GOOS + "/" + runtime.GOARCH
	for _, plain := range []bool{false, true} {
		out := filepath.Join(dir, "dist", fmt.Sprint(plain))
		mustRun(t, nil, "build", "--version", "v1.2.3", "--source", dir, "--output", out, "--platforms", host, "--unsigned", fmt.Sprintf("--plain=%t", plain))
		for _, flavor := range []string{"espalier", "espalier-cli"} {
			archive := filepath.Join(out, flavor+"_1.2.3_"+runtime.GOOS+"_"+runtime.GOARCH+".tar.gz")
			program := filepath.Join(t.TempDir(), "espalier")
			for _, file := range []struct{ name, want string }{{"THIRD-PARTY-LICENSES", licenses}, {"espalier", ""}} {
				text := archivedFile(t, archive, file.name)
				if file.want != "" && bytes.Contains(text, []byte(file.want)) == plain {
					t.Errorf("%s, plain %t: %s", archive, plain, text)
				}
				if file.name == "espalier" {
					if err := os.WriteFile(program, text, 0o755); err != nil {
						t.Fatal(err)
					}
				}
			}
			info, err := buildinfo.ReadFile(program)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == "-tags" })
			if has := i >= 0 && strings.Contains(info.Settings[i].Value, "codemirror"); has == plain {
				t.Errorf("%s, plain %t: settings %v", archive, plain, info.Settings)
			}
		}
		if text, err := os.ReadFile(filepath.Join(out, provenanceFile)); err != nil || bytes.Contains(text, []byte(`"plain": true`)) != plain {
			t.Errorf("plain %t: provenance %s, %v", plain, text, err)
		}
	}
}

// archivedFile returns a file of a .tar.gz archive.
func archivedFile(t *testing.T, archive, name string) []byte {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err != nil {
			t.Fatalf("%s: %s: %v", archive, name, err)
		}
		if h.Name == name {
			text, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
	}
}
