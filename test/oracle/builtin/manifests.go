package builtin

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// Manifest is an object in a file of a public project.
type Manifest struct {
	File   string
	Object map[string]any
}

// Manifests returns the objects in all YAML and JSON files below a directory. Files that are
// something else, such as templates, are skipped.
func Manifests(dir string) ([]Manifest, error) {
	var out []Manifest
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !bytes.Contains(data, []byte("apiVersion")) {
			return nil
		}
		objects, err := ReadManifest(data)
		if err != nil {
			return nil
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		out = append(out, manifests(name, objects)...)
		return nil
	})
	return out, err
}

// manifests returns the objects of a file, and the items of its lists.
func manifests(file string, objects []map[string]any) (out []Manifest) {
	for _, obj := range objects {
		items, ok := obj["items"].([]any)
		if !ok {
			out = append(out, Manifest{file, obj})
			continue
		}
		for _, item := range items {
			if o, ok := item.(map[string]any); ok {
				out = append(out, Manifest{file, o})
			}
		}
	}
	return out
}

// Charts returns the objects of all Helm charts below a directory, with their default values, as
// the program helm renders them. Those that need other values are skipped, and counted.
func Charts(helm, dir string) (out []Manifest, skipped int, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() != "Chart.yaml" {
			return err
		}
		chart := filepath.Dir(path)
		if _, err := os.Stat(filepath.Join(filepath.Dir(filepath.Dir(chart)), "Chart.yaml")); err == nil {
			return nil // it is a part of another one
		}
		name, err := filepath.Rel(dir, chart)
		if err != nil {
			return err
		}
		text, err := exec.Command(helm, "template", "release", chart, "--namespace", "default", "--kube-version", "v1.36.3").Output()
		if err != nil {
			skipped++
			return nil
		}
		objects, err := ReadManifest(text)
		if err != nil {
			skipped++
			return nil
		}
		out = append(out, manifests(name, objects)...)
		return nil
	})
	return out, skipped, err
}

// Check compares the creation of an object of a manifest. It returns nil if both sides agree.
func (r *Runner) Check(k *Kind, obj map[string]any) (*Finding, error) {
	c := &Case{Op: "create", Object: obj}
	if k.Namespaced {
		c.Namespace = "default"
		if m, ok := obj["metadata"].(map[string]any); ok {
			if namespace, ok := m["namespace"].(string); ok && namespace != "" {
				c.Namespace = namespace
			}
		}
	}
	d, _, err := r.check(k, c, manyAttempts)
	if d == nil || err != nil {
		return nil, err
	}
	return r.finding(k, c, d)
}

// Accepts reports whether an object has the apiVersion and kind of a kind's requests.
func (k *Kind) Accepts(obj map[string]any) bool {
	apiVersion, kind := k.requested().ToAPIVersionAndKind()
	return obj["apiVersion"] == apiVersion && obj["kind"] == kind
}
