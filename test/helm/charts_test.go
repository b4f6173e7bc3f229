package helm

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"espalier.dev/internal/program"
)

// kustomize is what the test binary does if its name is kustomize: kustomize build DIR.
func kustomize(args []string) error {
	if len(args) != 2 || args[0] != "build" {
		return fmt.Errorf("unknown arguments %q", args)
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), args[1])
	if err != nil {
		return err
	}
	text, err := built.AsYaml()
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(text)
	return err
}

// commandLine is the espalier program, with helm and kustomize in PATH.
type commandLine struct{ program, dir string }

func newCommandLine(t *testing.T) *commandLine {
	t.Helper()
	bin := t.TempDir()
	c := &commandLine{program: program.Path(t, program.Complete), dir: t.TempDir()}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"helm", "kustomize"} {
		if err := os.Symlink(self, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	t.Setenv(asHelm, "1")
	return c
}

// run runs a program in the directory of the test, and returns its output and its exit code.
func (c *commandLine) run(t *testing.T, program string, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = c.dir
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// espalier runs espalier, which must exit with a code, and returns its output.
func (c *commandLine) espalier(t *testing.T, code int, args ...string) string {
	t.Helper()
	out, got := c.run(t, c.program, args...)
	if got != code {
		t.Errorf("espalier %s exits with %d:\n%s", strings.Join(args, " "), got, out)
	}
	return out
}

func (c *commandLine) write(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(c.dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// files returns the names and contents of all files of the directory.
func (c *commandLine) files(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(c.dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		all[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\n"

// TestCharts reads charts and kustomizations with espalier, which runs the real helm and the
// library of kustomize.
func TestCharts(t *testing.T) {
	c := newCommandLine(t)
	if err := os.CopyFS(filepath.Join(c.dir, "chart"), os.DirFS(chart)); err != nil {
		t.Fatal(err)
	}
	object := func(name string) string { return fmt.Sprintf(configMap, name) }
	c.write(t, map[string]string{
		// A chart with a chart in a directory, one in an archive, and one beside it.
		"sub/Chart.yaml":            "apiVersion: v2\nname: sub\nversion: 1.0.0\n",
		"sub/templates/sub.yaml":    object("sub") + "data:\n  x: {{ .Values.x | default 1 }}\n",
		"sub/crds/a.yaml":           "# a comment\n" + object("first") + "---\n" + object("second") + "data: {z: 2}\n",
		"lib/Chart.yaml":            "apiVersion: v2\nname: lib\nversion: 1.0.0\ntype: library\n",
		"lib/templates/_lib.tpl":    "{{ define \"lib.name\" }}lib{{ end }}\n",
		"top/Chart.yaml":            "apiVersion: v2\nname: top\nversion: 1.0.0\ndependencies:\n- {name: lib, version: 1.0.0, repository: file://../lib}\n- {name: sub, version: 1.0.0, alias: other}\n",
		"top/templates/top.yaml":    object("{{ include \"lib.name\" . }}") + "data:\n  kube: {{ .Capabilities.KubeVersion.Version }}\n  ns: {{ .Release.Namespace }}\n  x: {{ .Values.x }}\n",
		"top/templates/NOTES.txt":   "{{ .Release.Name }}\n",
		"top/values.yaml":           "x: text\n",
		"three.yaml":                "x: 3\n",
		"needs/Chart.yaml":          "apiVersion: v2\nname: needs\nversion: 1.0.0\n",
		"needs/templates/a.yaml":    "# comment\n" + object("{{ required \"name must be set\" .Values.name }}"),
		"gone/Chart.yaml":           "apiVersion: v2\nname: gone\nversion: 1.0.0\ndependencies:\n- {name: redis, version: 17.x, repository: 'https://charts.example.com'}\n",
		"broken/Chart.yaml":         "apiVersion: v2\nname: broken\nversion: 1.0.0\n",
		"broken/templates/a.yaml":   "kind: {{ if }}\n",
		"k/base/object.yaml":        object("a"),
		"k/base/kustomization.yaml": "resources: [object.yaml]\n",
		"k/over/kustomization.yaml": "resources: [../base]\nnamePrefix: p-\npatches: [{path: patch.yaml}]\n",
		"k/over/patch.yaml":         object("a") + "data: {x: 1}\n",
	})
	for _, name := range []string{"sub", "chart"} {
		if out, code := c.run(t, "helm", "package", name); code != 0 {
			t.Fatal(out)
		}
	}
	if err := os.MkdirAll(filepath.Join(c.dir, "top/charts"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(c.dir, "sub-1.0.0.tgz"), filepath.Join(c.dir, "top/charts/sub-1.0.0.tgz")); err != nil {
		t.Fatal(err)
	}
	before := c.files(t)

	// All objects are read, those of hooks and tests too.
	rendered, _ := c.run(t, "helm", "template", "chart", "--include-crds", "--kube-version", "1.37.0")
	objects := strings.Count(rendered, "\nkind: ")
	if objects == 0 {
		t.Fatal(rendered)
	}
	for _, path := range []string{"chart", "site-1.0.0.tgz"} {
		contains(t, c.espalier(t, 0, "validate", path), fmt.Sprintf("no findings in %d objects", objects))
		contains(t, c.espalier(t, 1, "validate", path, "--helm-set", "size=11"),
			path+"/templates/widget.yaml:", "spec.size in body should be less than or equal to 10", "(Widget release-name)", "= rendered by helm from the template")
		contains(t, c.espalier(t, 2, "validate", path, "--helm-set", "color=pink"),
			path+": error: cannot render the chart: values don't meet the specifications of the schema", "'/color': value must be one of 'red', 'green', 'blue': set values with --helm-values or --helm-set [unrendered]")
	}
	contains(t, c.espalier(t, 0, "explain", "widgets", "--crd", "chart"), "Widget")
	contains(t, c.espalier(t, 0, "diff", "chart", "site-1.0.0.tgz"), "no findings in 1 CRD")

	// Positions are those of templates and of files in crds, also in archives.
	out := c.espalier(t, 1, "validate", "top")
	contains(t, out, "top/charts/sub-1.0.0.tgz/templates/sub.yaml: error: data.x: must be a string, is 1",
		"top/charts/sub-1.0.0.tgz/crds/a.yaml:11:11: error: data.z: must be a string, is 2", "2 errors in 4 objects")
	out = c.espalier(t, 1, "validate", "top", "--helm-values", "three.yaml", "--helm-namespace", "prod", "-o", "json")
	contains(t, out, `"file":"top/templates/top.yaml","line":8,"column":6,`, `"rendered":true`)
	contains(t, c.espalier(t, 1, "prune", "top", "--helm-namespace", "prod"), "ns: prod", "kube: v1.37.0", "name: lib")

	// What cannot be rendered.
	contains(t, c.espalier(t, 2, "validate", "needs"), "needs/templates/a.yaml:5:11: error: cannot render the chart needs: name must be set: set values with --helm-values or --helm-set")
	contains(t, c.espalier(t, 0, "validate", "needs", "--helm-set", "name=a"), "no findings in 1 object")
	contains(t, c.espalier(t, 2, "validate", "gone"), "gone: error: cannot render the chart: dependency not in charts/: redis 17.x (https://charts.example.com): "+
		"run helm dependency build gone, or load it from the network with --helm-network")
	contains(t, c.espalier(t, 2, "validate", "broken"), "broken/templates/a.yaml:1:1: error: cannot render the chart broken: ")

	// Found charts and kustomizations.
	contains(t, c.espalier(t, 2, "validate", "-R", ".", "--helm", "--kustomize"), "skipped: 1 library chart",
		"k/base/object.yaml: error: data.x: must be a string, is 1: put it in quotes [decode] (ConfigMap p-a)", "3 inputs could not be processed")
	contains(t, c.espalier(t, 1, "validate", "k/over"), "(ConfigMap p-a)", "1 error in 1 object")
	contains(t, c.espalier(t, 0, "validate", "k/base"), "no findings in 1 object")

	if after := c.files(t); !maps.Equal(before, after) {
		t.Errorf("files have changed: %q, %q", slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "one"}} {
		if out, code := c.run(t, "git", args...); code != 0 {
			t.Skipf("git: %s", out)
		}
	}
	if err := os.RemoveAll(filepath.Join(c.dir, "chart")); err != nil {
		t.Fatal(err)
	}
	contains(t, c.espalier(t, 0, "validate", "git:HEAD:chart", "git:HEAD:k/base"), fmt.Sprintf("no findings in %d objects", objects+1))
	contains(t, c.espalier(t, 1, "validate", "git:HEAD:top"), "git:HEAD:top/charts/sub-1.0.0.tgz/crds/a.yaml:11:11: error: data.z")
}
