package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"espalier.dev/cluster/internal/controlplane"
)

func TestParse(t *testing.T) {
	t.Setenv(controlplane.Variable, "")
	for _, c := range []struct {
		args string
		want *options
		err  string
	}{
		{args: "", want: &options{nodes: 3}},
		{args: "--nodes 5 --storage memory", want: &options{nodes: 5, serve: []string{"--storage", "memory"}}},
		{args: "--nodes=0 --v=2 --stages=s.yaml --components c --espalier=e -v 1",
			want: &options{stages: "s.yaml", components: "c", espalier: "e", serve: []string{"--v=2", "-v", "1"}}},
		{args: "--nodes 5000", want: &options{nodes: 5000}},
		{args: "--nodes 5001", err: `--nodes is "5001": must be a number, 0 to 5000`},
		{args: "--nodes -1", err: `--nodes is "-1": must be a number, 0 to 5000`},
		{args: "--nodes=many", err: `--nodes is "many": must be a number, 0 to 5000`},
		{args: "--nodes=", err: `--nodes is "": must be a number, 0 to 5000`},
		{args: "--nodes", err: "--nodes needs a value"},
		{args: "--nodes 99999999999999999999", err: `--nodes is "99999999999999999999": must be a number, 0 to 5000`},
		{args: "--stages", err: "--stages needs a value"},
		{args: "--stages=", err: "--stages is empty: must be a file"},
		{args: "--nodes 4 --help", err: errHelp.Error()},
		{args: "-h", err: errHelp.Error()},
	} {
		got, err := parse(strings.Fields(c.args))
		if text := errorText(err); text != c.err || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %q", c.args, got, text)
		}
	}
	t.Setenv(controlplane.Variable, "from-environment")
	if o, err := parse(nil); err != nil || o.components != "from-environment" {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := parse([]string{"--components=flag"}); err != nil || o.components != "flag" {
		t.Errorf("%+v, %v", o, err)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestKeys finds the files of the server that flags name, and those in its data directory.
func TestKeys(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"ca.crt", "ca.key", "service-accounts/1.key", "service-accounts/2.key", "service-accounts/other.pub"} {
		path := filepath.Join(dir, "pki", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	in := func(name string) string { return filepath.Join(dir, "pki", name) }
	all := controlplane.Keys{CACert: in("ca.crt"), CAKey: in("ca.key"), ServiceAccountKey: in("service-accounts/2.key")}
	for args, want := range map[string]controlplane.Keys{
		"--data-dir " + dir:                      all,
		"--data-dir=elsewhere --data-dir=" + dir: all,
		"--data-dir=" + dir + " --ca-cert-file a --ca-key-file=b --service-account-signing-key-file c": {CACert: "a", CAKey: "b", ServiceAccountKey: "c"},
		"--data-dir=" + filepath.Join(dir, "missing"):                                                  {},
	} {
		o, err := parse(strings.Fields(args))
		if err != nil {
			t.Fatal(err)
		}
		if got := o.keys(); got != want {
			t.Errorf("%s: %+v", args, got)
		}
	}
	o, err := parse(nil)
	if wd, _ := os.Getwd(); err != nil || o.logs() != filepath.Join(wd, "espalier-data", "cluster") {
		t.Errorf("%s, %v", o.logs(), err)
	}
}

// TestControllers reads the flag --controllers of the server.
func TestControllers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "*"},
		{[]string{"--controllers="}, ""},
		{[]string{"--controllers", "", "--v=1"}, ""},
		{[]string{"--controllers", "*,-namespace"}, "* -namespace"},
		{[]string{"--controllers=namespace", "--v=1", "--controllers", "resourcequota,serviceaccount"}, "namespace resourcequota serviceaccount"},
	} {
		o, err := parse(c.args)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(o.controllers(), " "); got != c.want {
			t.Errorf("%q: %q", c.args, got)
		}
	}
}

