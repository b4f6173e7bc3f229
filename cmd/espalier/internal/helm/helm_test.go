package helm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"espalier.dev/cmd/espalier/internal/render"
)

func TestSource(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"---\n# Source: c/templates/a.yaml\nkind: A\n":  "c/templates/a.yaml",
		"# Source: c/crds/a.yaml\r\n":                   "c/crds/a.yaml",
		"---\n\n# Source: c/templates/a.yaml\n":         "c/templates/a.yaml",
		"---\nkind: A\n# Source: c/templates/a.yaml\n":  "",
		"# other\n# Source: c/templates/a.yaml\n":       "",
		"---\nkind: A\ntext: |\n  # Source: c/x.yaml\n": "",
		"": "",
	} {
		if got, _ := Source([]byte(text)); got != want {
			t.Errorf("%q: got %q", text, got)
		}
	}
	for file, want := range map[string]bool{
		"c/crds/a.yaml": true, "c/crds/b/a.yaml": true, "c/charts/sub/crds/a.yaml": true, "c/charts/x/charts/y/crds/a.yaml": true,
		"c/templates/crds/a.yaml": false, "c/charts/crds/templates/a.yaml": false, "crds": false, "c/crds": false, "": false,
	} {
		if InCRDs(file) != want {
			t.Errorf("%s: got %v", file, !want)
		}
	}
}

func TestBelow(t *testing.T) {
	t.Parallel()
	read := func(name string) []byte {
		return map[string][]byte{
			"Chart.yaml":            []byte("dependencies: [{name: sub, alias: alias}, {name: dir, alias: dir2}]"),
			"charts/dir/Chart.yaml": []byte("dependencies: [{name: real, alias: in}]"),
		}[name]
	}
	list := func(dir string) []string {
		if dir == "charts" {
			return []string{"dir", "redis", "sub-1.2.3.tgz", "sub-other-2.0.0.tgz"}
		}
		return nil
	}
	for file, want := range map[string]string{
		"c/templates/a.yaml":                       "templates/a.yaml",
		"c/charts/dir/templates/a.yaml":            "charts/dir/templates/a.yaml",
		"c/charts/sub/templates/a.yaml":            "charts/sub-1.2.3.tgz/templates/a.yaml",
		"c/charts/sub/charts/deep/crds/a.yaml":     "charts/sub-1.2.3.tgz/charts/deep/crds/a.yaml",
		"c/charts/sub-other/templates/a.yaml":      "charts/sub-other-2.0.0.tgz/templates/a.yaml",
		"c/charts/alias/templates/a.yaml":          "charts/sub-1.2.3.tgz/templates/a.yaml",
		"c/charts/dir2/templates/a.yaml":           "charts/dir/templates/a.yaml",
		"c/charts/dir/charts/in/templates/a.yaml":  "charts/dir/charts/real/templates/a.yaml",
		"c/templates/../../../../../../etc/passwd": "../../../../../etc/passwd",
		"c": "c",
	} {
		if got := Below(file, read, list); got != want {
			t.Errorf("%s: got %s, want %s", file, got, want)
		}
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		message, text string
		at            Place
	}{
		{"execution error at (c/templates/a.yaml:3:12): tag is required\n\nUse --debug flag to render out invalid YAML", "tag is required",
			Place{"c/templates/a.yaml", 3, 12}},
		{"template: c/templates/a.yaml:1:3: executing \"c/templates/a.yaml\" at <include \"x\" .>: error calling include: " +
			"template: c/templates/_helpers.tpl:9:4: executing \"x\" at <fail>: error calling fail: no", "executing \"x\" at <fail>: error calling fail: no",
			Place{"c/templates/_helpers.tpl", 9, 4}},
		{"YAML parse error on c/templates/a.yaml: error converting YAML to JSON: yaml: line 3: no",
			"error converting YAML to JSON: yaml: line 3: no", Place{File: "c/templates/a.yaml"}},
		{"parse error at (c/templates/a.yaml:7): unclosed action", "unclosed action", Place{"c/templates/a.yaml", 7, 0}},
		{"values don't meet the specifications of the schema(s) in the following chart(s):\nc:\n- at '/a': missing property 'b'",
			"values don't meet the specifications of the schema(s) in the following chart(s): c: - at '/a': missing property 'b'", Place{}},
		{"one\n\ntwo\n\none", "one two", Place{}},
		{"", "", Place{}},
	} {
		if at, text := Explain(test.message); at != test.at || text != test.text {
			t.Errorf("%q: got %+v, %q", test.message, at, text)
		}
	}
}

