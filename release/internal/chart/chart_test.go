package chart

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const deploy = "../../../deploy"

func TestManifests(t *testing.T) {
	t.Parallel()
	got, err := Chart{deploy, "1.2.3-rc.1", "registry.example.com:5000/a/espalier"}.Manifests()
	if err != nil {
		t.Fatal(err)
	}
	source := read(t, filepath.Join(deploy, "kubernetes", "namespace.yaml")) + "---\n" + read(t, filepath.Join(deploy, "kubernetes", "espalier.yaml"))
	want := map[string]int{
		`- image: espalier.dev/espalier:0.1.0`:                     1,
		`+ image: registry.example.com:5000/a/espalier:1.2.3-rc.1`: 1,
		`- app.kubernetes.io/version: "0.1.0"`:                     6,
		`+ app.kubernetes.io/version: "1.2.3-rc.1"`:                6,
	}
	if got := changes(t, source, string(got)); !maps.Equal(got, want) {
		t.Errorf("changed lines %v, expected %v", got, want)
	}
}

// A manifest that the chart of the source did not render is an error.
func TestManifestsErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, file, old, new, want string }{
		{"other image", "kubernetes/espalier.yaml", "espalier.dev/espalier:0.1.0", "espalier.dev/other:0.1.0", "unexpected line"},
		{"other version", "chart/Chart.yaml", "appVersion: 0.1.0", "appVersion: 0.2.0", "unexpected line"},
		{"another place", "kubernetes/espalier.yaml", "- serve\n", "- serve\n        - --version=0.1.0\n", `unexpected line with the image or version of the chart: "- --version=0.1.0"`},
		{"no label", "kubernetes/espalier.yaml", "app.kubernetes.io/version: \"0.1.0\"", "other: label", "has no line \"app.kubernetes.io/version"},
		{"two versions", "chart/Chart.yaml", "appVersion: 0.1.0", "appVersion: 0.1.0\nappVersion: 0.1.0", "has 2 lines with appVersion: there must be one"},
		{"no repository", "chart/values.yaml", "  repository: ", "  name: ", "has 0 lines with repository: there must be one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "deploy")
			if err := os.CopyFS(dir, os.DirFS(deploy)); err != nil {
				t.Fatal(err)
			}
			name := filepath.Join(dir, c.file)
			text := read(t, name)
			changed := strings.ReplaceAll(text, c.old, c.new)
			if changed == text {
				t.Fatalf("%s has no %q", c.file, c.old)
			}
			if err := os.WriteFile(name, []byte(changed), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := (Chart{dir, "1.2.3", "example.com/espalier"}).Manifests(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, expected %s", err, c.want)
			}
		})
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "chart.tgz")
	if err := (Chart{deploy, "1.2.3", "example.com/espalier"}).Write(name, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		file, ok := strings.CutPrefix(h.Name, "espalier/")
		if !ok {
			t.Errorf("%s is not below espalier", h.Name)
		}
		maps.Copy(got, changes(t, read(t, filepath.Join(deploy, "chart", file)), string(text)))
	}
	want := map[string]int{"- version: 0.1.0": 1, `+ version: "1.2.3"`: 1, "- appVersion: 0.1.0": 1, `+ appVersion: "1.2.3"`: 1,
		"- repository: espalier.dev/espalier": 1, `+ repository: "example.com/espalier"`: 1}
	if !maps.Equal(got, want) {
		t.Errorf("changed lines %v, expected %v", got, want)
	}
}

// changes counts the lines that differ, without their indentation, which must be equal.
func changes(t *testing.T, old, changed string) map[string]int {
	t.Helper()
	a, b := slices.Collect(strings.Lines(old)), slices.Collect(strings.Lines(changed))
	if len(a) != len(b) {
		t.Fatalf("%d lines, expected %d:\n%s", len(b), len(a), changed)
	}
	count := map[string]int{}
	for i := range a {
		if a[i] == b[i] {
			continue
		}
		x, y := strings.TrimLeft(a[i], " "), strings.TrimLeft(b[i], " ")
		if len(a[i])-len(x) != len(b[i])-len(y) {
			t.Errorf("indentation of %q is not that of %q", b[i], a[i])
		}
		count["- "+strings.TrimSpace(x)]++
		count["+ "+strings.TrimSpace(y)]++
	}
	return count
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