// TestAnnouncement reads what the server prints, in pieces.
func TestAnnouncement(t *testing.T) {
	const text = `The API server is ready at https://127.0.0.1:6443. To use it:

  export KUBECONFIG='/tmp/it'\''s here/kubeconfig'
  kubectl get customresourcedefinitions

Objects are in memory: nothing is kept when the server stops.

`
	for _, size := range []int{1, 7, len(text)} {
		a := newAnnouncement()
		for piece := range slices.Chunk([]byte(text), size) {
			if _, err := a.Write(piece); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-a.ready:
		default:
			t.Fatal("it is not ready")
		}
		if a.url != "https://127.0.0.1:6443" || a.kubeconfig != "/tmp/it's here/kubeconfig" || a.quoted != `'/tmp/it'\''s here/kubeconfig'` {
			t.Errorf("%+v", a)
		}
		if got := strings.TrimSpace(a.rest()); got != "Objects are in memory: nothing is kept when the server stops." {
			t.Errorf("%q", got)
		}
	}
	if got := unquote("/plain/path"); got != "/plain/path" {
		t.Error(got)
	}
}

// TestBadInput checks errors before anything is started.
func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--nodes", "-1"}, exitUsage, `cluster: --nodes is "-1": must be a number, 0 to 5000`},
		{[]string{"--components", missing}, exitFailure, "cluster: the components binary cannot be used: stat " + missing},
		{[]string{"--components", dir}, exitFailure, "cluster: the components binary " + dir + " is not a regular file"},
		{[]string{"--components", plain}, exitFailure, "cluster: the components binary cannot be executed: "},
		{[]string{"--components", program, "--espalier", plain}, exitFailure, "cluster: --espalier cannot be executed: "},
		{[]string{"--components", program, "--espalier", program, "--stages", missing}, exitFailure, "cluster: read stages: stat " + missing},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), c.args, &stdout, &stderr); code != c.code || !strings.HasPrefix(stderr.String(), c.want) || stdout.Len() > 0 {
			t.Errorf("%q: exit code %d\n%s%s", c.args, code, stdout.String(), stderr.String())
		}
	}
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"--help"}, &stdout, &stderr); code != exitSuccess || stdout.String() != help || stderr.Len() > 0 {
		t.Errorf("exit code %d\n%s%s", code, stdout.String(), stderr.String())
	}
}

// TestHash changes with the files that are built, and not with others.
func TestHash(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	hash := func() string {
		t.Helper()
		h, err := hashFiles(dir)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	write("main.go", "package main")
	before := hash()
	write("main_test.go", "package main")
	if hash() != before {
		t.Error("a test changes it")
	}
	write("go.sum", "x")
	if hash() == before {
		t.Error("go.sum does not change it")
	}
	if _, err := hashFiles(filepath.Join(dir, "missing")); err == nil {
		t.Error("a directory that does not exist has a hash")
	}
	if v := version("components"); len(v) != 2 || !strings.HasPrefix(v[1], "k8s.io/component-base/version.gitVersion=v1.") {
		t.Errorf("the version is %q", v)
	}
	source, err := sourceDirectory()
	if wd, _ := os.Getwd(); err != nil || source != wd {
		t.Errorf("the source is %s, %v", source, err)
	}
}

// TestBuild builds a package, and reports the errors of the compiler.
func TestBuild(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := &launcher{stderr: new(bytes.Buffer)}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.com/program\n")
	write("main.go", "package main\n\nfunc main() {}\n")
	path := filepath.Join(dir, "cache", "program")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := l.build(t.Context(), dir, ".", path, "Building"); err != nil {
		t.Fatal(err)
	}
	if err := controlplane.CheckBinary(path); err != nil {
		t.Error(err)
	}
	write("main.go", "package main\n\nfunc main() { undefined() }\n")
	if err := l.build(t.Context(), dir, ".", path, "Building"); err == nil || !strings.Contains(err.Error(), "undefined: undefined") {
		t.Errorf("%v", err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}