// memory is a chart in memory.
type memory map[string]string

func (m memory) Copy(_ context.Context, dir string) error {
	for name, text := range m {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (m memory) CopyDependency(ctx context.Context, at, dir string) error {
	if at != "../lib" {
		return errors.New("no such chart")
	}
	return memory{"Chart.yaml": "name: lib\n"}.Copy(ctx, dir)
}

func (m memory) ReadValues(name string) ([]byte, error) {
	if name == "missing" {
		return nil, os.ErrNotExist
	}
	return []byte("from: " + name + "\n"), nil
}

// fake makes a shell script the only program helm, and an empty directory the place of temporary
// files, which it returns.
func fake(t *testing.T, script string) (temp string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "helm"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	temp = t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+"/usr/bin:/bin")
	return temp
}

func empty(t *testing.T, dir string) {
	t.Helper()
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v is left, %v", entries, err)
	}
}

// TestRenderArguments runs a program that prints what it gets.
func TestRenderArguments(t *testing.T) {
	temp := fake(t, `echo "$*"; echo "$HELM_DRIVER|$HELM_NAMESPACE|$https_proxy|$KUBERNETES_SERVICE_HOST|$GOGC"
for v in HOME HELM_CONFIG_HOME HELM_PLUGINS KUBECONFIG; do eval "echo \$$v" | sed "s|$TMPDIR||; s|/espalier-render-[0-9]*||"; done
cat values-*; ls chart
`)
	t.Setenv("HELM_DRIVER", "sql")
	t.Setenv("HELM_NAMESPACE", "mine")
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
	r := &Renderer{Values: []string{"a,b.yaml", "--post-renderer=x"}, Set: []string{"a=b", "--debug"}, Release: "-x", KubeVersion: "v1.31.0",
		APIVersions: []string{"a/v1"}}
	out, err := r.Render(t.Context(), "name", memory{"Chart.yaml": "name: c\n", "--output-dir=x": ""})
	want := `template --include-crds --namespace=default --kube-version=v1.31.0 --api-versions=apiregistration.k8s.io/v1 ` +
		`--api-versions=apiregistration.k8s.io/v1/APIService --api-versions=a/v1 --values=values-0.yaml --values=values-1.yaml --set=a=b --set=--debug -- -x chart
||http://127.0.0.1:9||400
/home
/home/config
/home/plugins
/home/kubeconfig
from: a,b.yaml
from: --post-renderer=x
--output-dir=x
Chart.yaml
`
	if string(out) != want || err != nil {
		t.Errorf("got %s, %v, want %s", out, err, want)
	}
	empty(t, temp)
	r = &Renderer{Values: []string{"missing"}}
	if _, err := r.Render(t.Context(), "name", memory{"Chart.yaml": "name: c\n"}); err == nil || err.Error() != "--helm-values: file does not exist" {
		t.Errorf("got %v", err)
	}
	empty(t, temp)
}

