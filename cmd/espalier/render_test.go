package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// renderers replaces PATH by a directory with shell scripts, apart from git and the tools that they
// need, and returns an empty directory that is the place of temporary files.
func renderers(t *testing.T, scripts map[string]string) (temp string) {
	t.Helper()
	bin := t.TempDir()
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	temp = t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+"/usr/local/bin:/usr/bin:/bin")
	return temp
}

// leftNothing checks that nothing is left of temporary files.
func leftNothing(t *testing.T, temp string) {
	t.Helper()
	if entries, err := os.ReadDir(temp); err != nil || len(entries) > 0 {
		t.Errorf("%v is left, %v", entries, err)
	}
}

// TestRendered reads a chart and a kustomization in the working tree and in a revision, alone and
// compared with each other.
func TestRendered(t *testing.T) {
	temp := renderers(t, map[string]string{
		"helm": `printf -- '---\n# Source: c/templates/a.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n'; cat chart/values.yaml
printf -- '  # espalier:ignore decode\n  b: 1\n'
`,
		"kustomize": `test "$1" = build && cat "$2/../base/x.yaml"` + "\n",
	})
	p := newPlace(t)
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata:\n"
	for name, text := range map[string]string{
		"charts/c/Chart.yaml":       "name: c\n",
		"charts/c/values.yaml":      "  x: a\n",
		"charts/c/templates/a.yaml": "kind: ConfigMap\ndata:\n  y: 1\n\n  x: {{ .Values.x }}\n",
		"k/base/kustomization.yaml": "resources: [x.yaml]\n",
		"k/base/x.yaml":             object + "  x: a\n",
		"k/over/kustomization.yaml": "resources: [../base]\n",
	} {
		p.write(name, text)
	}
	p.git("init -q -b main", "add -A", "commit -qm one")
	p.write("charts/c/values.yaml", "  x: 1\n")
	writeFile(t, p.path("k/base/x.yaml"), []byte(object+"  x: 1\n"))
	const (
		inChart = "charts/c/templates/a.yaml:5:6: error: data.x: must be a string, is 1: put it in quotes [decode] (ConfigMap a)\n" +
			" 5 |   x: 1\n   |      ^\n   = rendered by helm from the template\n"
		inOver = "k/base/x.yaml:5:6: error: data.x: must be a string, is 1: put it in quotes [decode] (ConfigMap b)\n 5 |   x: 1\n   |      ^\n"
	)
	for _, test := range []struct {
		args string
		want []string
		code int
	}{
		{"validate charts/c", []string{inChart, "1 error in 1 object"}, 1},
		{"validate k/over", []string{inOver}, 1},
		{"validate git:HEAD:charts/c git:HEAD:k/over", []string{"no findings in 2 objects"}, 0},
		{"validate --base main charts/c", []string{inChart, "0 created, 1 updated, 0 removed, 0 unchanged"}, 1},
		{"validate --base main k/over", []string{inOver, "0 created, 1 updated, 0 removed, 0 unchanged"}, 1},
		// Files of the kustomization in k/over have not changed, but what it includes has.
		{"validate --base main -R . --helm --kustomize", []string{inChart, inOver, "0 created, 3 updated, 0 removed, 0 unchanged"}, 1},
		{"review --base main --helm --kustomize", []string{inChart, inOver, "3 errors in 3 objects"}, 1},
		{"validate charts/c -o github", []string{"::error file=charts/c/templates/a.yaml,line=5,col=6,endLine=5,endColumn=7,title=ConfigMap a%3A decode::"}, 1},
		{"validate -R charts", []string{"Helm template: render it first: name its chart, or let --helm render all charts"}, 2},
		{"fix charts/c --helm", []string{"fix changes files: it does not render charts and kustomizations"}, 2},
		{"validate charts/c --helm=never", []string{"must be auto, render or read"}, 2},
	} {
		out, code := p.run(strings.Fields(test.args)...)
		for _, want := range test.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: %q is not in:\n%s", test.args, want, out)
			}
		}
		if code != test.code {
			t.Errorf("%s: exits with %d:\n%s", test.args, code, out)
		}
	}
	out, _ := p.run("validate", "charts/c", "-o", "json")
	var report struct {
		Findings []struct {
			File     string
			Line     int
			Rendered bool
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.Findings) != 1 || !report.Findings[0].Rendered ||
		report.Findings[0].File != "charts/c/templates/a.yaml" || report.Findings[0].Line != 5 {
		t.Errorf("got %+v, %v", report, err)
	}
	leftNothing(t, temp)
}

// TestUnknownLine reports what no line of the template explains without a line.
func TestUnknownLine(t *testing.T) {
	renderers(t, map[string]string{"helm": "printf -- '---\\n# Source: c/templates/a.yaml\\napiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: a}\\ndata:\\n  x: 1\\n'\n"})
	p := newPlace(t)
	p.write("c/Chart.yaml", "name: c\n")
	writeFile(t, p.path("c/templates/a.yaml"), []byte("{{ include \"all\" . }}\n"))
	out, code := p.run("validate", "c")
	want := "c/templates/a.yaml: error: data.x: must be a string, is 1: put it in quotes [decode] (ConfigMap a)\n" +
		"   |   x: 1\n   |      ^\n   = rendered by helm from the template\n"
	if !strings.HasPrefix(out, want) || code != 1 {
		t.Errorf("exits with %d: %s", code, out)
	}
	out, _ = p.run("validate", "c", "-o", "github")
	if want := "::error file=c/templates/a.yaml,title=ConfigMap a%3A decode::"; !strings.HasPrefix(out, want) {
		t.Errorf("got %s", out)
	}
}

