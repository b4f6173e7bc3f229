package input

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"espalier.dev/cmd/espalier/internal/helm"
)

// fakeHelm writes a program helm to a directory and makes it the only one in PATH.
func fakeHelm(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if script != "" {
		if err := os.WriteFile(filepath.Join(dir, "helm"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+"/usr/bin:/bin")
	if script == "" {
		t.Setenv("PATH", dir)
	}
}

// pack returns a packaged chart.
func pack(t *testing.T, files map[string]string) string {
	t.Helper()
	var text bytes.Buffer
	compressed := gzip.NewWriter(&text)
	archive := tar.NewWriter(compressed)
	for name, content := range files {
		header := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg}
		if target, ok := strings.CutPrefix(content, "link "); ok {
			*header = tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target}
			content = ""
		}
		if err := archive.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := compressed.Close(); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

const rendersAll = `cat <<'END'
---
# Source: c/crds/crd.yaml
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
---
kind: Second
apiVersion: v1
---
# Source: c/charts/sub/templates/x.yaml
apiVersion: v1
kind: Sub
---
# Source: c/templates/a.yaml
apiVersion: v1
kind: A
data: {x: '{{ $labels.x }}'}
---
# Source: c/templates/a.yaml
apiVersion: v1
kind: B
END
`

// positions returns the objects with their positions.
func positions(t *testing.T, dir string, flags Flags) (all []string, problems []string) {
	t.Helper()
	flags.Git = in(t, dir)
	visit := func(it *Item) error {
		text := it.File
		if line := it.Position("/kind").Key.Line; line > 0 {
			text += ":" + string(rune('0'+line))
		}
		all = append(all, it.Kind()+" "+text)
		return nil
	}
	if err := Read(t.Context(), strings.NewReader(""), flags, visit, func(p Problem) { problems = append(problems, p.Error()) }); err != nil {
		t.Fatal(err)
	}
	return all, problems
}

// TestCharts renders charts that are directories, archives, files of a revision, or found, and reads
// them without helm.
func TestCharts(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"repo/c/Chart.yaml":                     "apiVersion: v2\nname: c\nversion: 1.0.0\ndependencies:\n- {name: lib, version: 1.0.0, repository: 'file://../lib'}\n",
		"repo/c/values.yaml":                    "a: b\n",
		"repo/c/crds/crd.yaml":                  "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n---\nkind: Second\napiVersion: v1\n",
		"repo/c/templates/a.yaml":               "{{- if .Values.a }}\napiVersion: v1\nkind: {{ .Values.a }}\n{{- end }}\n",
		"repo/c/templates/plain.yaml":           "apiVersion: v1\nkind: Plain\n",
		"repo/c/templates/_helpers.yaml":        "{{ define \"x\" }}{{ end }}\n",
		"repo/c/charts/sub/Chart.yaml":          "name: sub\n",
		"repo/c/charts/sub/templates/x.yaml":    "apiVersion: v1\n{{ x }}\nkind: Sub\n",
		"repo/c/charts/sub/templates/more.yaml": "apiVersion: v1\nkind: More\n",
		"repo/lib/Chart.yaml":                   "apiVersion: v2\nname: lib\ntype: library\n",
		"repo/other/Chart.yaml":                 "- not a chart\n",
		"repo/plain.yaml":                       "apiVersion: v1\nkind: Outside\n",
	})
	want := []string{"CustomResourceDefinition repo/c/crds/crd.yaml:3", "Second repo/c/crds/crd.yaml:5",
		"Sub repo/c/charts/sub/templates/x.yaml:3", "A repo/c/templates/a.yaml:3", "B repo/c/templates/a.yaml:3"}
	equal := func(what string, got, want []string) {
		t.Helper()
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s: got\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	named := func() Flags { return Flags{Helm: new(helm.Renderer), HelmNamed: true, Skipped: new(Skipped)} }

	fakeHelm(t, rendersAll)
	if _, problems := positions(t, dir, Flags{Paths: []string{"oci://example.com/c"}}); strings.Join(problems, "") !=
		"oci://example.com/c: charts in registries are not supported: run helm pull oci://example.com/c, and name the .tgz file" {
		t.Errorf("got %q", problems)
	}
	flags := named()
	flags.Paths = []string{"repo/c"}
	got, problems := positions(t, dir, flags)
	equal("directory", append(got, problems...), want)

	flags.Paths, flags.HelmNamed, flags.Recursive = []string{"repo"}, false, true
	got, problems = positions(t, dir, flags)
	equal("found", append(got, problems...), append(slices.Clip(want), "Outside repo/plain.yaml:2",
		"repo/other/Chart.yaml:1:1: got a list, want an object with apiVersion and kind"))
	if got, want := flags.Skipped.String(), "skipped: 1 library chart (charts that use them render them)"; got != want {
		t.Errorf("got %s", got)
	}
	kinds, _ := readAll(t, dir, flags)
	if got := strings.Join(kinds, " "); got != "CustomResourceDefinition Second Sub A B Outside" {
		t.Errorf("got %s", got)
	}

	write(t, dir, map[string]string{"c-1.0.0.tgz": pack(t, map[string]string{
		"c/Chart.yaml": "apiVersion: v2\nname: c\n", "c/templates/a.yaml": "#\n#\n#\nkind: {{ x }}\n", "c/templates/plain.yaml": "apiVersion: v1\nkind: Plain\n",
		"c/charts/sub-1.2.3.tgz": "", "c/../../evil": "x", "c/link": "link /etc/passwd",
	})})
	flags = named()
	flags.Paths = []string{"c-1.0.0.tgz"}
	got, problems = positions(t, dir, flags)
	equal("archive", append(got, problems...), []string{"CustomResourceDefinition c-1.0.0.tgz/crds/crd.yaml:3", "Second c-1.0.0.tgz/crds/crd.yaml:5",
		"Sub c-1.0.0.tgz/charts/sub-1.2.3.tgz/templates/x.yaml", "A c-1.0.0.tgz/templates/a.yaml:4", "B c-1.0.0.tgz/templates/a.yaml:4"})

	// Without helm, what needs no rendering is read.
	fakeHelm(t, "")
	flags = named()
	flags.Paths = []string{"repo/c", "c-1.0.0.tgz"}
	got, problems = positions(t, dir, flags)
	equal("without helm", append(got, problems...), []string{"CustomResourceDefinition repo/c/crds/crd.yaml:3", "Second repo/c/crds/crd.yaml:5",
		"Plain repo/c/templates/plain.yaml:2", "More repo/c/charts/sub/templates/more.yaml:2", "Plain c-1.0.0.tgz/templates/plain.yaml:2"})
	if got, want := flags.Skipped.String(), "skipped: 4 Helm templates of 2 charts (helm is not in PATH: install it to render them)"; got != want {
		t.Errorf("got %s", got)
	}
	flags.HelmNamed, flags.Skipped = false, new(Skipped)
	if _, problems = positions(t, dir, flags); len(problems) != 2 || !strings.HasPrefix(problems[0], "repo/c: cannot render the chart: helm is not in PATH: install it") {
		t.Errorf("got %q", problems)
	}
}

// TestChartFIFO does not wait for a file of a chart, and does not follow links out of it.
func TestChartFIFO(t *testing.T) {
	dir := t.TempDir()
	fakeHelm(t, rendersAll)
	write(t, dir, map[string]string{"a/Chart.yaml": "name: a\n", "b/Chart.yaml": "name: b\n", "secret/x": "x\n"})
	if err := syscall.Mkfifo(filepath.Join(dir, "a/values.yaml"), 0o644); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink("../secret", filepath.Join(dir, "b/files")); err != nil {
		t.Skip(err)
	}
	kinds, problems := readAll(t, dir, Flags{Paths: []string{"a", "b"}, Helm: new(helm.Renderer), HelmNamed: true})
	want := "a: cannot render the chart: a/values.yaml is not a regular file\nb: cannot render the chart: the link b/files leads out of b"
	if len(kinds) > 0 || strings.Join(problems, "\n") != want {
		t.Errorf("got %q, %q", kinds, problems)
	}
}
