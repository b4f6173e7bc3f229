package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"espalier.dev/internal/program"
)

// TestNoServer compares the program without the server with the complete one.
func TestNoServer(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	t.Parallel()
	program := program.Path(t, program.CLI)
	t.Run("methods", func(t *testing.T) {
		t.Parallel()
		var out bytes.Buffer
		if code := runProgram(t, "", []string{"go", "build", "-buildvcs=false", "-tags", "noserver,grpcnotrace", "-ldflags=-dumpdep", "-o", os.DevNull, "."},
			nil, &out, &out); code != 0 {
			t.Fatalf("go build exits with %d: %s", code, out.Bytes()[:min(out.Len(), 10_000)])
		}
		// -dumpdep prints the symbols that are linked. Reflection that may call any method, as
		// text/template does, would keep all methods of all types: 14 MB.
		dumped := out.String()
		if !strings.Contains(dumped, "main.main ") {
			t.Error("the linker did not print what it links")
		}
		if i := strings.Index(dumped, "<ReflectMethod>"); i >= 0 {
			t.Errorf("a function keeps the linker from leaving out unused methods: %s", dumped[strings.LastIndexByte(dumped[:i], '\n')+1:i])
		}
	})
	run := func(t *testing.T, args ...string) (code int, stdout, stderr string) {
		var outs, errs bytes.Buffer
		code = runProgram(t, "", append([]string{program}, args...), nil, &outs, &errs)
		return code, outs.String(), errs.String()
	}
	root := newRootCommand(&app{program: "espalier", stderr: io.Discard})
	absent := serverCommands(&app{})
	isAbsent := func(c *cobra.Command) bool {
		for _, a := range absent {
			if a.Name() == c.Name() {
				return true
			}
		}
		return false
	}

	t.Run("absent", func(t *testing.T) {
		t.Parallel()
		const advice = " needs the complete program, and this is espalier-cli, which has no server: install the archive or package espalier of the same release instead, " +
			"or run go install espalier.dev/cmd/espalier@latest"
		for what, lines := range map[string][]string{
			"serve":          {"serve", "serve --data-dir x -v 3", "--semantics kubernetes serve"},
			"kubeconfig":     {"kubeconfig --server https://a"},
			"envtest":        {"envtest", "envtest dir"},
			"backup":         {"backup file --force", "backup"},
			"restore":        {"restore --data-dir x file"},
			"--snapshot":     {"audit --snapshot x.db", "diff testdata/examples/new-crd.yaml --snapshot x.db", "why --snapshot x.db crontabs.stable.example.com/a spec"},
			"--etcd-servers": {"audit --etcd-servers http://127.0.0.1:1 --etcd-prefix /x", "upgrade testdata/examples/release-2 --etcd-servers http://127.0.0.1:1"},
		} {
			for _, line := range lines {
				if code, stdout, stderr := run(t, strings.Fields(line)...); code != 2 || stdout != "" || stderr != "espalier: "+what+advice+"\n" {
					t.Errorf("espalier %s exits with %d: %s%s", line, code, stdout, stderr)
				}
			}
		}
		for _, c := range absent {
			if code, stdout, stderr := run(t, c.Name(), "--help"); code != 0 || !strings.Contains(stdout, c.Name()+advice) || stderr != "" {
				t.Errorf("espalier %s --help exits with %d: %s%s", c.Name(), code, stdout, stderr)
			}
		}
	})
	t.Run("names", func(t *testing.T) {
		t.Parallel()
		if runtime.GOOS == "windows" {
			t.Skip("symbolic links need privileges")
		}
		for _, name := range []string{apiserverName, etcdName} {
			link := filepath.Join(t.TempDir(), name)
			if err := os.Symlink(program, link); err != nil {
				t.Fatal(err)
			}
			var outs, errs bytes.Buffer
			if code := runProgram(t, "", []string{link, "--version"}, nil, &outs, &errs); code != 2 || !strings.HasPrefix(errs.String(), name+": the name "+name+" needs the complete program") {
				t.Errorf("%s exits with %d: %s%s", name, code, &outs, &errs)
			}
		}
	})
	t.Run("help", func(t *testing.T) {
		t.Parallel()
		code, help, stderr := run(t, "--help")
		if code != 0 || !strings.Contains(help, "This is espalier-cli, which has no server: ") {
			t.Errorf("espalier --help exits with %d: %s%s", code, help, stderr)
		}
		_, completions, _ := run(t, "__complete", "")
		dir := t.TempDir()
		if code, _, stderr := run(t, "man", dir); code != 0 {
			t.Errorf("espalier man exits with %d: %s", code, stderr)
		}
		for _, c := range root.Commands() {
			_, err := os.Stat(filepath.Join(dir, "espalier-"+c.Name()+".1"))
			for where, has := range map[string]bool{"the help": strings.Contains(help, "\n  "+c.Name()+" "),
				"the completion": strings.Contains("\n"+completions, "\n"+c.Name()+"\t"), "the manual": err == nil} {
				if has == isAbsent(c) {
					t.Errorf("%s in %s: %t", c.Name(), where, has)
				}
			}
		}
		if _, help, _ := run(t, "audit", "--help"); strings.Count(strings.Join(strings.Fields(help), " "), etcdFlagsNote) != 2 {
			t.Errorf("espalier audit --help does not mark --snapshot and --etcd-servers: %s", help)
		}
		if code, stdout, _ := run(t, "version"); code != 0 || !strings.Contains(stdout, "\n  server      no\n") {
			t.Errorf("espalier version exits with %d: %s", code, stdout)
		}
	})
	for _, line := range []string{
		"validate -R testdata/examples/objects --crd testdata/examples/crontab-crd.yaml",
		"validate --crd testdata/examples/crontab-crd.yaml testdata/examples/crontab-invalid.yaml -o json",
		"validate --policies testdata/examples/policies --crd testdata/examples/crontab-crd.yaml testdata/examples/crontab.yaml testdata/examples/deployment.yaml",
		"validate ../../examples/crontab/web.yaml",
		"lint -R testdata/examples -o json",
		"test testdata/examples/crontab-suite.yaml",
		"test testdata/examples/policy-suite.yaml",
		"diff testdata/examples/old-crd.yaml testdata/examples/new-crd.yaml",
		"explain deployments.spec.template.spec.containers.ports",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := run(t, strings.Fields(line)...)
			wantCode, want, wantErr := runWith(t.Context(), strings.Fields(line)...)
			if code != wantCode || stdout != want || stderr != wantErr {
				t.Errorf("exits with %d:\n%s%s\nwant %d:\n%s%s", code, stdout, stderr, wantCode, want, wantErr)
			}
			if stdout == "" {
				t.Error("there is no output to compare")
			}
		})
	}
}

// etcdFlagsNote is how the program without the server marks flags that need etcd.
const etcdFlagsNote = "(not in espalier-cli)"