// TestKubeVersion renders charts for the version of --kubernetes-version.
func TestKubeVersion(t *testing.T) {
	renderers(t, map[string]string{"helm": "echo \"Error: $*\" >&2; exit 1\n"})
	p := newPlace(t)
	p.write("c/Chart.yaml", "name: c\n")
	for args, want := range map[string]string{"": "--kube-version=v" + kubernetesLevel + ".0 ", "--kubernetes-version=1.31": "--kube-version=v1.31.0 "} {
		for _, command := range []string{"validate", "lint"} {
			if out, code := p.run(strings.Fields(command + " c " + args)...); code != 2 || !strings.Contains(out, want) {
				t.Errorf("%s %s: exits with %d: %s", command, args, code, out)
			}
		}
	}
}

// TestRenderSignal terminates the program while helm hangs: neither helm nor a copy of the chart is
// left.
func TestRenderSignal(t *testing.T) {
	started := filepath.Join(t.TempDir(), "started")
	temp := renderers(t, map[string]string{"helm": "trap '' TERM INT\necho $$ > " + started + "\nwhile :; do sleep 1; done\n"})
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "Chart.yaml"), []byte("name: c\n"))
	p := startProcess(t, nil, "validate", dir)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if text, _ := os.ReadFile(started); len(text) > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("helm is not started")
		}
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.exit(t); code != 143 {
		t.Errorf("exits with %d: %s", code, p.stderr.String())
	}
	leftNothing(t, temp)
}

// TestKustomizeSources reports findings about what kustomize builds in the files that it comes from.
func TestKustomizeSources(t *testing.T) {
	const crd = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: NAME}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: PLURAL, singular: PLURALx, kind: K, listKind: KList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, description: A spec., properties: {few: {type: string, minLength: 9, maxLength: 5}}}
`
	things := strings.NewReplacer("NAME", "things.example.com", "PLURAL", "thing", "kind: K,", "kind: Thing,", "KList", "ThingList").Replace(crd)
	things = strings.Replace(things, "plural: thing,", "plural: things,", 1)
	notes := strings.NewReplacer("thing", "note", "Thing", "Note").Replace(things)
	renderers(t, map[string]string{
		// Things are built as they are, notes and a config map are patched, and one is generated.
		"kustomize": `cat "$2/bases/things.yaml"; echo ---; sed 's/A spec/A patched spec/' "$2/bases/notes.yaml"
echo ---; sed 's/one/1/' "$2/bases/map.yaml"
echo ---; printf 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: generated}\ndata: {a: 1}\n'
`,
	})
	p := newPlace(t)
	p.write("config/crd/kustomization.yaml", "resources: [bases/things.yaml, bases/notes.yaml, bases/map.yaml]\nconfigMapGenerator: [{name: generated}]\n")
	writeFile(t, p.path("config/crd/bases/things.yaml"), []byte("# A comment.\n"+things))
	p.write("config/crd/bases/notes.yaml", notes)
	p.write("config/crd/bases/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map}\ndata:\n  patched: one\n  own: 2\n")
	out, _ := p.run("lint", "config/crd")
	for _, want := range []string{
		"config/crd/bases/things.yaml:17:",
		"config/crd/bases/notes.yaml:16:",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in:\n%s", want, out)
		}
	}
	if strings.Contains(out, "<kustomize") {
		t.Errorf("got %s", out)
	}
	out, code := p.run("validate", "config/crd", "-o", "github")
	for _, want := range []string{
		"::error file=config/crd/bases/map.yaml,title=ConfigMap map%3A decode::data.patched: must be a string, is 1: put it in quotes%0Aset by the kustomization that builds the object",
		"::error file=config/crd/bases/map.yaml,line=6,col=8,endLine=6,endColumn=9,title=ConfigMap map%3A decode::data.own: must be a string, is 2: put it in quotes\n",
		"::error file=config/crd/kustomization.yaml,title=ConfigMap generated%3A decode::data.a: must be a string, is 1: put it in quotes%0Aset by the kustomization that builds the object",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in:\n%s", want, out)
		}
	}
	if code != 1 {
		t.Errorf("exits with %d: %s", code, out)
	}
	// The configuration of the guide for CI, and a comment in a source that is patched.
	p.write(".espalier.yaml", "crds: [config/crd]\nignore:\n- rules: [all]\n  paths: [config/crd/bases/thin*.yaml]\n  reason: old\n")
	writeFile(t, p.path("config/crd/bases/notes.yaml"), []byte(strings.Replace(notes, "          spec:", "          # espalier:ignore impossible-bounds\n          spec:", 1)))
	if out, _ = p.run("lint"); strings.Contains(out, "things.yaml") || strings.Contains(out, "[impossible-bounds]") {
		t.Errorf("got %s", out)
	}
}