// TestDependencies renders charts whose dependencies are there, beside them, or missing.
func TestDependencies(t *testing.T) {
	temp := fake(t, `if [ "$1" = pull ]; then echo "$* $https_proxy" >> pulled; exit 0; fi
ls chart/charts; cat pulled 2>/dev/null; true
`)
	t.Setenv("https_proxy", "mine")
	chart := func(dependencies string) memory {
		return memory{"Chart.yaml": "name: c\ndependencies: " + dependencies + "\n", "charts/have/Chart.yaml": "name: other\n", "charts/packed-1.0.0.tgz": "",
			"Chart.lock": "dependencies: [{name: redis, version: 17.0.1}]\n"}
	}
	for _, test := range []struct {
		dependencies string
		network      bool
		want         string
	}{
		{"[{name: have}, {name: other}, {name: packed, version: 1.x}]", false, "have\npacked-1.0.0.tgz\n"},
		{"[{name: lib, repository: 'file://../lib'}]", false, "dependency-0\nhave\npacked-1.0.0.tgz\n"},
		{"[{name: lib, repository: 'file://../gone'}]", false, "dependency lib (file://../gone): no such chart"},
		{"[{name: pack, version: 1.x}]", false, "dependency not in charts/: pack 1.x: run helm dependency build NAME, or load it from the network with --helm-network"},
		{"[{name: redis, version: 17.x, repository: 'https://example.com/c'}, {name: x, repository: 'oci://example.com'}]", false,
			"dependencies not in charts/: redis 17.x (https://example.com/c), x (oci://example.com): run helm dependency build NAME, or load them from the network with --helm-network"},
		{"[{name: redis, version: 17.x, repository: 'https://example.com/c'}, {name: x, version: 2.x, repository: 'oci://example.com/'}]", true,
			"have\npacked-1.0.0.tgz\npull --destination=chart/charts --version=17.0.1 --repo=https://example.com/c -- redis mine\n" +
				"pull --destination=chart/charts --version=2.x -- oci://example.com/x mine\n"},
		{"[{name: x, repository: '@mine'}]", true, "dependency x (@mine): its repository is no URL: run helm dependency build, which knows your repositories"},
	} {
		r := &Renderer{Network: test.network}
		out, err := r.Render(t.Context(), "NAME", chart(test.dependencies))
		if got := string(out); err == nil && got != test.want || err != nil && err.Error() != test.want {
			t.Errorf("%s: got %q, %v, want %q", test.dependencies, out, err, test.want)
		}
	}
	old := memory{"Chart.yaml": "name: c\napiVersion: v1\n", "requirements.yaml": "dependencies: [{name: x}]\n"}
	var missing *DependencyError
	if _, err := new(Renderer).Render(t.Context(), "NAME", old); !errors.As(err, &missing) {
		t.Errorf("got %v", err)
	}
	empty(t, temp)
}

// TestRenderFaults renders charts that cannot be rendered, with programs that fail.
func TestRenderFaults(t *testing.T) {
	temp := fake(t, "echo \"Error: $PWD/chart/x is bad, and $PWD/values-0.yaml\" >&2\nexit 1\n")
	for _, test := range []struct {
		chart memory
		want  string
	}{
		{memory{"Chart.yaml": "name: c\n"}, "helm: NAME/x is bad, and values-0.yaml"},
		{memory{"Chart.yaml": "name: c\ntype: library\n"}, ErrLibrary.Error()},
		{memory{}, "there is no Chart.yaml"},
		{memory{"Chart.yaml": "name: [c\n"}, "Chart.yaml: error converting YAML to JSON: yaml: line 1: did not find expected ',' or ']'"},
	} {
		if out, err := new(Renderer).Render(t.Context(), "NAME", test.chart); err == nil || err.Error() != test.want {
			t.Errorf("got %q, %v, want %s", out, err, test.want)
		}
	}
	empty(t, temp)
	t.Setenv("PATH", t.TempDir())
	if _, err := new(Renderer).Render(t.Context(), "NAME", memory{"Chart.yaml": "name: c\n"}); !errors.Is(err, render.ErrMissing) {
		t.Errorf("got %v", err)
	}
	empty(t, temp)
	// A run that is cancelled leaves nothing.
	temp = fake(t, "touch "+filepath.Join(t.TempDir(), "x")+"; sleep 600\n")
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := new(Renderer).Render(ctx, "NAME", memory{"Chart.yaml": "name: c\n"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	empty(t, temp)
}

func TestIsChart(t *testing.T) {
	t.Parallel()
	got := slices.Collect(func(yield func(bool) bool) {
		for _, text := range []string{"name: c", "", "- a", "kind: Chart", "name: [", "{name: c, apiVersion: v1}"} {
			if !yield(IsChart([]byte(text))) {
				return
			}
		}
	})
	if !slices.Equal(got, []bool{true, false, false, false, false, true}) {
		t.Errorf("got %v", got)
	}
	if !IsArchive("a-1.TGZ") || !IsArchive("a.tar.gz") || IsArchive("a.gz") || strings.Contains(Dependency{Name: "a"}.String(), " ") {
		t.Error("wrong names")
	}
}
